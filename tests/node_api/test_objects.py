"""The JSON of inbox, events and webhook. What is compared with is from a running reference."""

import base64
import json
from typing import Any

import pytest

from moothall.node.reports import (
    AgentReputation,
    BatchClosed,
    BatchSummary,
    DeliveryFailed,
    PeerRegistered,
    Received,
    ReputationChanged,
)
from moothall.node_api.objects import (
    camel_case,
    event_object,
    inbox_object,
    is_of_topic,
    webhook_object,
)
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.envelope import Envelope
from moothall.wire.mesh.keccak import keccak256
from moothall.wire.mesh.msg_types import BILATERAL, MsgType

SENDER = "eae1c8793b5597c4b3f490e76ac31172c439690f8ee14142bb851a61f9a49f0e"
RECIPIENT = "627f17d893e5697a4ba2208bc80b0292e7f58d8120eb353c1b55429db9c6b196"
CONVERSATION = "11" * 16
NO_ONE = "00" * 32


def received(msg_type: MsgType, payload: bytes = b"", **more: Any) -> Received:
    recipient = RECIPIENT if msg_type in BILATERAL else NO_ONE
    envelope = Envelope(
        1,
        msg_type,
        bytes.fromhex(SENDER),
        bytes.fromhex(recipient),
        1_794_828_579_298_497,
        1_794_828_579,
        9,
        bytes.fromhex(CONVERSATION),
        keccak256(payload),
        len(payload),
        payload,
        bytes(64),
    )
    return Received(7, envelope, 1_794_828_580_123, **more)


def decoded(msg_type: MsgType, payload_b64: str) -> dict[str, Any]:
    return inbox_object(received(msg_type, base64.b64decode(payload_b64)))


def test_an_inbox_object_has_the_names_of_the_reference_in_its_order() -> None:
    assert json.dumps(inbox_object(received(MsgType.REJECT, b"no")), separators=(",", ":")) == (
        f'{{"msg_type":"REJECT","sender":"{SENDER}","recipient":"{RECIPIENT}","conversation_id":"{CONVERSATION}",'
        '"slot":1794828580,"nonce":9,"payload_b64":"bm8=","feedback":null,"notarize_bid":null,"deliver":null,'
        '"cursor":7}'
    )


def test_what_is_decoded() -> None:
    feedback = decoded(
        MsgType.FEEDBACK,
        "hlARERERERERERERERERERERWCBifxfYk+VpekuiIIvICwKS5/WNgSDrNTwbVUKducaxlhgyAvUA",
    )
    assert json.dumps(feedback["feedback"], separators=(",", ":")) == (
        f'{{"conversation_id":"{CONVERSATION}","is_dispute":true,"outcome":2,"role":0,"score":50,'
        f'"target_agent":"{RECIPIENT}"}}'
    )
    assert (feedback["notarize_bid"], feedback["deliver"]) == (None, None)
    bid = decoded(MsgType.NOTARIZE_BID, "AQAAAAAAAAAAAAAAAAAAAAB0ZXJtcw==")["notarize_bid"]
    assert json.dumps(bid, separators=(",", ":")) == (
        f'{{"bid_type":1,"conversation_id":"{"00" * 16}","opaque_b64":"dGVybXM="}}'
    )
    delivery = decoded(MsgType.DELIVER, "hVARERERERERERERERERERER9kR3b3Jr9vY=")["deliver"]
    assert json.dumps(delivery, separators=(",", ":")) == (
        f'{{"content_type":null,"conversation_id":"{CONVERSATION}","inline_b64":"d29yaw==","payload_size":null,'
        '"payload_uri":null}'
    )


@pytest.mark.parametrize("msg_type", MsgType)
def test_a_payload_that_does_not_parse_is_null(msg_type: MsgType) -> None:
    found = inbox_object(received(msg_type, b"junk"))
    assert (found["feedback"], found["notarize_bid"], found["deliver"]) == (None, None, None)
    assert found["msg_type"] == msg_type.name


def test_a_message_that_is_out_of_order_says_why() -> None:
    assert inbox_object(received(MsgType.ACCEPT, out_of_order="no offer"))["out_of_order"] == "no offer"


def test_camel_case() -> None:
    assert [camel_case(each) for each in (MsgType.NOTARIZE_BID, MsgType.NOTARIZE_ASSIGN, MsgType.REJECT)] == [
        "NotarizeBid",
        "NotarizeAssign",
        "Reject",
    ]


def test_the_webhook() -> None:
    assert json.dumps(webhook_object(received(MsgType.NOTARIZE_ASSIGN, b"x")), separators=(",", ":")) == (
        f'{{"conversation_id":"{CONVERSATION}","msg_type":"NotarizeAssign","nonce":9,"payload_b64":"eA==",'
        f'"recipient":"{RECIPIENT}","sender":"{SENDER}","slot":1794828580,"timestamp":1794828579298497}}'
    )


def test_events() -> None:
    peer = bytes.fromhex(SENDER)
    numbers = AgentReputation(peer, 50_000, 40_000, 0, 1, 0, 0, 20_773)
    batch = BatchSummary(peer, 20_773, 5, bytes(32), b"\x22" * 32)
    assert json.dumps(event_object(received(MsgType.NOTARIZE_BID)), separators=(",", ":")) == (
        f'{{"type":"envelope","sender":"{SENDER}","msg_type":"NotarizeBid","slot":1794828580}}'
    )
    assert json.dumps(event_object(PeerRegistered(peer, "12D3", "a")), separators=(",", ":")) == (
        f'{{"type":"peer_registered","agent_id":"{SENDER}","peer_id":"12D3"}}'
    )
    assert json.dumps(event_object(ReputationChanged(peer, 50, numbers)), separators=(",", ":")) == (
        f'{{"type":"reputation_update","agent_id":"{SENDER}","reliability":50000,"cooperation":40000}}'
    )
    assert event_object(BatchClosed(batch)) == {
        "type": "batch_submitted",
        "agent_id": SENDER,
        "epoch": 20_773,
        "batch_hash": "22" * 32,
    }
    failure = DeliveryFailed(3, peer, peer, MsgType.PROPOSE, bytes(16), 9, "no ACK", 1_794_828_580_123)
    assert event_object(failure) == {
        "type": "delivery_failed",
        "number": 3,
        "sender": SENDER,
        "recipient": SENDER,
        "msg_type": "PROPOSE",
        "conversation_id": "00" * 16,
        "nonce": 9,
        "reason": "no ACK",
        "timestamp": 1_794_828_580,
    }


@pytest.mark.parametrize("msg_type", sorted(BILATERAL))
def test_bilateral_envelopes_are_no_events(msg_type: MsgType) -> None:
    assert event_object(received(msg_type)) is None


def test_the_topic_of_a_broadcast() -> None:
    post = received(MsgType.BROADCAST, Broadcast(topic="radio:x", title="t").encode())
    assert is_of_topic(post, "radio:x")
    assert not is_of_topic(post, "radio:y")
    assert not is_of_topic(received(MsgType.BROADCAST, b"junk"), "radio:x")
    assert not is_of_topic(received(MsgType.ADVERTISE, post.envelope.payload), "radio:x")
