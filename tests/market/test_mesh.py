"""Envelopes as steps: every message of a conversation, and payloads that cannot be read."""

from typing import Any

import pytest
from msgspec import structs

from moothall.errors import OutOfOrder
from moothall.market.conversation_rules import decide
from moothall.market.conversations import ORDERS, Event, Step
from moothall.market.mesh import authority_of, conversation_id_of, step_of
from moothall.wire.mesh.envelope import NO_CONVERSATION, NO_RECIPIENT, Envelope, encode, seal
from moothall.wire.mesh.keccak import keccak256
from moothall.wire.mesh.msg_types import BILATERAL, MsgType
from moothall.wire.mesh.notaries import BidType, Judgement, NotarizeAssign, NotarizeBid, Verdict
from moothall.wire.mesh.offers import Accept, Counter, Propose, encode_amount
from moothall.wire.mesh.outcomes import Deliver, Feedback, Outcome, Role
from moothall.wire.mesh.reasons import Dispute, Reject
from tests.identity.vectors import ALICE, BOB, CAROL

A, B, N = (agent.public.raw for agent in (ALICE, BOB, CAROL))
TALK = b"conversation-id!"
NOW = 1_767_323_045_678_000


def envelope(msg_type: MsgType, payload: bytes, *, recipient: bytes = B, talk: bytes = TALK) -> Envelope:
    return seal(
        msg_type,
        payload,
        sender=A,
        sign=lambda _: bytes(64),  # it was checked before
        nonce=NOW,
        now=NOW,
        recipient=recipient if msg_type in BILATERAL else NO_RECIPIENT,
        conversation_id=talk,
    )


def unmarked(step: Step) -> Step:
    return structs.replace(step, mark=b"")


MESSAGES: list[tuple[Event, MsgType, Any, dict[str, Any]]] = [
    (
        "PROPOSE",
        MsgType.PROPOSE,
        Propose(amount=7, max_rounds=3, role="provider"),
        {"amount": 7, "max_rounds": 3, "offers_work": True},
    ),
    ("COUNTER", MsgType.COUNTER, Counter(amount=8, round=2), {"amount": 8, "round": 2}),
    ("ACCEPT", MsgType.ACCEPT, Accept(amount=9), {"amount": 9}),
    ("REJECT", MsgType.REJECT, Reject("no"), {}),
    ("DELIVER", MsgType.DELIVER, Deliver(conversation_id=TALK, inline=b"work"), {}),
    ("NOTARIZE_ASSIGN", MsgType.NOTARIZE_ASSIGN, NotarizeAssign(N), {"about": N}),
    ("APPROVE", MsgType.VERDICT, Verdict(Judgement.APPROVE, A, B), {"parties": (A, B)}),
    ("DISAPPROVE", MsgType.VERDICT, Verdict(Judgement.REJECT, A, B), {"parties": (A, B)}),
    ("DISPUTE", MsgType.DISPUTE, Dispute("bad work"), {}),
]


@pytest.mark.parametrize(("event", "msg_type", "payload", "fields"), MESSAGES)
def test_a_bilateral_message_is_a_step(
    event: Event, msg_type: MsgType, payload: Any, fields: dict[str, Any]
) -> None:
    expected = Step(event=event, conversation_id=TALK, sender=A, recipient=B, **fields)
    assert unmarked(step_of(envelope(msg_type, payload.encode()))) == expected


def test_every_bilateral_message_is_one_and_no_order_is() -> None:
    assert {msg_type for _, msg_type, _, _ in MESSAGES} == BILATERAL
    assert not {event for event, _, _, _ in MESSAGES} & ORDERS


def test_a_message_that_is_sent_again_has_the_same_mark() -> None:
    sent = envelope(MsgType.DELIVER, b"work")
    mark = step_of(sent).mark
    assert mark
    assert step_of(structs.replace(sent, nonce=NOW + 1, timestamp=NOW + 1)).mark == mark
    others = (
        envelope(MsgType.DELIVER, b"other work"),
        envelope(MsgType.REJECT, b"work"),
        envelope(MsgType.DELIVER, b"work", recipient=N),
        structs.replace(sent, sender=N),
    )
    assert mark not in [step_of(other).mark for other in others]


