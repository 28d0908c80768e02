"""Every row of the table of the API (mesh wire 13), against a running node. The answers are the reference's."""

import base64
import secrets
import time
from typing import Any

import pytest

from moothall.identity import PrivateKey
from moothall.identity.signatures import verify
from moothall.node_api.routes import SIGN_PREFIX
from moothall.wire.mesh.keccak import keccak256
from moothall.wire.mesh.peer_ids import base58, peer_id
from tests.support.node_process import MASTER, READER, NodeProcess, heard, of_type

AGENT = "ab" * 32
CONVERSATION = "11" * 16

# The table: method, path, level.
ROUTES = [
    ("GET", "/identity", "R"),
    ("POST", "/identity/sign", "M"),
    ("GET", "/identity/export-key", "M"),
    ("GET", "/peers", "R"),
    ("GET", f"/reputation/{AGENT}", "R"),
    ("GET", f"/batch/{AGENT}/1", "R"),
    ("POST", "/envelopes/send", "M"),
    ("POST", "/negotiate/propose", "M"),
    ("POST", "/negotiate/counter", "M"),
    ("POST", "/negotiate/accept", "M"),
    ("POST", "/topics/x/broadcast", "M"),
    ("GET", "/inbox", "R"),
    ("GET", "/failures", "R"),
    ("POST", "/escrow/lock", "M"),
    ("POST", "/escrow/approve", "M"),
    ("POST", "/tasks/log", "M"),
    ("GET", "/tasks/log", "R"),
    ("PATCH", "/tasks/log/99/shared", "M"),
    ("DELETE", "/tasks/log/99", "M"),
    ("GET", "/metrics", "R"),
    ("GET", "/health", "-"),
    ("GET", "/hosted/ping", "-"),
]
ADMITTED: dict[str, set[str | None]] = {
    "M": {MASTER},
    "R": {MASTER, READER},
    "-": {MASTER, READER, "wrong-key", None},
}


def new_conversation() -> str:
    return secrets.token_hex(16)


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


def error_of(answer: Any) -> str:
    """All errors have this shape."""
    assert answer.headers["content-type"] == "application/json"
    assert answer.json().keys() == {"error"}
    text: str = answer.json()["error"]
    return text


@pytest.mark.parametrize(("method", "path", "level"), ROUTES)
def test_who_may_use_a_route(method: str, path: str, level: str, alice: NodeProcess) -> None:
    body: dict[str, str] | None = {} if method == "POST" else None
    for key in (None, "wrong-key", READER, MASTER):
        answer = alice.ask(method, path, body, key=key)
        assert (answer.status_code != 401) == (key in ADMITTED[level])
        if answer.status_code == 401:
            assert error_of(answer).startswith("unauthorized: send the secret")
            assert answer.headers["www-authenticate"] == "Bearer"
        elif body is not None:
            assert answer.status_code == 422
            error_of(answer)


def test_a_token_in_the_url_is_for_websockets_only(alice: NodeProcess) -> None:
    assert alice.ask("GET", f"/identity?token={MASTER}", key=None).status_code == 401


@pytest.mark.parametrize(("method", "path", "level"), ROUTES)
def test_other_methods(method: str, path: str, level: str, alice: NodeProcess) -> None:
    answer = alice.ask("PUT", path)
    assert answer.status_code == 405
    error_of(answer)
    assert method in answer.headers["allow"]


@pytest.mark.parametrize("path", ["/", "/nothing", "/identity/", "/skill/list", "/ws/inbox"])
def test_what_is_not_there(path: str, alice: NodeProcess) -> None:
    answer = alice.ask("GET", path)
    assert answer.status_code == 404
    error_of(answer)


# -- the agent -------------------------------------------------------------------------------------------


def test_identity(alice: NodeProcess) -> None:
    key = PrivateKey((alice.folder / "zerox1-identity.key").read_bytes())
    answer = alice.ask("GET", "/identity")
    assert answer.text == f'{{"agent_id":"{key.public.raw.hex()}","name":"alice"}}'
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("data", [b"", b"\0", b"x" * 256])
def test_identity_sign_is_separated_from_envelopes(data: bytes, alice: NodeProcess) -> None:
    answer = alice.ask("POST", "/identity/sign", {"bytes_hex": data.hex()})
    assert list(answer.json()) == ["agent_id", "signature_hex"]
    key, signature = bytes.fromhex(alice.agent_id), bytes.fromhex(answer.json()["signature_hex"])
    assert verify(key, SIGN_PREFIX + data, signature)
    assert not verify(key, data, signature)


