"""`/hosted/*` of a running node."""

import pytest

from tests.node_api.test_routes import base64_of, error_of, new_conversation
from tests.node_api.test_sockets import denial
from tests.support.node_process import NodeProcess, heard, of_type

SENDING = [
    "/hosted/send",
    "/hosted/negotiate/propose",
    "/hosted/negotiate/counter",
    "/hosted/negotiate/accept",
]


def register(node: NodeProcess) -> tuple[str, str]:
    answer = node.ask("POST", "/hosted/register", key=None)
    assert list(answer.json()) == ["agent_id", "token"]
    return answer.json()["agent_id"], answer.json()["token"]


def test_ping(alice: NodeProcess) -> None:
    assert alice.ask("GET", "/hosted/ping", key=None).text == '{"ok":true}'


@pytest.mark.parametrize("path", SENDING)
def test_a_token_is_needed(path: str, alice: NodeProcess) -> None:
    for key in (None, "wrong-key", "the-master-secret"):
        answer = alice.ask("POST", path, {}, key=key)
        assert answer.status_code == 401
        error_of(answer)
    _, token = register(alice)
    answer = alice.ask("POST", path, {}, key=token)
    assert answer.status_code == 422
    error_of(answer)


def test_an_inbox_needs_a_token(alice: NodeProcess) -> None:
    assert denial(alice, "/ws/hosted/inbox", None)[0] == 401
    assert denial(alice, "/ws/hosted/inbox", "wrong-key")[0] == 401


def test_a_token_of_a_hosted_agent_is_no_key_of_the_node(alice: NodeProcess) -> None:
    _, token = register(alice)
    assert alice.ask("GET", "/identity", key=token).status_code == 401
    assert denial(alice, "/ws/inbox", token)[0] == 401


def test_a_deal_of_a_hosted_agent_with_an_agent_on_another_node(alice: NodeProcess, bob: NodeProcess) -> None:
    agent, token = register(alice)
    with bob.socket("/ws/inbox") as at_bob, alice.socket("/ws/hosted/inbox", token=token) as at_agent:
        proposed = alice.ask(
            "POST", "/hosted/negotiate/propose", {"recipient": bob.agent_id, "message": "hi"}, key=token
        )
        assert list(proposed.json()) == ["conversation_id"]
        conversation = proposed.json()["conversation_id"]
        got = heard(at_bob, of_type("PROPOSE"))
        assert (got["sender"], got["conversation_id"]) == (agent, conversation)
        deal = {"conversation_id": conversation, "amount_usdc_micro": 5}
        bob.post("/negotiate/counter", recipient=agent, round=1, **deal)
        answer = heard(at_agent, of_type("COUNTER"))
        assert (answer["sender"], answer["recipient"]) == (bob.agent_id, agent)
        offer = {"recipient": bob.agent_id, "round": 1, **deal, "amount_usdc_micro": 4}
        countered = alice.ask("POST", "/hosted/negotiate/counter", offer, key=token)
        assert (countered.status_code, countered.content) == (204, b"")
        heard(at_bob, of_type("COUNTER"))
        bob.post("/negotiate/counter", recipient=agent, round=2, **deal)
        heard(at_agent, of_type("COUNTER"))
        accepted = alice.ask(
            "POST", "/hosted/negotiate/accept", {"recipient": bob.agent_id, **deal}, key=token
        )
        assert (accepted.status_code, accepted.content) == (204, b"")
        heard(at_bob, of_type("ACCEPT"))
    with alice.socket("/ws/hosted/inbox?after=0", token=token) as replayed:
        assert heard(replayed, of_type("COUNTER")) == answer


def test_hosted_send(alice: NodeProcess, bob: NodeProcess) -> None:
    _, token = register(alice)
    body = {
        "msg_type": "PROPOSE",
        "recipient": bob.agent_id,
        "conversation_id": new_conversation(),
        "payload_hex": (bytes(16) + b"{}").hex(),
    }
    with bob.socket("/ws/inbox") as at_bob:
        sent = alice.ask("POST", "/hosted/send", body, key=token)
        assert (sent.status_code, sent.content) == (204, b"")
        got = heard(at_bob, of_type("PROPOSE"))
    assert got["payload_b64"] == base64_of(bytes(16) + b"{}")
    for change, status in (
        ({"payload_hex": "zz"}, 400),
        ({"payload_hex": "00" * 70_000}, 413),
        ({"msg_type": "BEACON"}, 400),
        ({"recipient": None}, 400),
        ({"conversation_id": "x"}, 400),
        ({"payload_hex": 5}, 422),
    ):
        answer = alice.ask("POST", "/hosted/send", body | change, key=token)
        assert answer.status_code == status
        error_of(answer)
