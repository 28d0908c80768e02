"""Conversations in the store, on both engines: lists, counts, deadlines, bids, and what a restart or another hall
finds."""

import asyncio
from collections.abc import Iterator

import msgspec
import pytest
from msgspec import structs

from moothall.errors import NoCover, OutOfOrder
from moothall.market import conversing
from moothall.market.books import OpenOffers
from moothall.market.conversations import Conversation, Step
from moothall.market.conversing import MeshRules
from moothall.market.ledger import agent_account
from moothall.store.books import StoreBooks
from moothall.store.units import Engine
from moothall.wire.mesh.envelope import NO_CONVERSATION
from tests.store.support import ALICE, BOB, NOW_MS, Place, Work, full_deal, run
from tests.store.support import propose as propose_deal
from tests.support.talks import CREDIT, REVIEW, STRANGER, TIMEOUT, A, B, N, Talks, envelope

RULES = MeshRules()


def talk(number: int) -> bytes:
    return number.to_bytes(16, "big")


@pytest.fixture
def talks(place: Place) -> Iterator[Talks]:
    talks = Talks(place)
    talks.deposit(A, 10 * CREDIT)
    yield talks
    talks.close()


def ids(talks: Talks, key: bytes, *, limit: int = 100, open_only: bool = False) -> list[bytes]:
    page = talks.unit(lambda books: books.conversations_of(key, limit=limit, open_only=open_only))
    return [conversation.id for conversation in page.items]


def test_a_conversation_comes_back_as_it_was(talks: Talks) -> None:
    dealt = talks.deliver(notary=N)
    talks.restart()
    assert talks.conversation() == dealt.conversation
    assert talks.unit(lambda books: books.conversation(talk(9))) is None


def test_a_whole_deal(talks: Talks, place: Place) -> None:
    talks.resolve(notary=N)
    talks.verdict("APPROVE", N, B)
    talks.feedback(A, B, positive=True)
    talks.feedback(A, N, about_notary=True)
    talks.feedback(B, A)
    assert talks.state() == "CLOSED"
    assert talks.balance(B) == CREDIT * 995 // 1000
    assert talks.standing(B).rating == 1208
    assert place.problems() == []


def test_lists_have_the_conversations_of_all_roles_newest_first(talks: Talks) -> None:
    for number in range(1, 4):
        talks.now += 1
        talks.commit(CREDIT, talk(number), notary=N)
    talks.now += 1
    talks.say("PROPOSE", B, A, talk(4))
    talks.cancel(A, talk(2))
    assert ids(talks, A) == ids(talks, B) == [talk(4), talk(3), talk(2), talk(1)]
    assert ids(talks, N) == [talk(3), talk(2), talk(1)]
    assert ids(talks, N, open_only=True) == [talk(3), talk(1)]
    assert ids(talks, STRANGER) == []
    assert ids(talks, A, limit=2) == [talk(4), talk(3)]


def test_lists_go_on_where_they_ended(talks: Talks) -> None:
    """Some began in the same millisecond."""
    for number in range(1, 8):
        talks.now += number % 2
        talks.say("PROPOSE", A, B, talk(number))
    seen: list[Conversation] = []
    while True:
        last = seen[-1] if seen else None
        page = talks.unit(lambda books: books.conversations_of(A, limit=2, before=last))  # noqa: B023
        if not page.items:
            break
        seen += page.items
    assert [each.id for each in seen] == [talk(number) for number in range(7, 0, -1)]


def test_a_list_ends_where_it_gets_too_long(talks: Talks) -> None:
    for number in range(1, 4):
        talks.say("PROPOSE", A, B, talk(number))
    page = talks.unit(lambda books: books.conversations_of(A, most=1))
    assert (len(page.items), page.truncated) == (1, True)


def test_open_conversations_are_counted_for_their_proposer(talks: Talks) -> None:
    def count(proposer: bytes, recipient: bytes, most: int = 100) -> OpenOffers:
        return talks.unit(lambda books: books.open_conversations(proposer, recipient, NOW_MS - 1, most))

    talks.say("PROPOSE", A, B, talk(1))
    talks.say("PROPOSE", A, N, talk(2), offers_work=True)
    talks.say("PROPOSE", B, A, talk(3))
    assert count(A, B) == OpenOffers(of_pair=1, of_proposer=2)
    assert count(A, N) == OpenOffers(of_pair=1, of_proposer=2)
    assert count(A, B, most=1).of_proposer == 1
    talks.say("REJECT", B, A, talk(1))
    assert count(A, B) == OpenOffers(of_pair=0, of_proposer=1)
    assert talks.unit(lambda books: books.open_conversations(A, N, NOW_MS, 9)) == OpenOffers(0, 0)