@pytest.mark.parametrize(
    ("body", "text"),
    [({"bytes_hex": "zz"}, "invalid hex"), ({"bytes_hex": "00" * 257}, "bytes_hex too long (max 256 bytes)")],
)
def test_what_is_not_signed(body: dict[str, str], text: str, alice: NodeProcess) -> None:
    answer = alice.ask("POST", "/identity/sign", body)
    assert (answer.status_code, error_of(answer)) == (400, text)


def test_identity_export_key(alice: NodeProcess) -> None:
    seed = (alice.folder / "zerox1-identity.key").read_bytes()
    assert alice.get("/identity/export-key") == {
        "secret_key_b58": base58(seed + bytes.fromhex(alice.agent_id))
    }


def test_peers(alice: NodeProcess, bob: NodeProcess) -> None:
    (found,) = alice.get("/peers")
    assert list(found) == ["agent_id", "last_active_epoch", "peer_id"]
    assert found["agent_id"] == bob.agent_id
    assert found["peer_id"] == peer_id(bytes.fromhex(bob.agent_id))
    assert abs(found["last_active_epoch"] - time.time() // 86_400) <= 1


def test_reputation(alice: NodeProcess, bob: NodeProcess) -> None:
    found = alice.get(f"/reputation/{bob.agent_id.upper()}")
    assert list(found) == [
        "agent_id",
        "cooperation",
        "last_active_epoch",
        "notary_accuracy",
        "reliability",
        "total_disputes",
        "total_tasks",
    ]
    assert found["agent_id"] == bob.agent_id


@pytest.mark.parametrize(
    ("agent", "status", "text"),
    [
        (AGENT, 404, "no reputation data"),
        ("xx", 400, "invalid agent_id hex"),
        ("ab", 400, "agent_id must be 32 bytes"),
    ],
)
def test_reputation_that_there_is_not(agent: str, status: int, text: str, alice: NodeProcess) -> None:
    answer = alice.ask("GET", f"/reputation/{agent}")
    assert (answer.status_code, error_of(answer)) == (status, text)


def test_batch(alice: NodeProcess, bob: NodeProcess) -> None:
    alice.post(
        "/envelopes/send", msg_type="ADVERTISE", conversation_id="00" * 16, payload_b64=base64_of(b"{}")
    )
    epoch = int(time.time() // 86_400)
    found = alice.get(f"/batch/{alice.agent_id}/{epoch}")
    assert list(found) == ["agent_id", "batch_hash", "epoch", "log_merkle_root", "message_count"]
    assert (found["agent_id"], found["epoch"]) == (alice.agent_id, epoch)
    assert found["message_count"] >= 1
    for agent, number, status, text in (
        (alice.agent_id, "1", 404, "epoch not found"),
        (bob.agent_id, "1", 404, "batch history is only available for this node's own agent_id"),
        (alice.agent_id, "x", 400, f"epoch must be a whole number from 0 to {2**63 - 1}"),
        (alice.agent_id, "-1", 400, f"epoch must be a whole number from 0 to {2**63 - 1}"),
    ):
        answer = alice.ask("GET", f"/batch/{agent}/{number}")
        assert (answer.status_code, error_of(answer)) == (status, text)


# -- sending ---------------------------------------------------------------------------------------------


def test_envelopes_send_in_any_case(alice: NodeProcess, bob: NodeProcess) -> None:
    conversation = new_conversation()
    with bob.socket("/ws/inbox") as inbox:
        alice.post("/negotiate/propose", recipient=bob.agent_id, message="hi", conversation_id=conversation)
        heard(inbox, of_type("PROPOSE"))
        sent = bob.ask(
            "POST",
            "/envelopes/send",
            {
                "msg_type": "reject",
                "recipient": alice.agent_id,
                "conversation_id": conversation,
                "payload_b64": "bm8=",
                "more": 1,
            },
        )
    assert list(sent.json()) == ["nonce", "payload_hash"]
    assert sent.json()["payload_hash"] == keccak256(b"no").hex()


@pytest.mark.parametrize(
    ("change", "status", "text"),
    [
        ({"recipient": None}, 400, "recipient required for bilateral messages"),
        ({"recipient": "zz"}, 400, "recipient: invalid hex"),
        ({"recipient": "aa"}, 400, "recipient must be 32 bytes"),
        ({"recipient": AGENT}, 503, f"no known peer_id for agent {AGENT}"),
        ({"conversation_id": "zz"}, 400, "conversation_id: invalid hex"),
        ({"conversation_id": "11"}, 400, "conversation_id must be 16 bytes"),
        ({"payload_b64": "!!"}, 400, "payload_b64: invalid base64"),
        ({"payload_b64": "YQ"}, 400, "payload_b64: invalid base64"),
        ({"payload_b64": "A" * 87_385}, 413, "payload_b64: exceeds maximum envelope size"),
        ({"payload_b64": "A" * 87_384}, 413, ""),
        ({"msg_type": "NONSENSE"}, 400, "unknown msg_type: NONSENSE"),
        ({"msg_type": "BEACON"}, 400, "unknown msg_type: BEACON"),
        ({"msg_type": "BOUNTY"}, 400, "unknown msg_type: BOUNTY"),
        ({"msg_type": "ACCEPT"}, 409, ""),
        ({"msg_type": "BROADCAST"}, 400, "BROADCAST payload: "),
        ({"msg_type": "FEEDBACK", "payload_b64": base64_of(b"{}")}, 400, "FEEDBACK payload: "),
        ({"msg_type": 5}, 422, ""),
        ({"msg_type": None}, 422, ""),
    ],
)
def test_envelopes_that_are_not_sent(
    change: dict[str, Any], status: int, text: str, alice: NodeProcess, bob: NodeProcess
) -> None:
    body = {
        "msg_type": "PROPOSE",
        "recipient": bob.agent_id,
        "conversation_id": new_conversation(),
        "payload_b64": base64_of(bytes(16) + b"{}"),
    }
    before = alice.ask("GET", "/metrics").text
    answer = alice.ask("POST", "/envelopes/send", body | change)
    assert answer.status_code == status, answer.text
    assert error_of(answer).startswith(text)
    sent = [line for line in before.splitlines() if line.startswith("mesh_node_sent_total")]
    assert sent == [
        line for line in alice.ask("GET", "/metrics").text.splitlines() if line.startswith(sent[0].split()[0])
    ]


@pytest.mark.parametrize(
    ("content", "content_type", "status"),
    [
        (b"{", "application/json", 400),
        (b"{}", "text/plain", 415),
        (b"[]", "application/json", 422),
        (b" " * (1024 * 1024 + 1), "application/json", 413),
    ],
)
def test_bodies_that_are_not_taken(
    content: bytes, content_type: str, status: int, alice: NodeProcess
) -> None:
    headers = {"Authorization": f"Bearer {MASTER}", "Content-Type": content_type}
    answer = alice.http.post("/tasks/log", content=content, headers=headers)
    assert answer.status_code == status
    error_of(answer)


def test_a_whole_deal(alice: NodeProcess, bob: NodeProcess) -> None:
    """PROPOSE, COUNTER, ACCEPT, DELIVER, VERDICT and FEEDBACK, each with its own answer and inbox object."""
    with alice.socket("/ws/inbox") as at_alice, bob.socket("/ws/inbox") as at_bob:
        proposed = alice.ask("POST", "/negotiate/propose", {"recipient": bob.agent_id, "message": "hi"})
        assert list(proposed.json()) == ["conversation_id", "nonce", "payload_hash"]
        conversation = proposed.json()["conversation_id"]
        got = heard(at_bob, of_type("PROPOSE"))
        assert (got["sender"], got["recipient"]) == (alice.agent_id, bob.agent_id)
        assert (got["conversation_id"], got["nonce"]) == (conversation, proposed.json()["nonce"])
        assert base64.b64decode(got["payload_b64"]) == bytes(16) + b'{"max_rounds":2,"message":"hi"}'
        assert abs(got["slot"] - time.time()) < 60
        deal = {"conversation_id": conversation, "amount_usdc_micro": 5}
        countered = bob.ask("POST", "/negotiate/counter", {"recipient": alice.agent_id, "round": 1, **deal})
        assert list(countered.json()) == ["nonce", "payload_hash"]
        heard(at_alice, of_type("COUNTER"))
        accepted = alice.ask("POST", "/negotiate/accept", {"recipient": bob.agent_id, **deal})
        assert list(accepted.json()) == ["nonce", "payload_hash"]
        heard(at_bob, of_type("ACCEPT"))
        send = {"conversation_id": conversation, "recipient": alice.agent_id}
        bob.post("/envelopes/send", msg_type="DELIVER", payload_b64=base64_of(b"work"), **send)
        delivered = heard(at_alice, of_type("DELIVER"))
        assert delivered["deliver"] == {
            "content_type": None,
            "conversation_id": conversation,
            "inline_b64": base64_of(b"work"),
            "payload_size": None,
            "payload_uri": None,
        }
        approval = bytes(1) + bytes.fromhex(alice.agent_id + bob.agent_id)
        send = {"conversation_id": conversation, "recipient": bob.agent_id}
        alice.post("/envelopes/send", msg_type="VERDICT", payload_b64=base64_of(approval), **send)
        heard(at_bob, of_type("VERDICT"))
        rating = base64_of(b'{"score":80,"outcome":"positive"}')
        with bob.socket("/ws/events") as events:
            alice.post("/envelopes/send", msg_type="FEEDBACK", payload_b64=rating, **send)
            feedback = heard(at_bob, of_type("FEEDBACK"))["feedback"]
            changed = heard(events, lambda event: event["type"] == "reputation_update")
        assert (feedback["target_agent"], feedback["score"], feedback["outcome"]) == (bob.agent_id, 80, 2)
        assert changed == {
            "type": "reputation_update",
            "agent_id": bob.agent_id,
            "reliability": 80_000,
            "cooperation": 80_000,
        }
        assert bob.get(f"/reputation/{bob.agent_id}")["total_tasks"] == 1


@pytest.mark.parametrize(
    ("path", "change", "status", "text"),
    [
        ("propose", {"message": "x" * 4097}, 413, "message: exceeds maximum length"),
        ("propose", {"message": None}, 422, ""),
        ("propose", {"recipient": "zz"}, 400, "recipient: invalid hex"),
        ("propose", {"conversation_id": "zz"}, 400, "conversation_id: invalid hex"),
        ("propose", {"amount_usdc_micro": -1}, 422, ""),
        ("propose", {"amount_usdc_micro": 1.5}, 422, ""),
        ("propose", {"max_rounds": 300}, 422, ""),
        ("counter", {"round": 3}, 400, "round 3 is out of range [1, 2]"),
        ("counter", {"round": 0}, 400, "round 0 is out of range [1, 2]"),
        ("counter", {"message": "x" * 4097}, 413, "message: exceeds maximum length"),
        ("counter", {}, 409, ""),
        ("accept", {"conversation_id": "aa"}, 400, "conversation_id must be 16 bytes"),
        ("accept", {"amount_usdc_micro": None}, 422, ""),
        ("accept", {}, 409, ""),
    ],
)
def test_offers_that_are_refused(
    path: str, change: dict[str, Any], status: int, text: str, alice: NodeProcess, bob: NodeProcess
) -> None:
    body = {
        "recipient": bob.agent_id,
        "conversation_id": new_conversation(),
        "message": "hi",
        "amount_usdc_micro": 5,
        "round": 1,
    }
    answer = alice.ask("POST", f"/negotiate/{path}", body | change)
    assert answer.status_code == status, answer.text
    assert error_of(answer).startswith(text)


def test_topics(alice: NodeProcess, bob: NodeProcess) -> None:
    with bob.socket("/ws/topics?topic=radio:x") as radio, bob.socket("/ws/inbox") as inbox:
        bob.get("/identity")  # the node has joined the topic by then
        sent = alice.ask("POST", "/topics/radio:x/broadcast", {"title": "t"})
        assert list(sent.json()) == ["nonce", "payload_hash"]
        got = heard(radio, lambda message: message["sender"] == alice.agent_id)
        assert got["payload_b64"] == "i2dyYWRpbzp4YXSAZHRleHT29vb29vb2"
        assert (got["recipient"], got["conversation_id"]) == ("00" * 32, "00" * 16)
        assert heard(inbox, of_type("BROADCAST")) == got
    for slug, body, text in (
        ("bad%20slug", {"title": "t"}, "invalid topic slug"),
        ("x" * 129, {"title": "t"}, "invalid topic slug"),
        ("radio:x", {"title": ""}, "title must be 1\N{EN DASH}256 characters"),
        ("radio:x", {"title": "t", "format": "video"}, 'format must be "text", "audio", or "data"'),
    ):
        answer = alice.ask("POST", f"/topics/{slug}/broadcast", body)
        assert (answer.status_code, error_of(answer)) == (400, text)


# -- credits, tasks, health ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("lock", {"provider": AGENT, "conversation_id": CONVERSATION, "amount_usdc_micro": 5}, 400),
        ("lock", {"provider": "zz", "conversation_id": CONVERSATION, "amount_usdc_micro": 5}, 400),
        ("lock", {"provider": AGENT, "conversation_id": CONVERSATION, "amount_usdc_micro": -5}, 422),
        ("lock", {"provider": AGENT, "conversation_id": CONVERSATION}, 422),
        ("approve", {"requester": AGENT, "provider": AGENT, "conversation_id": CONVERSATION}, 400),
        ("approve", {"requester": AGENT, "provider": AGENT, "conversation_id": "x"}, 400),
    ],
)
def test_payments_that_are_refused(path: str, body: dict[str, Any], status: int, alice: NodeProcess) -> None:
    answer = alice.ask("POST", f"/escrow/{path}", body)
    assert answer.status_code == status, answer.text
    error_of(answer)


