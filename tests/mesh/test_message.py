"""Messages of the mesh: what agents read of an envelope."""

from datetime import UTC, datetime

import pytest

from moothall.mesh.message import Message, read
from moothall.wire.mesh.announcements import Bounty, Discover
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.envelope import decode, encode
from moothall.wire.mesh.notaries import BidType, Judgement, NotarizeBid, Verdict
from moothall.wire.mesh.offers import Propose
from moothall.wire.mesh.outcomes import Deliver
from moothall.wire.mesh.reasons import Reject
from tests.support.mesh import AGENTS, ENVELOPES, vector_envelope, with_payload

ID = bytes(16)


def message(name: str, payload: bytes) -> Message:
    return read(with_payload(vector_envelope(name), payload))


@pytest.mark.parametrize("name", ENVELOPES)
def test_every_type_is_read(name: str) -> None:
    envelope = vector_envelope(name)
    found = read(envelope)
    assert (found.type, found.sender, found.nonce) == (name, envelope.sender.hex(), envelope.nonce)
    assert found.payload is not None
    assert decode(found.raw) == envelope
    assert found.size > len(envelope.payload)
    assert repr(found).startswith(f"<Message {name} from ")


def test_who_and_when() -> None:
    bilateral, published = read(vector_envelope("PROPOSE")), read(vector_envelope("BEACON"))
    assert bilateral.recipient == AGENTS["B"].hex()
    assert bilateral.conversation_id is not None
    assert (published.recipient, published.conversation_id) == (None, None)
    expected = datetime.fromtimestamp(bilateral.envelope.timestamp / 1e6, UTC)
    assert abs(bilateral.sent_at - expected).total_seconds() < 0.001


@pytest.mark.parametrize(
    ("name", "payload", "text"),
    [
        ("PROPOSE", Propose(amount=3, message="work?").encode(), "work?"),
        ("REJECT", Reject("too dear").encode(), "too dear"),
        ("DELIVER", Deliver(conversation_id=ID, inline=b"done").encode(), "done"),
        ("DELIVER", b"raw work", "raw work"),
        ("DELIVER", Deliver(conversation_id=ID, payload_uri="agg://x").encode(), ""),
        ("VERDICT", Verdict(Judgement.REJECT, bytes(32), bytes(32), b"half").encode(), "half"),
        ("NOTARIZE_BID", NotarizeBid(BidType.OFFER, ID, b"5 %").encode(), "5 %"),
        ("BROADCAST", Broadcast(topic="t", title="", content=b"hi \xff").encode(), "hi \ufffd"),
        ("BROADCAST", Broadcast(topic="t", title="").encode(), ""),
        ("DISCOVER", Discover("x").encode(), ""),
        (
            "BOUNTY",
            Bounty(
                required_capability="x",
                max_budget_usd=1,
                deadline_secs=1,
                task_summary="dig",
                conversation_id="0" * 32,
            ).encode(),
            "dig",
        ),
    ],
)
def test_what_the_sender_says(name: str, payload: bytes, text: str) -> None:
    assert message(name, payload).text == text


def test_work_and_amounts() -> None:
    assert message("DELIVER", Deliver(conversation_id=ID, payload_uri="agg://x").encode()).work is None
    assert message("DELIVER", b"\x00").work == b"\x00"
    assert message("REJECT", b"").work is None
    assert message("PROPOSE", Propose(amount=3).encode()).amount == 3
    assert message("REJECT", b"").amount == 0


def test_a_payload_that_cannot_be_read_is_none() -> None:
    found = message("VERDICT", b"\x07")
    assert (found.payload, found.text, found.amount) == (None, "", 0)
    assert decode(encode(found.envelope)).payload == b"\x07"
