"""Conversations as an agent knows them: by the same rules as the hall, bounded, and read again when in doubt."""

from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from moothall.errors import OutOfOrder
from moothall.hall.mesh import frames
from moothall.identity import PrivateKey
from moothall.market.conversation_rules import decide
from moothall.market.conversations import Conversation, Event, Step
from moothall.market.mesh import step_of
from moothall.mesh.message import Message, read
from moothall.mesh.records import MAX_HISTORY, Record, Records, Seen
from moothall.wire.mesh.envelope import Envelope, encode, seal
from moothall.wire.mesh.keccak import keccak256
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.notaries import NotarizeAssign
from moothall.wire.mesh.offers import Accept, Counter, Propose
from moothall.wire.mesh.outcomes import Deliver

ALICE, BOB, HALL = (PrivateKey(bytes([number]) * 32) for number in (1, 2, 7))
A, B = ALICE.public.raw, BOB.public.raw
ID = b"c" * 16
NOTARY = b"n" * 32


def envelope(
    msg_type: MsgType,
    payload: bytes,
    by: PrivateKey = ALICE,
    to: bytes = B,
    nonce: int = 1,
    named: bytes = ID,
) -> Envelope:
    return seal(
        msg_type,
        payload,
        sender=by.public.raw,
        sign=by.sign_bytes,
        nonce=nonce,
        now=10**15,
        recipient=to,
        conversation_id=named,
    )


PROPOSE = envelope(MsgType.PROPOSE, Propose(amount=5, max_rounds=3).encode())
COUNTER = envelope(MsgType.COUNTER, Counter(amount=6).encode(), BOB, A, 2)
ACCEPT = envelope(MsgType.ACCEPT, Accept(amount=6).encode(), ALICE, B, 3)
ASSIGN = envelope(MsgType.NOTARIZE_ASSIGN, NotarizeAssign(NOTARY).encode(), HALL, NOTARY, 4)
DELIVER = envelope(MsgType.DELIVER, Deliver(conversation_id=ID, inline=b"work").encode(), BOB, A, 5)
STORY = (PROPOSE, COUNTER, ACCEPT, ASSIGN, DELIVER)


def shown(*envelopes: Envelope, **summary: Any) -> frames.ConversationShown:
    facts = {
        "conversation_id": ID.hex(),
        "state": "DELIVERED",
        "requester": A.hex(),
        "provider": B.hex(),
        "amount": 6,
        "notary": NOTARY.hex(),
        **summary,
    }
    history = tuple(
        frames.Logged(
            msg_type=each.msg_type.name,
            sender=each.sender.hex(),
            timestamp=each.timestamp,
            hash=keccak256(encode(each)).hex(),
            envelope=b64encode(encode(each)).decode(),
        )
        for each in envelopes
    )
    return frames.ConversationShown(
        conversation=frames.ConversationSummary(**facts), offered_by=B.hex(), history=history
    )


def test_steps_are_applied_as_in_the_hall() -> None:
    record = Record(ID)
    for each in (PROPOSE, COUNTER, ACCEPT):
        assert record.fits(step_of(each))
    assert record.facts is not None
    assert record.facts.state == "COMMITTED"
    assert not record.is_stale


def test_what_does_not_fit_makes_it_stale_and_changes_nothing() -> None:
    record = Record(ID)
    record.fits(step_of(PROPOSE))
    before = record.facts
    assert not record.fits(step_of(DELIVER))
    assert record.is_stale
    assert record.facts == before
    with pytest.raises(OutOfOrder):
        record.check(step_of(DELIVER))


def test_a_state_of_the_hall_that_is_another_one_makes_it_stale() -> None:
    record = Record(ID)
    record.took(step_of(PROPOSE), "NEGOTIATING")
    assert not record.is_stale
    record.took(step_of(COUNTER), "CLOSED")
    assert record.is_stale


def test_what_the_hall_answers_is_replayed() -> None:
    record = Record(ID)
    record.is_stale = True
    record.adopt(shown(*STORY), STORY, HALL.public.raw)
    facts = record.facts
    assert facts is not None
    assert (facts.state, facts.notary, facts.amount) == ("DELIVERED", NOTARY, 6)
    assert (facts.max_rounds, facts.provider_rounds) == (3, 1)
    assert not record.is_stale


def test_the_hall_has_the_last_word_on_the_state() -> None:
    record = Record(ID)
    record.adopt(shown(*STORY, state="CLOSED", notary=None), STORY, HALL.public.raw)
    assert record.facts is not None
    assert (record.facts.state, record.facts.notary) == ("CLOSED", None)