def test_what_waits_to_be_written_is_counted_too(talks: Talks) -> None:
    def work(books: StoreBooks) -> OpenOffers:
        for number in (1, 2):
            take(proposal(number))(books)
        return books.open_conversations(A, B, 0, 9)

    assert talks.unit(work) == OpenOffers(of_pair=2, of_proposer=2)


def test_states_are_counted(talks: Talks) -> None:
    talks.propose(talk=talk(1))
    talks.propose(talk=talk(2))
    talks.resolve(talk=talk(3))
    counts = talks.unit(lambda books: books.conversations_by_state())
    assert counts == {"NEGOTIATING": 2, "RESOLVED": 1}


def test_deadlines_are_found_earliest_first(talks: Talks) -> None:
    def next_one() -> int | None:
        return talks.unit(lambda books: books.next_conversation_deadline())

    assert next_one() is None
    talks.commit(talk=talk(1))
    assert next_one() == talks.now + TIMEOUT
    talks.now += 5
    talks.deliver(talk=talk(2))
    talks.now -= 1
    talks.deliver(talk=talk(3))
    assert next_one() == talks.now + REVIEW
    due = talks.unit(lambda books: books.due_conversations(talks.now + TIMEOUT + 5))
    assert due == [talk(3), talk(2), talk(1)]
    assert talks.unit(lambda books: books.due_conversations(talks.now + TIMEOUT, 1)) == [talk(3)]
    assert len(talks.wait(REVIEW + 1)) == 2
    assert next_one() == NOW_MS + TIMEOUT


def test_bids_in_the_order_of_arrival(talks: Talks) -> None:
    def bids(since: int = 0, most: int = 100) -> list[bytes]:
        return talks.unit(lambda books: books.bids(NO_CONVERSATION, since, most))

    for bidder in (STRANGER, A, N):
        talks.now += 1
        talks.bid(bidder, NO_CONVERSATION)
    assert bids() == [STRANGER, A, N]
    assert bids(talks.now - 1) == [N]
    assert bids(most=2) == [STRANGER, A]
    talks.now += 1
    talks.bid(STRANGER, NO_CONVERSATION)
    assert bids() == [A, N, STRANGER]
    talks.unit(lambda books: books.remove_bids(NO_CONVERSATION, talks.now))
    assert bids() == [STRANGER]
    talks.unit(lambda books: books.remove_bids(NO_CONVERSATION))
    assert bids() == []


def test_completed_conversations_count_for_the_history_of_a_pair(talks: Talks) -> None:
    talks.resolve()
    talks.now += 7
    talks.feedback(A, B, positive=True)
    for pair in ((A, B), (B, A)):
        assert talks.unit(lambda books: books.completions(*pair, 10)) == [talks.now]  # noqa: B023
    assert talks.unit(lambda books: books.completions(A, N, 10)) == []


async def test_deals_and_conversations_of_a_pair_are_one_history(place: Place) -> None:
    one, other = ALICE.public.raw, BOB.public.raw
    async with place.opened() as store:
        await full_deal(store, "prop_1")
        await run(store, take(proposal(1, one, other, 0)))
        await run(store, take(acceptance(1, 0, other, one)))
        delivery = Step(event="DELIVER", conversation_id=talk(1), sender=other, recipient=one)
        await run(store, take(delivery))
        approval = Step(
            event="APPROVE", conversation_id=talk(1), sender=one, recipient=other, parties=(one, other)
        )
        await run(store, take(approval))
        praise = Step(event="FEEDBACK", conversation_id=talk(1), sender=one, about=other, positive=True)
        await run(store, take(praise, now=NOW_MS + 9))
        assert await run(store, lambda books: books.completions(one, other, 9)) == [NOW_MS, NOW_MS + 9]
        assert (await run(store, lambda books: books.standing(one))).transactions == 2
        await run(store, propose_deal("prop_2"))
    assert place.problems() == []


def test_a_recipient_that_never_signed_has_no_id(talks: Talks) -> None:
    """Ids are searched for among keys: eight digits can be made up with 32 bytes that are no key of an agent."""
    talks.propose()
    assert talks.select("SELECT key FROM keys") == [(A,)]
    talks.say("ACCEPT", B, A, amount=CREDIT)
    assert sorted(talks.select("SELECT key FROM keys")) == [(A,), (B,)]


