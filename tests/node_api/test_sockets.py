"""`/ws/*` of a running node."""

import json
import socket as sockets
from contextlib import ExitStack
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from moothall.node_api.streams import MAX_SOCKETS
from tests.node_api.test_routes import base64_of, new_conversation
from tests.support.node_process import MASTER, READER, NodeProcess, heard, of_type
from tests.support.server import PATIENCE

PATHS = ["/ws/inbox", "/ws/events", "/ws/topics?topic=x", "/ws/inbox?after=0"]


def propose(sender: NodeProcess, recipient: NodeProcess, message: str) -> str:
    conversation: str = sender.post(
        "/negotiate/propose",
        recipient=recipient.agent_id,
        message=message,
        conversation_id=new_conversation(),
    )["conversation_id"]
    return conversation


def denial(node: NodeProcess, path: str, token: str | None = MASTER) -> tuple[int, Any]:
    with pytest.raises(InvalidStatus) as refused, node.socket(path, token=token):
        pass
    response = refused.value.response
    return response.status_code, json.loads(response.body or b"null")


@pytest.mark.parametrize("path", PATHS)
def test_who_may_listen(path: str, alice: NodeProcess) -> None:
    for token in (None, "wrong-key"):
        status, body = denial(alice, path, token)
        assert status == 401
        assert body["error"].startswith("unauthorized: send the secret or a read key")
    for token in (READER, MASTER):
        with alice.socket(path, token=token):
            pass
    url = f"ws://127.0.0.1:{alice.port}{path}"
    with connect(url, additional_headers={"Authorization": f"Bearer {READER}"}, proxy=None):
        pass


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/ws/topics", "invalid topic"),
        ("/ws/topics?topic=bad/slug", "invalid topic"),
        ("/ws/inbox?after=x", f"after must be a whole number from 0 to {2**63 - 1}"),
        ("/ws/inbox?after=-1", f"after must be a whole number from 0 to {2**63 - 1}"),
    ],
)
def test_sockets_that_are_refused(path: str, text: str, alice: NodeProcess) -> None:
    assert denial(alice, path) == (400, {"error": text})


def test_a_socket_that_is_not_there(alice: NodeProcess) -> None:
    assert denial(alice, "/ws/nothing")[0] in (403, 404)


def test_the_inbox_has_the_names_of_the_reference(alice: NodeProcess, bob: NodeProcess) -> None:
    with bob.socket("/ws/inbox") as inbox:
        propose(alice, bob, "names")
        got = heard(inbox, of_type("PROPOSE"))
    assert list(got) == [
        "msg_type",
        "sender",
        "recipient",
        "conversation_id",
        "slot",
        "nonce",
        "payload_b64",
        "feedback",
        "notarize_bid",
        "deliver",
        "cursor",
    ]


def test_an_inbox_without_a_cursor_begins_now(alice: NodeProcess, bob: NodeProcess) -> None:
    with bob.socket("/ws/inbox") as inbox:
        first = propose(alice, bob, "before")
        heard(inbox, lambda message: message["conversation_id"] == first)
    with bob.socket("/ws/inbox") as inbox:
        second = propose(alice, bob, "after")
        assert heard(inbox, of_type("PROPOSE"))["conversation_id"] == second


def test_an_inbox_with_a_cursor_has_what_was_missed(alice: NodeProcess, bob: NodeProcess) -> None:
    with bob.socket("/ws/inbox") as inbox:
        first = propose(alice, bob, "seen")
        cursor = heard(inbox, lambda message: message["conversation_id"] == first)["cursor"]
        missed = [propose(alice, bob, f"missed {number}") for number in range(3)]
        heard(inbox, lambda message: message["conversation_id"] == missed[-1])
    with bob.socket(f"/ws/inbox?after={cursor}") as inbox:
        got = [heard(inbox, of_type("PROPOSE")) for _ in missed]
        assert [message["conversation_id"] for message in got] == missed
        later = propose(alice, bob, "later")
        assert heard(inbox, of_type("PROPOSE"))["conversation_id"] == later
    page = bob.get(f"/inbox?after={cursor}&limit=2")
    assert page["envelopes"] == got[:2]
    assert page["cursor"] == got[1]["cursor"]
    assert bob.get(f"/inbox?after={page['cursor']}")["envelopes"][0] == got[2]
    assert bob.get(f"/inbox?after={2**62}") == {"envelopes": [], "cursor": 2**62}
    for query in ("after=x", "limit=0", "limit=257", "limit=x"):
        assert bob.ask("GET", f"/inbox?{query}").status_code == 400


def test_deliveries_that_failed(bob: NodeProcess) -> None:
    assert bob.get("/failures") == {"failures": [], "cursor": 0}


def test_events(alice: NodeProcess, bob: NodeProcess) -> None:
    with bob.socket("/ws/events", token=READER) as events:
        propose(alice, bob, "is no event")
        alice.post(
            "/envelopes/send",
            msg_type="NOTARIZE_BID",
            conversation_id=new_conversation(),
            payload_b64=base64_of(b"\1" + bytes(16) + b"terms"),
        )
        got = heard(events, lambda event: event.get("msg_type") not in (None, "Beacon"))
        assert list(got) == ["type", "sender", "msg_type", "slot"]
        assert (got["type"], got["sender"], got["msg_type"]) == ("envelope", alice.agent_id, "NotarizeBid")


def test_what_a_client_says_is_dropped(alice: NodeProcess, bob: NodeProcess) -> None:
    with bob.socket("/ws/inbox") as inbox:
        inbox.send("hello?")
        inbox.send(b"\0" * 4096)
        conversation = propose(alice, bob, "still there")
        assert heard(inbox, of_type("PROPOSE"))["conversation_id"] == conversation
        inbox.send("x" * 4097)
        with pytest.raises(ConnectionClosed):
            heard(inbox, lambda _: False)


def test_sockets_are_bounded(alice: NodeProcess) -> None:
    with ExitStack() as open_ones:
        for _ in range(MAX_SOCKETS):
            open_ones.enter_context(alice.socket("/ws/events"))
        status, body = denial(alice, "/ws/events")
        assert (status, body.keys()) == (503, {"error"})
        assert alice.get("/identity")["name"] == "alice"


def test_a_reader_that_never_reads_does_not_hold_up_the_others(alice: NodeProcess, bob: NodeProcess) -> None:
    slow = sockets.create_connection(("127.0.0.1", bob.port), PATIENCE)
    slow.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
    slow.sendall(
        f"GET /ws/inbox?token={MASTER} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    assert slow.recv(16).startswith(b"HTTP/1.1 101")
    with bob.socket("/ws/inbox") as inbox:
        for number in range(30):
            conversation = propose(alice, bob, f"{number}" * 100)
            assert heard(inbox, of_type("PROPOSE"))["conversation_id"] == conversation
    slow.close()
