"""Payloads that the node builds from requests. The hex of the reference's is from a running one."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.errors import NodeRefused
from moothall.node_api import payloads
from moothall.node_api.bodies import AcceptBody, BroadcastBody, CounterBody, ProposeBody
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.outcomes import MAX_INLINE, Deliver, Feedback, Outcome, Role

CONVERSATION = bytes.fromhex("11" * 16)
TARGET = bytes.fromhex("22" * 32)


def rating(**members: Any) -> bytes:
    return json.dumps(members).encode()


def refusal(call: Any) -> NodeRefused:
    with pytest.raises(NodeRefused) as refused:
        call()
    return refused.value


@pytest.mark.parametrize("name", ["REJECT", "reject", "Notarize_Assign", "DELIVER"])
def test_types_in_any_case(name: str) -> None:
    assert payloads.sendable(name).name == name.upper()


@pytest.mark.parametrize("name", ["BEACON", "BOUNTY", "beacon", "NONSENSE", "NOTARIZEBID", ""])
def test_types_that_are_not_sent(name: str) -> None:
    refused = refusal(lambda: payloads.sendable(name))
    assert (refused.status, str(refused)) == (400, f"unknown msg_type: {name}")


def test_a_delivery_is_wrapped_as_the_reference_does() -> None:
    wrapped = payloads.built(MsgType.DELIVER, b"work", CONVERSATION, TARGET)
    assert base64.b64encode(wrapped) == b"hVARERERERERERERERERERER9kR3b3Jr9vY="
    assert Deliver.decode(wrapped).inline == b"work"
    assert payloads.built(MsgType.DELIVER, b"w" * MAX_INLINE, CONVERSATION, TARGET)[:1] == b"\x85"
    too_long = b"w" * (MAX_INLINE + 1)
    assert payloads.built(MsgType.DELIVER, too_long, CONVERSATION, TARGET) == too_long


@given(st.sampled_from(sorted(MsgType)), st.binary(max_size=80))
def test_other_payloads_are_left_alone(msg_type: MsgType, raw: bytes) -> None:
    if msg_type not in (MsgType.DELIVER, MsgType.BROADCAST) and raw[:1] != b"{":
        assert payloads.built(msg_type, raw, CONVERSATION, None) == raw


@pytest.mark.parametrize(
    ("members", "outcome", "role"),
    [
        ({"score": 80, "outcome": "positive"}, Outcome.POSITIVE, Role.PARTICIPANT),
        ({"score": -5, "outcome": 0, "role": 1}, Outcome.NEGATIVE, Role.NOTARY),
        ({"score": 0, "role": "notary", "message": "thanks"}, Outcome.NEUTRAL, Role.NOTARY),
    ],
)
def test_feedback_in_json_keeps_its_target(members: dict[str, Any], outcome: Outcome, role: Role) -> None:
    for raw, recipient in (
        (rating(**members), TARGET),
        (rating(**members, target_agent=TARGET.hex()), None),
        (rating(**members, target_agent=TARGET.hex()), b"\x33" * 32),
    ):
        built = Feedback.decode(payloads.built(MsgType.FEEDBACK, raw, CONVERSATION, recipient))
        assert (built.target_agent, built.conversation_id) == (TARGET, CONVERSATION)
        assert (built.score, built.outcome, built.role) == (members["score"], outcome, role)


@pytest.mark.parametrize(
    "raw",
    [
        rating(score=80, outcome="positive"),  # of which agent?
        rating(outcome="positive", target_agent=TARGET.hex()),
        rating(score=101, target_agent=TARGET.hex()),
        rating(score="80", target_agent=TARGET.hex()),
        rating(score=80, outcome="great", target_agent=TARGET.hex()),
        rating(score=80, outcome=3, target_agent=TARGET.hex()),
        rating(score=80, target_agent="zz"),
        b"{",
    ],
)
def test_feedback_that_says_too_little(raw: bytes) -> None:
    assert refusal(lambda: payloads.built(MsgType.FEEDBACK, raw, CONVERSATION, None)).status == 400


def test_a_broadcast_in_json_is_converted() -> None:
    """The TypeScript client sends BROADCAST in this way."""
    post = {
        "topic": "radio:x",
        "title": "Episode 1",
        "tags": ["a"],
        "format": "audio",
        "content_b64": base64.b64encode(b"sound").decode(),
        "content_type": "audio/mpeg",
        "chunk_index": 0,
        "duration_ms": 5000,
        "price_per_epoch_micro": 10_000,
    }
    built = payloads.built(MsgType.BROADCAST, json.dumps(post).encode(), CONVERSATION, None)
    assert Broadcast.decode(built) == Broadcast(
        topic="radio:x",
        title="Episode 1",
        tags=("a",),
        format="audio",
        content=b"sound",
        content_type="audio/mpeg",
        chunk_index=0,
        duration_ms=5000,
        price_per_epoch_micro=10_000,
    )
    assert payloads.built(MsgType.BROADCAST, built, CONVERSATION, None) == built


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"junk",
        b"{",
        b'{"topic":"x"}',
        b'{"topic":"x","title":"t","format":"video"}',
        b'{"topic":"x","title":"t","content_b64":"!"}',
        b'{"topic":"x","title":"t","duration_ms":-1}',
        b'{"topic":"x","title":"t","duration_ms":4294967296}',
        b'{"topic":"x","title":"t","epoch":36893488147419103232}',
    ],
)
def test_a_broadcast_that_is_none(raw: bytes) -> None:
    assert refusal(lambda: payloads.built(MsgType.BROADCAST, raw, CONVERSATION, None)).status == 400


def test_offers_as_the_reference_builds_them() -> None:
    recipient = TARGET.hex()
    propose = ProposeBody(
        recipient=recipient,
        message="hi",
        amount_usdc_micro=5,
        max_rounds=3,
        token_mint="m",
        payment_tx="t",
        payment_usd_micro=1,
        total_price_usd_micro=2,
    )
    assert base64.b64encode(payloads.proposal(propose)) == (
        b"BQAAAAAAAAAAAAAAAAAAAHsibWF4X3JvdW5kcyI6MywibWVzc2FnZSI6ImhpIiwicGF5bWVudF90eCI6InQiLCJwYXltZW50X3VzZF9t"
        b"aWNybyI6MSwidG9rZW5fbWludCI6Im0iLCJ0b3RhbF9wcmljZV91c2RfbWljcm8iOjJ9"
    )
    bare = payloads.proposal(ProposeBody(recipient=recipient, message="hi"))
    assert base64.b64encode(bare) == b"AAAAAAAAAAAAAAAAAAAAAHsibWF4X3JvdW5kcyI6MiwibWVzc2FnZSI6ImhpIn0="
    counter = CounterBody(recipient=recipient, conversation_id="", amount_usdc_micro=5, round=1)
    assert base64.b64encode(payloads.counter_offer(counter)) == (
        b"BQAAAAAAAAAAAAAAAAAAAHsibWF4X3JvdW5kcyI6MiwibWVzc2FnZSI6IiIsInJvdW5kIjoxfQ=="
    )
    accept = AcceptBody(recipient=recipient, conversation_id="", amount_usdc_micro=5)
    assert base64.b64encode(payloads.acceptance(accept)) == b"BQAAAAAAAAAAAAAAAAAAAHsibWVzc2FnZSI6IiJ9"


def test_a_round_is_within_its_range() -> None:
    for round_, most in ((0, None), (3, None), (4, 3), (1, 0)):
        body = CounterBody(
            recipient="", conversation_id="", amount_usdc_micro=5, round=round_, max_rounds=most
        )
        refused = refusal(lambda body=body: payloads.counter_offer(body))
        assert (refused.status, str(refused)) == (
            400,
            f"round {round_} is out of range [1, {2 if most is None else most}]",
        )


def test_a_message_has_its_length() -> None:
    assert payloads.proposal(ProposeBody(recipient="", message="x" * 4096))
    refused = refusal(lambda: payloads.proposal(ProposeBody(recipient="", message="ä" * 2049)))
    assert (refused.status, str(refused)) == (413, "message: exceeds maximum length")
    assert (
        refusal(lambda: payloads.proposal(ProposeBody(recipient="", message="", max_rounds=0))).status == 400
    )


def test_an_announcement_as_the_reference_builds_it() -> None:
    body = BroadcastBody(
        title="t",
        tags=["a"],
        format="text",
        content_url="http://x/y",
        content_type="text/plain",
        duration_ms=5,
        price_per_epoch_micro=3,
        epoch=9,
    )
    assert base64.b64encode(payloads.announcement("radio:x", body)) == (
        b"i2dyYWRpbzp4YXSBYWFkdGV4dEpodHRwOi8veC95anRleHQvcGxhaW729gUDCQ=="
    )
    bare = payloads.announcement("radio:x", BroadcastBody(title="t"))
    assert base64.b64encode(bare) == b"i2dyYWRpbzp4YXSAZHRleHT29vb29vb2"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (BroadcastBody(title=""), "title must be 1\N{EN DASH}256 characters"),
        (BroadcastBody(title="t" * 257), "title must be 1\N{EN DASH}256 characters"),
        (BroadcastBody(title="t", tags=["a"] * 33), "tags: max 32 entries, max 64 chars each"),
        (BroadcastBody(title="t", tags=["a" * 65]), "tags: max 32 entries, max 64 chars each"),
        (BroadcastBody(title="t", format="video"), 'format must be "text", "audio", or "data"'),
        (
            BroadcastBody(title="t", content_url="ftp://x"),
            "content_url must be an http/https URL, max 2048 chars",
        ),
        (
            BroadcastBody(title="t", content_url="http://" + "x" * 2048),
            "content_url must be an http/https URL, max 2048 chars",
        ),
    ],
)
def test_announcements_that_are_refused(body: BroadcastBody, text: str) -> None:
    refused = refusal(lambda: payloads.announcement("radio:x", body))
    assert (refused.status, str(refused)) == (400, text)


def test_slugs() -> None:
    for slug in ("radio:x", "a-b_c", "x" * 128):
        assert payloads.topic_slug(slug, "no") == slug
    for slug in ("", "bad slug", "a.b", "a/b", "x" * 129, "ä"):
        assert str(refusal(lambda slug=slug: payloads.topic_slug(slug, "no"))) == "no"
