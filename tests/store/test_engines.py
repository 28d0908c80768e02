"""What both engines promise, seen from the event loop."""

import asyncio
import threading
from functools import partial
from typing import Any

import pytest

from moothall.errors import InvalidProposal, Refusal
from moothall.market.rating_rules import RatingRules
from moothall.market.records import Standing
from moothall.market.rules import MarketRules
from moothall.store.books import StoreBooks
from moothall.store.units import Engine
from tests.store import support
from tests.store.support import (
    ALICE,
    BOB,
    CAROL,
    DAVE,
    NOW_MS,
    PATIENCE,
    Place,
    accept,
    complete,
    dispute,
    expire,
    full_deal,
    offered,
    propose,
    register,
    reject,
    run,
)


async def outcomes(store: Engine, *works: Any) -> list[Any]:
    return await asyncio.gather(*(run(store, work) for work in works), return_exceptions=True)


def winners(answers: list[Any]) -> int:
    """Everybody else was refused, which is the only other way it may end."""
    for answer in answers:
        assert answer is None or isinstance(answer, Refusal) or not isinstance(answer, BaseException), answer
    return sum(answer is not None and not isinstance(answer, BaseException) for answer in answers)


@pytest.mark.parametrize("stake", [0, 50])
async def test_of_complete_and_dispute_exactly_one_wins(place: Place, stake: int) -> None:
    async with place.opened() as store:
        for number in range(15):
            deal = f"prop_{number}"
            await run(store, propose(deal, elo_stake=stake))
            await run(store, accept(deal, elo_stake=stake))
            rivals = [complete(deal, BOB), dispute(deal, ALICE), complete(deal, ALICE), dispute(deal, BOB)]
            assert winners(await outcomes(store, *rivals)) == 1
        assert place.problems() == []


async def test_of_accept_reject_and_expiry_exactly_one_ends_the_offer(place: Place) -> None:
    """An offer that was accepted in time may expire too: that ends the deal, not the offer."""
    late = NOW_MS + 60_001
    async with place.opened() as store:
        deals = [f"prop_{number}" for number in range(15)]
        for deal in deals:
            await run(store, propose(deal, expires=60))
            winners(await outcomes(store, expire(deal, now=late), accept(deal), reject(deal)))
    steps = place.select("SELECT deal, operation FROM audit WHERE operation <> 'propose' ORDER BY number")
    for deal in deals:
        story = [operation for of, operation in steps if of == deal]
        assert story in (["expire"], ["reject"], ["accept", "expire"])
    assert place.problems() == []


async def test_the_same_command_from_many_threads_wins_once(place: Place) -> None:
    """Submitted by threads of the test, answered on the loop."""
    async with place.opened() as store:
        await run(store, propose("prop_1", elo_stake=30))
        loop = asyncio.get_running_loop()
        answers: list[Any] = []
        everybody = asyncio.Event()
        work = accept("prop_1", elo_stake=30)

        def note(answer: Any) -> None:
            answers.append(answer)
            if len(answers) == 40:
                everybody.set()

        start = threading.Barrier(8)

        def press() -> None:
            start.wait()
            for _ in range(5):
                store.submit(work, note, note)

        threads = [threading.Thread(target=press) for _ in range(8)]
        for thread in threads:
            thread.start()
        await asyncio.gather(*(loop.run_in_executor(None, thread.join) for thread in threads))
        await everybody.wait()
    assert winners(answers) == 1
    assert place.select("SELECT count(*) FROM audit WHERE operation = 'accept'") == [(1,)]
    assert place.problems() == []


async def test_stakes_never_exceed_what_an_agent_has(place: Place) -> None:
    """Alice has 1100 to stake. Eight deals of 300 are accepted at once."""
    async with place.opened() as store:
        deals = [f"prop_{number}" for number in range(8)]
        for deal in deals:
            await run(store, propose(deal, elo_stake=300))
        assert winners(await outcomes(store, *(accept(deal) for deal in deals))) == 3
        standing = await run(store, lambda books: books.standing(ALICE.public.raw))
        assert standing.escrowed == 900
    assert place.problems() == []


async def test_everything_is_there_when_the_store_is_opened_again(place: Place) -> None:
    async with place.opened() as store:
        await full_deal(store, "prop_1")
        await run(store, propose("prop_2", elo_stake=40, expires=60))
        await run(store, accept("prop_2"))
        await run(store, register(ALICE, {"capability": "review"}))
        before = await run(store, lambda books: (books.leaders(10), offered(books)))
    async with place.opened() as store:
        after = await run(store, lambda books: (books.leaders(10), offered(books)))
        assert after == before
        assert await run(store, lambda books: books.next_deadline()) == NOW_MS + 60_000
        assert await run(store, expire("prop_2", now=NOW_MS + 60_001))
        with pytest.raises(InvalidProposal):
            await run(store, complete("prop_1"))
    assert place.problems() == []


async def test_what_a_callback_raises_does_not_keep_others_from_their_answers(place: Place) -> None:
    loop = asyncio.get_running_loop()
    raised: asyncio.Queue[Any] = asyncio.Queue()
    loop.set_exception_handler(lambda _, context: raised.put_nowait(context["exception"]))

    def broken(_: Any) -> None:
        raise ZeroDivisionError

    async with place.opened() as store:
        store.submit(propose("prop_1"), broken, broken)
        await run(store, propose("prop_2"))
        await run(store, propose("prop_3"))
        async with asyncio.timeout(PATIENCE):  # on PostgreSQL another thread has it, which may be the last
            assert type(await raised.get()) is ZeroDivisionError
    assert raised.empty()


@pytest.mark.parametrize("table", ["audit", "postings", "receipts", "rating_history"])
@pytest.mark.parametrize("statement", ["UPDATE {} SET at = 0", "DELETE FROM {}"])
async def test_the_database_itself_keeps_what_is_written_for_ever(
    place: Place, table: str, statement: str
) -> None:
    async with place.opened() as store:
        await full_deal(store, "prop_1")
    with place.connected() as connection, pytest.raises(connection.errors, match="append-only"):
        connection.execute(statement.format(table))


async def test_statistics_tell_what_waits_and_what_was_done(place: Place) -> None:
    async with place.opened() as store:
        assert store.statistics().waiting == 0
        await full_deal(store, "prop_1")
        statistics = store.statistics()
    assert (statistics.units, statistics.commits, statistics.failed) == (3, 3, 0)
    assert statistics.commit_seconds > 0
    assert statistics.batch_sizes == {1: 3}


async def test_what_a_newcomer_loses_to_others_is_capped_however_many_disputes_race(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = MarketRules(ratings=RatingRules(newcomer_cap=100, gain_limit=1000, gain_window=4_000_000))
    monkeypatch.setattr(support, "RULES", rules)
    winners = (BOB, CAROL, DAVE) * 3
    async with place.opened() as store:
        for number, winner in enumerate(winners):
            await run(store, propose(f"prop_{number}", ALICE, winner, elo_stake=100))
            await run(store, accept(f"prop_{number}", winner))
        ended = [dispute(f"prop_{number}", winner) for number, winner in enumerate(winners)]
        assert not [each for each in await outcomes(store, *ended) if isinstance(each, BaseException)]
        standings = [
            await run(store, partial(_standing, key=agent.public.raw)) for agent in (ALICE, BOB, CAROL, DAVE)
        ]
    loser, *others = standings
    assert loser.curbs.conceded == sum(each.rating - 1200 for each in others) <= 100
    assert loser.rating <= 1200 - 900
    assert place.problems() == []


def _standing(books: StoreBooks, key: bytes) -> Standing:
    return books.standing(key)
