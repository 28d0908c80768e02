"""Several connections, several halls: rows that are fought over, and a server that goes away."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from moothall.errors import OutcomeUnknown, StoreUnreachable, UsageError
from moothall.market.audit import audit_row
from moothall.market.books import Books
from moothall.market.records import Receipt, Standing
from moothall.store import postgres as engine
from moothall.store.postgres import PgWorker, PostgresConnection, PostgresStore, Reach, connect
from moothall.store.units import StoreFailed, Unit
from tests.store.server import Server
from tests.store.support import (
    ALICE,
    BOB,
    CAROL,
    NOW_MS,
    Place,
    accept,
    complete,
    expire,
    full_deal,
    propose,
    run,
)


def gain_one(books: Books) -> None:
    """Read, add, write: lost if another did the same meanwhile and nobody noticed."""
    standing = books.standing(ALICE.public.raw)
    books.save(Standing(key=standing.key, rating=standing.rating + 1), audit_row("test", "prop_1", NOW_MS))


async def test_no_update_is_lost_between_two_halls(postgres: Place) -> None:
    """The first units find no row that they could lock."""
    async with postgres.opened() as one, postgres.opened() as other:
        await asyncio.gather(*(run(hall, gain_one) for hall in (one, other) for _ in range(40)))
    assert postgres.select("SELECT rating FROM standings") == [(1280,)]


async def test_deals_between_the_same_two_agents_never_deadlock(postgres: Place) -> None:
    """In both directions, from two halls. Locks are taken in one order, so nothing needs to be repeated once
    both agents have a standing."""
    async with postgres.opened() as one, postgres.opened() as other:
        await full_deal(one, "prop_first")
        before = one.statistics().repeated + other.statistics().repeated
        directions = [(one, ALICE, BOB), (other, BOB, ALICE)]
        await asyncio.gather(
            *(
                full_deal(hall, f"prop_{proposer.public.agent_id()}_{number}", proposer, recipient)
                for hall, proposer, recipient in directions
                for number in range(20)
            )
        )
        assert one.statistics().repeated + other.statistics().repeated == before
        assert one.statistics().failed + other.statistics().failed == 0
    assert postgres.problems() == []
    assert postgres.select("SELECT transactions FROM standings") == [(41,), (41,)]


async def test_a_deal_expires_in_one_hall_only(postgres: Place) -> None:
    """Each hall's clock asks for what is due; rows that another is busy with are passed over."""
    later = NOW_MS + 120_000

    def expire_all(books: Books) -> int:
        due = books.due(later)
        return sum(expire(deal.id, now=later)(books) is not None for deal in due)

    async with postgres.opened() as one, postgres.opened() as other:
        for number in range(30):
            await run(one, propose(f"prop_{number}", expires=60))
        expired = await asyncio.gather(*(run(hall, expire_all) for hall in (one, other, one, other)))
        assert sum(expired) == 30
    assert postgres.select("SELECT count(*) FROM audit WHERE operation = 'expire'") == [(30,)]


def write_receipt(books: Books) -> None:
    """Without looking first whether there is one."""
    receipt = Receipt(proposal_id="prop_1", at=NOW_MS, body=b"{}")
    books.save(receipt, audit_row("test", "prop_1", NOW_MS))


async def test_a_row_that_another_hall_wrote_meanwhile_is_found_on_the_second_try(postgres: Place) -> None:
    looked = threading.Barrier(2, timeout=60)
    seen: list[bool] = []

    def write_once(books: Books) -> bool:
        is_there = bool(books.receipts().items)
        if len(seen) < 2:
            seen.append(is_there)
            looked.wait()
        if not is_there:
            write_receipt(books)
        return is_there

    async with postgres.opened() as store:
        await run(store, propose("prop_1"))
        assert sorted(await asyncio.gather(run(store, write_once), run(store, write_once))) == [False, True]
        assert seen == [False, False]
        assert store.statistics().repeated == 1


async def test_a_unit_that_collides_again_and_again_fails_in_the_end(postgres: Place) -> None:
    async with postgres.opened() as store:
        await run(store, propose("prop_1"))
        await run(store, write_receipt)
        with pytest.raises(StoreFailed, match="again and again"):
            await run(store, write_receipt)
        await run(store, propose("prop_2"))
        assert store.statistics().failed == 1


async def test_a_number_that_does_not_fit_fails_its_unit_only(postgres: Place) -> None:
    def overflow(books: Books) -> None:
        books.save(Standing(key=BOB.public.raw, rating=2**70), audit_row("test", "prop_1", NOW_MS))

    async with postgres.opened() as store:
        with pytest.raises(StoreFailed, match="out of range"):
            await run(store, overflow)
        await run(store, propose("prop_1"))


async def test_a_text_that_no_database_holds_fails_its_unit_only(postgres: Place) -> None:
    def half_a_letter(books: Books) -> None:
        books.save(audit_row("test", "\ud800", NOW_MS))

    async with postgres.opened() as store:
        with pytest.raises(StoreFailed, match="UnicodeEncodeError"):
            await run(store, half_a_letter)
        await run(store, propose("prop_1"))


# -- a connection that is lost -------------------------------------------------------------------------


def note(answer: Any) -> None:
    """Nobody is told: the test looks at what would be."""


def end_all_connections(server: Server) -> None:
    server.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )


async def test_connections_that_were_lost_while_idle_are_made_anew(postgres: Place, server: Server) -> None:
    """As after a restart of the server: nobody needs to notice."""
    async with postgres.opened() as store:
        await asyncio.gather(*(run(store, propose(f"prop_{number}")) for number in range(8)))
        end_all_connections(server)
        await asyncio.gather(*(run(store, accept(f"prop_{number}")) for number in range(8)))
        assert store.statistics().failed == 0
    assert postgres.problems() == []