# -- several units at once ---------------------------------------------------------------------------------


def take(step: Step, *, now: int = NOW_MS, rules: MeshRules = RULES) -> Work[conversing.Dealt]:
    shown = envelope(step.sender)
    return lambda books: conversing.take(books, step, shown, now=now, rules=rules)


def proposal(number: int, sender: bytes = A, recipient: bytes = B, amount: int = CREDIT) -> Step:
    return Step(
        event="PROPOSE", conversation_id=talk(number), sender=sender, recipient=recipient, amount=amount
    )


def acceptance(number: int, amount: int = CREDIT, sender: bytes = B, recipient: bytes = A) -> Step:
    return Step(
        event="ACCEPT", conversation_id=talk(number), sender=sender, recipient=recipient, amount=amount
    )


async def outcomes(store: Engine, *works: Work[object]) -> list[object]:
    """Of units that were submitted together: the result, or the error."""
    return await asyncio.gather(*(run(store, work) for work in works), return_exceptions=True)


async def test_an_id_is_used_once(place: Place) -> None:
    async with place.opened() as store:
        done = await outcomes(
            store, take(proposal(1)), take(proposal(1, N, STRANGER)), take(proposal(1, STRANGER, B))
        )
        assert sorted(type(each).__name__ for each in done) == ["Dealt", "OutOfOrder", "OutOfOrder"]


async def test_credits_are_not_spent_twice_by_units_at_once(place: Place) -> None:
    talks = Talks(place)
    talks.deposit(A, CREDIT)
    talks.close()
    async with place.opened() as store:
        for number in (1, 2, 3):
            await run(store, take(proposal(number)))
        done = await outcomes(store, *(take(acceptance(number)) for number in (1, 2, 3)))
        assert sorted(type(each).__name__ for each in done) == ["Dealt", "NoCover", "NoCover"]
        assert await run(store, lambda books: books.balance(agent_account(A))) == 0
    assert place.problems() == []


async def test_two_steps_of_one_conversation_are_decided_one_after_the_other(place: Place) -> None:
    async with place.opened() as store:
        await run(store, take(proposal(1, amount=0)))
        reject = Step(event="REJECT", conversation_id=talk(1), sender=B, recipient=A)
        done = await outcomes(store, take(acceptance(1, 0)), take(reject), take(acceptance(1, 0)))
        assert sum(isinstance(each, OutOfOrder) for each in done) == 2
    assert place.problems() == []


def test_a_second_hall_on_the_same_database_decides_by_the_same_rows(postgres: Place) -> None:
    one, other = Talks(postgres), Talks(postgres, prepared=True)
    one.deposit(A, CREDIT)
    one.propose()
    one.propose(talk=talk(2))
    other.say("ACCEPT", B, A, amount=CREDIT)
    with pytest.raises(NoCover):
        one.say("ACCEPT", B, A, talk(2), amount=CREDIT)
    with pytest.raises(OutOfOrder, match="COMMITTED"):
        one.say("REJECT", B, A)
    other.say("REJECT", B, A, talk(2))
    with pytest.raises(OutOfOrder, match="CLOSED"):
        one.propose(talk=talk(2))
    for talks in (one, other):
        talks.close()
    assert postgres.problems() == []


# -- the check ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"state": "RESOLVED"}, "columns"),
        ({"held": 1}, "1 is put aside, and its escrow has 1000000"),
        ({"timeout_at": 5}, "columns"),
        ({"completed_at": None}, "the audit trail completes it"),
        ({}, ""),
    ],
)
def test_the_check_notices(talks: Talks, place: Place, changes: dict[str, object], problem: str) -> None:
    talks.resolve(talk=talk(1))
    talks.feedback(A, B, talk=talk(1), positive=True)
    conversation = talks.commit(notary=N).conversation
    if "completed_at" in changes:
        known = talks.conversation(talk(1))
        assert known is not None
        conversation = known
    record = msgspec.json.encode(structs.replace(conversation, **changes))
    with place.connected() as connection:
        connection.execute("UPDATE conversations SET record = ? WHERE id = ?", (record, conversation.id))
        if place.url:
            connection.execute("COMMIT")
    found = [each for each in place.problems() if problem in each]
    assert bool(found) == bool(place.problems())
    assert bool(found) == bool(changes)
