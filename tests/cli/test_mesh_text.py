"""What people and programs are shown of messages of the mesh."""

import json
import re

import pytest

from moothall.cli._mesh_text import described_message, message_line, moment_text
from moothall.identity import PrivateKey
from moothall.mesh.message import Message, read
from moothall.wire.mesh.announcements import Advertise, Beacon, Bounty, Discover
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.envelope import seal
from moothall.wire.mesh.msg_types import BILATERAL, MsgType
from moothall.wire.mesh.notaries import BidType, Judgement, NotarizeAssign, NotarizeBid, Verdict
from moothall.wire.mesh.offers import Accept, Counter, Propose
from moothall.wire.mesh.outcomes import Deliver, Feedback, Outcome
from moothall.wire.mesh.payloads import Payload
from moothall.wire.mesh.reasons import Dispute, Reject

ALICE, BOB, NOTARY = (PrivateKey(bytes([number]) * 32) for number in (1, 2, 3))
A, B, N = (key.public.raw for key in (ALICE, BOB, NOTARY))
ID = bytes.fromhex("9c41aa02" * 4)
SHORT = {raw: raw.hex()[:16] for raw in (A, B, N)}

MESSAGES: dict[MsgType, tuple[Payload, str]] = {
    MsgType.ADVERTISE: (Advertise(capabilities=("translation", "review")), "translation, review"),
    MsgType.DISCOVER: (Discover("translation"), "translation"),
    MsgType.PROPOSE: (
        Propose(amount=2_500_000, message="a page\x1b[2J\nor two"),
        "2.5 credits: a page[2J or two",
    ),
    MsgType.COUNTER: (Counter(amount=3_000_000), "3 credits"),
    MsgType.ACCEPT: (Accept(message="agreed"), "0 credits: agreed"),
    MsgType.REJECT: (Reject("busy"), "busy"),
    MsgType.DELIVER: (Deliver(conversation_id=ID, inline=b"Der Saal"), "Der Saal"),
    MsgType.NOTARIZE_BID: (NotarizeBid(BidType.OFFER, ID), "offers to be a notary"),
    MsgType.NOTARIZE_ASSIGN: (NotarizeAssign(N), f"notary {SHORT[N]}"),
    MsgType.VERDICT: (Verdict(Judgement.REJECT, A, B, b"half of it"), "reject: half of it"),
    MsgType.FEEDBACK: (
        Feedback(conversation_id=ID, target_agent=B, score=80, outcome=Outcome.POSITIVE),
        f"+80 (positive) for {SHORT[B]}",
    ),
    MsgType.DISPUTE: (Dispute("half of it"), "half of it"),
    MsgType.BEACON: (Beacon(A, "alice"), "alice"),
    MsgType.BROADCAST: (
        Broadcast(topic="general", title="bob (@1f3a9c02)", content=b"hello"),
        "general, bob (@1f3a9c02): hello",
    ),
    MsgType.BOUNTY: (
        Bounty(
            required_capability="translation",
            max_budget_usd=5,
            deadline_secs=60,
            task_summary="a page",
            conversation_id=ID.hex(),
        ),
        "a page",
    ),
}


def message(msg_type: MsgType, payload: bytes, now: int = 1_700_000_000_000_000) -> Message:
    addressed = {"recipient": B, "conversation_id": ID} if msg_type in BILATERAL else {}
    envelope = seal(
        msg_type,
        payload,
        sender=A,
        sign=ALICE.sign_bytes,
        nonce=7,
        now=now,
        **addressed,
    )
    return read(envelope)


def test_every_type_is_here() -> None:
    assert MESSAGES.keys() == set(MsgType)


@pytest.mark.parametrize("msg_type", MESSAGES, ids=lambda msg_type: msg_type.name)
def test_a_message_is_one_line(msg_type: MsgType) -> None:
    payload, content = MESSAGES[msg_type]
    conversation = [ID.hex()] if msg_type in BILATERAL else []
    moment, *words = re.split(r" {2,}", message_line(message(msg_type, payload.encode())))
    assert re.fullmatch(r"\d\d:\d\d:\d\d", moment)
    assert words == [msg_type.name, SHORT[A], *conversation, content]


@pytest.mark.parametrize("msg_type", MESSAGES, ids=lambda msg_type: msg_type.name)
def test_a_message_is_json(msg_type: MsgType) -> None:
    found = json.loads(json.dumps(described_message(message(msg_type, MESSAGES[msg_type][0].encode()))))
    assert (found["type"], found["sender"], found["nonce"]) == (msg_type.name, A.hex(), 7)
    assert found["recipient"] == (B.hex() if msg_type in BILATERAL else None)
    assert found["timestamp"] == 1_700_000_000_000_000
    assert found["payload"]


def test_ids_are_hex_and_other_bytes_base64() -> None:
    rating = described_message(message(MsgType.FEEDBACK, MESSAGES[MsgType.FEEDBACK][0].encode()))["payload"]
    assert (rating["target_agent"], rating["conversation_id"]) == (B.hex(), ID.hex())
    assert (rating["score"], rating["outcome"]) == (80, 2)
    work = described_message(message(MsgType.DELIVER, MESSAGES[MsgType.DELIVER][0].encode()))["payload"]
    assert work["inline"] == "RGVyIFNhYWw="


def test_a_delivery_elsewhere_is_its_address() -> None:
    delivery = Deliver(conversation_id=ID, payload_uri="https://example.org/page")
    assert message_line(message(MsgType.DELIVER, delivery.encode())).endswith("https://example.org/page")


def test_a_payload_that_cannot_be_read_is_shown_as_none() -> None:
    found = message(MsgType.FEEDBACK, b"\xff")
    assert described_message(found)["payload"] is None
    assert message_line(found).endswith(SHORT[A])
    assert message_line(message(MsgType.DELIVER, b"raw work")).endswith("raw work")


def test_a_time_that_no_calendar_has_is_a_number() -> None:
    found = message(MsgType.DISCOVER, Discover("x").encode(), now=2**64 - 1)
    assert message_line(found).startswith("18446744073710 s  DISCOVER")
    assert moment_text(2**63) == "9223372036854776 s"
    assert re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d", moment_text(1_700_000_000_000))