def test_the_task_log(alice: NodeProcess) -> None:
    first = alice.ask("POST", "/tasks/log", {"category": "x", "outcome": "ok", "summary": "s"})
    number = first.json()["id"]
    assert first.text == f'{{"id":{number},"ok":true}}'
    second = {"category": "y", "outcome": "success", "summary": "s2", "amount_usd": 1.5, "duration_min": 2}
    assert alice.post("/tasks/log", **second)["id"] > number
    newest, older = alice.get("/tasks/log")
    assert list(older) == [
        "id",
        "timestamp",
        "category",
        "outcome",
        "amount_usd",
        "duration_min",
        "summary",
        "shared",
    ]
    assert newest.items() >= (second | {"shared": False}).items()
    assert abs(older["timestamp"] - time.time()) < 60
    assert alice.get("/tasks/log?limit=1") == [newest]
    assert alice.get(f"/tasks/log?before={newest['id']}") == [older]
    shared = alice.ask("PATCH", f"/tasks/log/{number}/shared")
    assert shared.text == f'{{"id":{number},"ok":true}}'
    assert [task["shared"] for task in alice.get("/tasks/log")] == [False, True]
    alice.ask("PATCH", f"/tasks/log/{number}/shared", {"shared": False})
    assert [task["shared"] for task in alice.get("/tasks/log")] == [False, False]
    removed = alice.ask("DELETE", f"/tasks/log/{number}")
    assert removed.text == f'{{"id":{number},"ok":true}}'
    assert alice.get("/tasks/log") == [newest]
    for method, path, status in (
        ("DELETE", f"/tasks/log/{number}", 404),
        ("PATCH", f"/tasks/log/{number}/shared", 404),
        ("DELETE", "/tasks/log/x", 400),
        ("PATCH", "/tasks/log/x/shared", 400),
        ("GET", "/tasks/log?limit=x", 400),
    ):
        answer = alice.ask(method, path)
        assert answer.status_code == status
        error_of(answer)
    assert alice.get("/tasks/log") == [newest]