def test_without_a_log_the_summary_is_enough_to_go_on() -> None:
    record = Record(ID)
    record.adopt(shown(), (), HALL.public.raw)
    assert record.facts is not None
    assert record.facts.parties == (A, B)
    assert record.fits(Step(event="DISPUTE", conversation_id=ID, sender=A, recipient=NOTARY))


def test_a_notary_and_a_state_that_the_hall_tells() -> None:
    record = Record(ID)
    record.fits(step_of(PROPOSE))
    record.assigned(NOTARY)
    record.changed("CLOSED")
    assert record.facts is not None
    assert (record.facts.notary, record.facts.state) == (NOTARY, "CLOSED")


def test_what_the_hall_tells_of_a_conversation_that_is_not_known() -> None:
    record = Record(ID)
    record.assigned(NOTARY)
    record.changed("CLOSED")
    assert record.facts is None


def message(nonce: int, named: bytes = ID, length: int = 0, time: int = 10**15) -> Message:
    made = envelope(MsgType.REJECT, b"x" * length, nonce=nonce, named=named)
    return read(structs.replace(made, timestamp=time))


def test_a_message_is_in_the_history_once() -> None:
    record = Record(ID)
    for nonce in (1, 2, 1, 3):
        record.remember(message(nonce))
    assert [each.nonce for each in record.history] == [1, 2, 3]
    record.remember_all([message(2), message(4)])
    assert [each.nonce for each in record.history] == [2, 4, 1, 3]


def test_what_the_hall_has_not_logged_yet_is_put_where_it_belongs_by_time() -> None:
    record = Record(ID)
    for time in (1, 5, 9):
        record.remember(message(time, time=time))
    record.remember_all([message(2, time=2), message(9, time=9), message(12, time=12)])
    assert [each.nonce for each in record.history] == [1, 2, 5, 9, 12]


def test_a_history_forgets_its_oldest() -> None:
    record = Record(ID)
    for nonce in range(1, MAX_HISTORY + 3):
        record.remember(message(nonce))
    assert len(record.history) == MAX_HISTORY
    assert record.history[0].nonce == 3
    fresh = Record(ID)
    fresh.remember_all(list(record.history))
    assert fresh.size == record.size


def test_conversations_make_way_in_the_order_of_their_last_use() -> None:
    records = Records(max_records=2)
    first, second = records.of(b"1" * 16), records.of(b"2" * 16)
    assert records.find(b"1" * 16) is first
    records.of(b"3" * 16)
    assert records.find(b"2" * 16) is None
    assert records.find(b"1" * 16) is first
    records.of(b"2" * 16, lambda _: second)
    assert records.find(b"2" * 16) is second


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 50), st.integers(0, 5000)), max_size=60))
def test_they_are_bounded_in_number_and_in_bytes(steps: list[tuple[int, int, int]]) -> None:
    records = Records(max_records=5, max_bytes=20_000)
    for which, nonce, length in steps:
        named = bytes([which]) * 16
        record = records.of(named)
        records.remember(record, message(nonce, named, length))
        assert len(records) <= 5
        held = [each.size for each in records]
        assert sum(held) <= 20_000 or len(held) == 1
        assert records.find(named) is record


def test_an_envelope_is_new_once_and_a_beacon_has_nonces_of_its_own() -> None:
    seen = Seen(most=2)
    beacon = seal(MsgType.BEACON, A * 2, sender=A, sign=ALICE.sign_bytes, nonce=1, now=10**15)
    assert seen.is_new(PROPOSE)
    assert seen.is_new(beacon)
    assert not seen.is_new(PROPOSE)
    assert not seen.is_new(beacon)
    assert seen.is_new(COUNTER)  # and the oldest is forgotten
    assert seen.is_new(PROPOSE)


EVENTS: tuple[Event, ...] = ("PROPOSE", "COUNTER", "ACCEPT", "REJECT", "DELIVER", "DISPUTE", "APPROVE")


@given(st.lists(st.tuples(st.sampled_from(EVENTS), st.booleans(), st.integers(0, 2)), max_size=30))
def test_a_record_is_where_the_hall_is(steps: list[tuple[Event, bool, int]]) -> None:
    """Whatever both parties try: a record that hears what the hall takes has what the hall has."""
    hall: Conversation | None = None
    record = Record(ID)
    for event, by_alice, amount in steps:
        sender, other = (A, B) if by_alice else (B, A)
        step = Step(
            event=event, conversation_id=ID, sender=sender, recipient=other, amount=amount, parties=(A, B)
        )
        try:
            after = decide(hall, step)
        except OutOfOrder:
            with pytest.raises(OutOfOrder):
                record.check(step)
            continue
        assert record.check(step) == after
        hall = after
        record.took(step, after.state_of(sender))
        assert record.facts == hall
        assert not record.is_stale