def feedback(**fields: Any) -> Feedback:
    usual: dict[str, Any] = {
        "conversation_id": TALK,
        "target_agent": B,
        "score": -7,
        "outcome": Outcome.NEGATIVE,
    }
    return Feedback(**usual | fields)


@pytest.mark.parametrize("talk", [TALK, NO_CONVERSATION])
def test_feedback_is_about_the_conversation_in_its_payload(talk: bytes) -> None:
    step = step_of(envelope(MsgType.FEEDBACK, feedback(role=Role.NOTARY).encode(), talk=talk))
    assert unmarked(step) == Step(
        event="FEEDBACK", conversation_id=TALK, sender=A, about=B, about_notary=True, score=-7
    )
    good = feedback(outcome=Outcome.POSITIVE, score=100)
    assert step_of(envelope(MsgType.FEEDBACK, good.encode())).positive


def test_feedback_does_not_name_two_conversations() -> None:
    with pytest.raises(OutOfOrder, match="two conversations"):
        step_of(envelope(MsgType.FEEDBACK, feedback().encode(), talk=b"another one     "))


UNREADABLE = [
    (MsgType.PROPOSE, encode_amount(5) + b'{"max_rounds": "many"}'),
    (MsgType.COUNTER, encode_amount(5) + b'{"round": 0}'),
    (MsgType.ACCEPT, encode_amount(5) + b'{"message": 5}'),
    (MsgType.NOTARIZE_ASSIGN, b"short"),
    (MsgType.VERDICT, b"\0" * 64),
    (MsgType.VERDICT, b"\2" + bytes(64)),
    (MsgType.FEEDBACK, b"{}"),
]


@pytest.mark.parametrize(("msg_type", "payload"), UNREADABLE)
def test_a_payload_that_a_rule_depends_on_must_be_readable(msg_type: MsgType, payload: bytes) -> None:
    with pytest.raises(OutOfOrder, match=f"this {msg_type.name} cannot be read"):
        step_of(envelope(msg_type, payload))


@pytest.mark.parametrize("payload", [b"", b"\xff\0raw work", b"{"])
@pytest.mark.parametrize("msg_type", [MsgType.REJECT, MsgType.DELIVER, MsgType.DISPUTE])
def test_the_others_may_say_anything(msg_type: MsgType, payload: bytes) -> None:
    assert step_of(envelope(msg_type, payload)).event == msg_type.name


@pytest.mark.parametrize("payload", [b"", b"hello"])
def test_an_offer_without_an_amount_is_for_nothing(payload: bytes) -> None:
    assert step_of(envelope(MsgType.PROPOSE, payload)).amount == 0


def test_a_negative_amount_is_read_and_then_refused() -> None:
    step = step_of(envelope(MsgType.PROPOSE, encode_amount(-1)))
    assert step.amount == -1
    with pytest.raises(OutOfOrder, match="An offer is from 0"):
        decide(None, step)


@pytest.mark.parametrize("msg_type", sorted(set(MsgType) - BILATERAL - {MsgType.FEEDBACK}))
def test_other_messages_belong_to_no_conversation(msg_type: MsgType) -> None:
    with pytest.raises(OutOfOrder, match="not a message of a conversation"):
        step_of(envelope(msg_type, b""))


def test_an_authority_is_the_hash_of_the_whole_envelope() -> None:
    sent = envelope(MsgType.REJECT, b"")
    authority = authority_of(sent, encode(sent))
    assert (authority.envelope, authority.sender, authority.nonce) == (keccak256(encode(sent)), A, NOW)


def test_feedback_and_bids_may_name_their_conversation_in_the_payload_alone() -> None:
    rating = Feedback(
        conversation_id=TALK,
        target_agent=B,
        score=1,
        outcome=Outcome.POSITIVE,
        is_dispute=False,
        role=Role.PARTICIPANT,
    )
    bid = NotarizeBid(BidType.OFFER, TALK)
    for msg_type, payload in ((MsgType.FEEDBACK, rating.encode()), (MsgType.NOTARIZE_BID, bid.encode())):
        assert conversation_id_of(envelope(msg_type, payload, talk=NO_CONVERSATION)) == TALK
        assert conversation_id_of(envelope(msg_type, b"?", talk=NO_CONVERSATION)) == NO_CONVERSATION
    assert conversation_id_of(envelope(MsgType.REJECT, b"")) == TALK