def test_health_and_metrics(alice: NodeProcess) -> None:
    answer = alice.ask("GET", "/health", key=None)
    assert answer.json() == {"status": "healthy", "agent_id": alice.agent_id, "peers": 1}
    assert "mesh_node_peers 1.0\n" in alice.ask("GET", "/metrics", key=READER).text


# -- pages and names -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "status"), [("evil.example", 421), ("localhost", 200), ("127.0.0.1:1", 200), ("[::1]", 200)]
)
def test_names_under_which_it_answers(host: str, status: int, alice: NodeProcess) -> None:
    headers = {"Authorization": f"Bearer {MASTER}", "Host": host}
    answer = alice.http.get("/identity", headers=headers)
    assert answer.status_code == status
    if status != 200:
        error_of(answer)


def test_pages_that_may_ask(alice: NodeProcess) -> None:
    for origin, allowed in (
        ("http://localhost", "http://localhost"),
        ("http://127.0.0.1", "http://127.0.0.1"),
        ("http://evil.example", None),
    ):
        answer = alice.http.get("/health", headers={"Origin": origin})
        assert answer.headers.get("access-control-allow-origin") == allowed
    asked = {
        "Origin": "http://localhost",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
    }
    answer = alice.http.options("/envelopes/send", headers=asked)
    assert answer.status_code == 200
    assert "authorization" in answer.headers["access-control-allow-headers"]