async def test_a_connection_that_is_lost_before_commit_costs_nothing(postgres: Place, server: Server) -> None:
    tries: list[int] = []

    def lose_it_once(books: Books) -> Any:
        tries.append(1)
        outcome = propose("prop_1")(books)
        if len(tries) == 1:
            end_all_connections(server)
        return outcome

    async with postgres.opened() as store:
        await run(store, lose_it_once)
        assert len(tries) == 2
    assert postgres.select("SELECT count(*) FROM audit") == [(1,)]


@contextmanager
def lost_at_commit(monkeypatch: pytest.MonkeyPatch, server: Server, *, after: bool) -> Iterator[None]:
    """The connection ends before the server heard COMMIT, or after it did and before we heard from it."""
    execute = PostgresConnection.execute

    def unlucky(self: PostgresConnection, sql: str, parameters: Any = (), /) -> Any:
        if sql != "COMMIT":
            return execute(self, sql, parameters)
        if after:
            execute(self, sql)
        end_all_connections(server)
        return execute(self, "SELECT 1")

    with monkeypatch.context() as patch:
        patch.setattr(PostgresConnection, "execute", unlucky)
        yield


@pytest.mark.parametrize("after", [False, True])
async def test_a_connection_that_is_lost_at_commit_is_never_acknowledged(
    postgres: Place, server: Server, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    with postgres.books() as books:
        propose("prop_0")(books)
    worker = PgWorker(postgres.url)
    with lost_at_commit(monkeypatch, server, after=after):
        finished = await asyncio.to_thread(worker.run, Unit(propose("prop_1"), note, note))
    assert finished.failed
    assert isinstance(finished.answer.what, OutcomeUnknown)
    assert "may or may not be saved" in str(finished.answer.what)
    assert postgres.select("SELECT count(*) FROM proposals") == [(2 if after else 1,)]
    again = await asyncio.to_thread(worker.run, Unit(propose("prop_2"), note, note))
    worker.close()
    assert not again.failed


async def test_a_server_that_cannot_be_reached_fails_units_at_once(
    postgres: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def unreachable(url: str) -> PostgresConnection:
        tried.append(url)
        raise psycopg.OperationalError("connection refused")

    async with postgres.opened() as store:
        await run(store, propose("prop_1"))
    monkeypatch.setattr(engine, "connect", unreachable)
    store = PostgresStore(postgres.url, lambda changes: None, threads=1)
    with pytest.raises(StoreUnreachable, match="connection refused"):
        await run(store, accept("prop_1"))
    with pytest.raises(StoreUnreachable, match="cannot be reached"):
        await run(store, accept("prop_1"))
    assert len(tried) == 1
    store.close()


def test_threads_try_again_when_one_of_them_has_reached_the_server(
    postgres: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    reach = Reach()

    def refused(url: str) -> PostgresConnection:
        raise psycopg.OperationalError("connection refused")

    def refused_late(url: str) -> PostgresConnection:
        monkeypatch.setattr(engine, "connect", connect)
        reach.connect(url).close()
        raise psycopg.OperationalError("connection refused")

    monkeypatch.setattr(engine, "connect", refused)
    with pytest.raises(psycopg.OperationalError):
        reach.connect(postgres.url)
    assert not reach.may_try
    monkeypatch.setattr(engine, "connect", refused_late)
    with pytest.raises(psycopg.OperationalError):
        reach.connect(postgres.url)
    assert reach.may_try


async def test_a_server_that_cannot_be_reached_at_the_start_is_one_line_without_the_password(
    postgres: Place,
) -> None:
    postgres.url = "postgresql://hall:secret@/hall?host=/nowhere"
    with pytest.raises(UsageError, match="/nowhere") as raised:
        async with postgres.opened():
            pass
    assert "secret" not in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("url", ["mysql://x", "hall.db"])
async def test_another_kind_of_url_is_one_line(postgres: Place, url: str) -> None:
    postgres.url = url
    with pytest.raises(UsageError, match="postgresql://"):
        async with postgres.opened():
            pass


# -- the connection ------------------------------------------------------------------------------------


def test_a_commit_waits_for_the_disk_even_where_the_server_was_told_not_to(
    postgres: Place, server: Server
) -> None:
    user = postgres.url.removeprefix("postgresql://").partition("@")[0]
    server.execute(f"ALTER ROLE {user} SET synchronous_commit = off")
    connection = engine.connect(postgres.url)
    assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
    assert connection.execute("SHOW lock_timeout").fetchone() == ("10s",)
    connection.close()


def test_what_the_operator_wrote_into_the_url_counts(postgres: Place) -> None:
    connection = engine.connect(postgres.url + "&application_name=mine&options=-c%20lock_timeout%3D1s")
    assert connection.execute("SHOW application_name").fetchone() == ("mine",)
    assert connection.execute("SHOW lock_timeout").fetchone() == ("1s",)
    connection.close()


async def test_a_deal_that_another_hall_is_deciding_about_is_waited_for(postgres: Place) -> None:
    """`proposal` locks the row."""
    with postgres.books() as books:
        propose("prop_1", ALICE, CAROL)(books)
    async with postgres.opened() as store:
        with postgres.books() as other:
            accept("prop_1", CAROL)(other)
            waiting = asyncio.ensure_future(run(store, complete("prop_1", CAROL)))
            await asyncio.to_thread(wait_for_a_lock, postgres)
            assert not waiting.done()
        await waiting
        assert store.statistics().repeated == 0


def wait_for_a_lock(place: Place) -> None:
    while place.select("SELECT count(*) FROM pg_locks WHERE NOT granted") == [(0,)]:
        pass
