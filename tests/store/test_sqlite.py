"""The writer's thread: commits that are shared, units that fail alone, and a disk that says no."""

import asyncio
import sqlite3
import stat
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from moothall.errors import InvalidProposal, UsageError
from moothall.market.audit import audit_row
from moothall.market.books import Books
from moothall.market.records import Receipt, Standing
from moothall.store import sqlite as engine
from moothall.store.books import StoreBooks
from moothall.store.opening import prepare
from moothall.store.sqlite import SqliteConnection, SqliteStore, connect
from moothall.store.transaction import Transaction
from moothall.store.units import StoreFailed
from tests.store.support import ALICE, BOB, NOW_MS, Place, accept, complete, propose, reject, run


class HeldStore(SqliteStore):
    """COMMIT waits until it is let go: what a slow disk does, without the time it takes."""

    def __init__(self, connection: SqliteConnection) -> None:
        self.let_go = threading.Semaphore(0)
        self.reached = threading.Semaphore(0)
        self.refusals = 0  # COMMITs that will fail
        super().__init__(connection, lambda changes: None)

    def _commit(self, transaction: Transaction) -> float:
        self.reached.release()
        assert self.let_go.acquire(timeout=60)
        if self.refusals:
            self.refusals -= 1
            raise StoreFailed("not saved: disk I/O error")
        return super()._commit(transaction)


def opened(place: Place) -> SqliteConnection:
    connection = connect(place.directory.path / engine.FILE, create=True)
    prepare(connection, place.directory, place.log)
    return connection


@asynccontextmanager
async def held(place: Place) -> AsyncIterator[HeldStore]:
    store = HeldStore(opened(place))
    try:
        yield store
    finally:
        for _ in range(1000):
            store.let_go.release()
        store.close()


@pytest.fixture
def ample_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a batch: what waits is committed together, however slow this machine is."""
    monkeypatch.setattr(engine, "SHORTEST_BATCH", 60.0)
    monkeypatch.setattr(engine, "LONGEST_BATCH", 60.0)


async def begun(store: HeldStore) -> None:
    """The thread has reached a COMMIT."""
    assert await asyncio.to_thread(store.reached.acquire, timeout=60)


# -- sharing commits -----------------------------------------------------------------------------------


@pytest.mark.usefixtures("ample_time")
async def test_units_that_come_while_the_disk_is_busy_share_the_next_commit(sqlite: Place) -> None:
    async with held(sqlite) as store:
        first = asyncio.ensure_future(run(store, propose("prop_0")))
        await begun(store)
        others = [asyncio.ensure_future(run(store, propose(f"prop_{n}"))) for n in range(1, 65)]
        await asyncio.sleep(0)  # they are submitted when the loop gets to them
        store.let_go.release()
        await first
        await begun(store)
        assert not any(other.done() for other in others)
        store.let_go.release()
        await asyncio.gather(*others)
        statistics = store.statistics()
    assert statistics.commits == 2
    assert statistics.units == 65
    assert statistics.largest_batch == 64
    assert statistics.batch_sizes == {1: 1, 64: 1}
    assert sqlite.select("SELECT count(*) FROM proposals") == [(65,)]


@pytest.mark.usefixtures("ample_time")
async def test_units_that_come_while_others_are_run_share_their_commit(sqlite: Place) -> None:
    async with sqlite.opened() as store:
        second: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def first(books: StoreBooks) -> None:
            propose("prop_1")(books)
            store.submit(propose("prop_2"), second.set_result, second.set_exception)

        await run(store, first)
        await second
        assert store.statistics().batch_sizes == {2: 1}
    assert sqlite.select("SELECT count(*) FROM proposals") == [(2,)]


async def test_nobody_is_answered_before_the_commit(sqlite: Place) -> None:
    async with held(sqlite) as store:
        answer = asyncio.ensure_future(run(store, propose("prop_1")))
        await begun(store)
        assert not answer.done()
        assert sqlite.select("SELECT count(*) FROM proposals") == [(0,)]
        store.let_go.release()
        await answer
        assert sqlite.select("SELECT count(*) FROM proposals") == [(1,)]


@pytest.mark.usefixtures("ample_time")
async def test_answers_come_in_the_order_of_submission_refusals_too(sqlite: Place) -> None:
    order: list[int] = []
    async with held(sqlite) as store:
        store.submit(propose("prop_0"), lambda _: order.append(0), lambda _: order.append(-1))
        await begun(store)
        for number in range(1, 30):
            work = propose(f"prop_{number}") if number % 3 else reject("prop_0", ALICE)
            store.submit(work, lambda _, n=number: order.append(n), lambda _, n=number: order.append(-n))  # type: ignore[misc]
        last = asyncio.ensure_future(run(store, lambda books: books.counts()))
        await asyncio.sleep(0)
        store.let_go.release(2)
        assert await last == {"pending": 21}
    assert order == [number if number % 3 or not number else -number for number in range(30)]


@pytest.mark.usefixtures("ample_time")
async def test_a_batch_is_bounded_in_units(sqlite: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MAX_BATCH", 8)
    async with held(sqlite) as store:
        units = [asyncio.ensure_future(run(store, propose(f"prop_{n}"))) for n in range(21)]
        await begun(store)
        store.let_go.release(100)
        await asyncio.gather(*units)
        assert store.statistics().largest_batch == 8
        assert store.statistics().units == 21


async def test_a_batch_is_bounded_in_time(sqlite: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits longest must not wait for everybody who came later."""
    monkeypatch.setattr(engine, "SHORTEST_BATCH", 0.0)
    monkeypatch.setattr(engine, "LONGEST_BATCH", 0.0)
    async with held(sqlite) as store:
        units = [asyncio.ensure_future(run(store, propose(f"prop_{n}"))) for n in range(5)]
        await begun(store)
        store.let_go.release(100)
        await asyncio.gather(*units)
        assert store.statistics().batch_sizes == {1: 5}


@pytest.mark.parametrize(
    ("commit_took", "next_batch"),
    [(0.0, engine.SHORTEST_BATCH), (0.005, 0.015), (1.0, engine.LONGEST_BATCH)],
)
async def test_a_slow_disk_is_given_more_to_commit_at_once(
    sqlite: Place, commit_took: float, next_batch: float
) -> None:
    class Measured(SqliteStore):
        def _commit(self, transaction: Transaction) -> float:
            super()._commit(transaction)
            return commit_took

    store = Measured(opened(sqlite), lambda changes: None)
    await run(store, propose("prop_0"))
    assert store._batch_seconds == pytest.approx(next_batch)
    store.close()


@pytest.mark.usefixtures("ample_time")
async def test_the_loop_has_its_turn_between_units(sqlite: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "SLICE", 0.0)
    turn = 0
    seen: list[int] = []

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count_turns())
    async with held(sqlite) as store:
        store.let_go.release(100)
        await asyncio.gather(*(run(store, lambda _: seen.append(turn)) for _ in range(20)))
    counting.cancel()
    # The turn in which a unit is let go may be counted before the unit looks or after.
    assert all(later > earlier for earlier, later in zip(seen, seen[2:], strict=False))


async def test_closing_finishes_what_was_submitted(sqlite: Place) -> None:
    done: list[Any] = []
    store = SqliteStore(opened(sqlite), lambda changes: None)
    for number in range(300):
        store.submit(propose(f"prop_{number}"), done.append, done.append)
    store.close()
    store.close()
    assert sqlite.select("SELECT count(*) FROM proposals") == [(300,)]
    assert done == []  # the loop did not run meanwhile
    for _ in range(300):
        await asyncio.sleep(0)
    assert len(done) == 300
    with pytest.raises(StoreFailed, match="closed"):
        store.submit(propose("prop_x"), done.append, done.append)


# -- failing alone -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("ample_time")
@pytest.mark.parametrize(
    "looks", [False, True], ids=["saves", "saves and looks, so that its rows are written"]
)
async def test_a_refused_unit_leaves_nothing_and_disturbs_nobody(sqlite: Place, looks: bool) -> None:
    def save_and_refuse(books: Books) -> None:
        propose("prop_bad")(books)
        if looks:
            assert books.counts() == {"pending": 3}
        raise InvalidProposal("no")

    async with held(sqlite) as store:
        first = asyncio.ensure_future(run(store, propose("prop_0")))
        await begun(store)
        batch = [run(store, propose("prop_1")), run(store, save_and_refuse), run(store, propose("prop_2"))]
        answers = asyncio.gather(first, *batch, return_exceptions=True)
        await asyncio.sleep(0)
        store.let_go.release(2)
        outcomes = await answers
        assert isinstance(outcomes[2], InvalidProposal)
        assert not isinstance(outcomes[1], BaseException)
        assert not isinstance(outcomes[3], BaseException)
        assert store.statistics().commits == 2
        assert store.statistics().repeated == 0
    assert sqlite.select("SELECT id FROM proposals ORDER BY id") == [("prop_0",), ("prop_1",), ("prop_2",)]


def count(books: Books) -> dict[str, int]:
    """A question about many rows, which writes what the units before it left."""
    return books.counts()


def finish(books: Books) -> None:
    """A whole deal, which leaves a receipt."""
    for step in (propose("prop_0"), accept("prop_0"), complete("prop_0")):
        step(books)


def collide(books: Books) -> None:
    """A decision that does not look first: a second receipt for the same deal."""
    receipt = Receipt(proposal_id="prop_0", at=NOW_MS, body=b"{}")
    books.save(receipt, audit_row("test", "prop_0", NOW_MS))


def overflow(books: Books) -> None:
    """A number that no database holds."""
    books.save(Standing(key=BOB.public.raw, rating=2**70), audit_row("test", "prop_0", NOW_MS))


def half_a_letter(books: Books) -> None:
    """A text that no database holds."""
    books.save(audit_row("test", "\ud800", NOW_MS))


@pytest.mark.usefixtures("ample_time")
@pytest.mark.parametrize("guilty", [collide, overflow, half_a_letter])
async def test_of_a_batch_that_collides_only_the_guilty_unit_fails(sqlite: Place, guilty: Any) -> None:
    async with held(sqlite) as store:
        first = asyncio.ensure_future(run(store, finish))
        await begun(store)
        works = [propose("prop_1"), guilty, count, accept("prop_1"), guilty, count, complete("prop_1")]
        answers = asyncio.gather(first, *(run(store, work) for work in works), return_exceptions=True)
        await asyncio.sleep(0)
        store.let_go.release(10)
        _, proposed, failed, counts, accepted, failed_too, more_counts, completed = await answers
        assert store.statistics().repeated == 7
    assert isinstance(failed, StoreFailed | OverflowError | UnicodeEncodeError)
    assert isinstance(failed_too, StoreFailed | OverflowError | UnicodeEncodeError)
    for fine in (proposed, accepted, completed):
        assert not isinstance(fine, BaseException)
    assert (counts, more_counts) == ({"completed": 1, "pending": 1}, {"accepted": 1, "completed": 1})
    assert sqlite.select("SELECT status FROM proposals") == [("completed",), ("completed",)]
    assert sqlite.select("SELECT count(*) FROM receipts") == [(2,)]
    assert sqlite.problems() == []


async def test_a_fault_in_a_unit_is_its_submitters_and_the_thread_goes_on(sqlite: Place) -> None:
    async with sqlite.opened() as store:
        with pytest.raises(ZeroDivisionError):
            await run(store, lambda books: 1 // 0)
        await run(store, propose("prop_1"))


@pytest.mark.usefixtures("ample_time")
async def test_when_commit_fails_everybody_hears_so_and_nothing_happened(sqlite: Place) -> None:
    async with held(sqlite) as store:
        first = asyncio.ensure_future(run(store, propose("prop_0")))
        await begun(store)
        works = [accept("prop_0"), propose("prop_1")]
        answers = asyncio.gather(*(run(store, work) for work in works), return_exceptions=True)
        await asyncio.sleep(0)
        store.let_go.release()
        await first
        await begun(store)
        store.refusals = 1
        store.let_go.release()
        for answer in await answers:
            assert isinstance(answer, StoreFailed)
        assert store.statistics().failed == 2
        assert sqlite.select("SELECT id, status FROM proposals") == [("prop_0", "pending")]

        store.let_go.release(10)
        for work in works:  # what was rolled back is not remembered either
            await run(store, work)
    assert sqlite.select("SELECT id, status FROM proposals ORDER BY id") == [
        ("prop_0", "accepted"),
        ("prop_1", "pending"),
    ]


async def test_a_disk_that_is_full_fails_the_units_and_not_the_hall(sqlite: Place) -> None:
    connection = opened(sqlite)
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    store = SqliteStore(connection, lambda changes: None)
    await run(store, propose("prop_0"))
    connection.execute(f"PRAGMA max_page_count = {pages + 4}")
    with pytest.raises(StoreFailed, match="full"):
        await run(store, propose("prop_large", terms="x" * 100_000))
    assert store.statistics().failed == 1
    connection.execute("PRAGMA max_page_count = 1000000")
    await run(store, propose("prop_later"))
    store.close()
    assert sqlite.problems() == []


@pytest.mark.parametrize("name", ["hall.db", "hall.db-wal"])
async def test_a_file_that_was_taken_away_fails_the_units_until_it_is_back(sqlite: Place, name: str) -> None:
    """The engine would not notice: it has the files open, and nobody could open them again."""
    path = sqlite.directory.path / name
    elsewhere = path.with_name("elsewhere")
    async with sqlite.opened() as store:
        await run(store, propose("prop_0"))
        path.rename(elsewhere)
        with pytest.raises(StoreFailed, match="removed or replaced"):
            await run(store, propose("prop_lost"))
        path.write_bytes(elsewhere.read_bytes())  # a copy is another file
        with pytest.raises(StoreFailed, match="removed or replaced"):
            await run(store, propose("prop_lost"))
        elsewhere.rename(path)
        await run(store, propose("prop_1"))
    assert sqlite.select("SELECT id FROM proposals ORDER BY id") == [("prop_0",), ("prop_1",)]
    assert sqlite.problems() == []


@pytest.mark.parametrize("left", [None, b""])
async def test_a_log_without_its_file_is_not_thrown_away(sqlite: Place, left: bytes | None) -> None:
    """A hall that was killed leaves the latest commits there, perhaps all that it ever made."""
    path = sqlite.directory.path / "hall.db"
    log = path.with_name("hall.db-wal")
    async with sqlite.opened() as store:
        await run(store, propose("prop_0"))
        file, changes = path.read_bytes(), log.read_bytes()  # as a kill leaves them
    path.unlink()
    if left is not None:
        path.write_bytes(left)
    log.write_bytes(changes)
    with pytest.raises(UsageError, match=r"hall\.db is missing or empty, and hall\.db-wal beside it"):
        async with sqlite.opened():
            pass
    with pytest.raises(UsageError, match=r"hall\.db-wal"):
        connect(path)
    assert log.read_bytes() == changes
    path.write_bytes(file)
    assert sqlite.select("SELECT id FROM proposals") == [("prop_0",)]


async def test_a_large_deal_is_not_kept_in_memory_between_its_steps(sqlite: Place) -> None:
    """Ten thousand deals are remembered, and a task can be as long as a frame."""
    store = SqliteStore(opened(sqlite), lambda changes: None)
    await run(store, propose("prop_small"))
    await run(store, propose("prop_large", terms="x" * 100_000))
    assert list(store._cache.proposals) == ["prop_small"]
    await run(store, accept("prop_large"))
    deals = await run(store, lambda books: books.proposals_of(ALICE.public.raw).items)
    assert [deal.status for deal in deals if deal.id == "prop_large"] == ["accepted"]
    await run(store, lambda books: None)
    assert "prop_large" not in store._cache.proposals
    await run(store, complete("prop_large"))
    with pytest.raises(InvalidProposal):
        await run(store, reject("prop_large"))
    store.close()
    assert sqlite.problems() == []


# -- the file ------------------------------------------------------------------------------------------


async def test_what_another_program_wrote_is_seen(sqlite: Place) -> None:
    """The memory of committed rows is good only while nobody else commits."""
    async with sqlite.opened() as store:
        await run(store, propose("prop_1"))
        assert await run(store, lambda books: books.proposal("prop_1"))
        with sqlite.books() as other:
            accept("prop_1")(other)
        with pytest.raises(InvalidProposal):
            await run(store, reject("prop_1"))


async def test_a_file_that_another_program_holds_fails_the_units(
    sqlite: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "BUSY_TIMEOUT", 1)
    async with sqlite.opened() as store:
        with sqlite.connected() as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreFailed, match="locked"):
                await run(store, propose("prop_1"))
            other.execute("ROLLBACK")
        await run(store, propose("prop_1"))


async def test_the_file_is_private_and_a_commit_is_on_the_disk(sqlite: Place) -> None:
    async with sqlite.opened() as store:
        await run(store, propose("prop_1"))
        for name in ("hall.db", "hall.db-wal"):
            mode = (sqlite.directory.path / name).stat().st_mode
            assert stat.S_IMODE(mode) == 0o600
    connection = connect(sqlite.directory.path / engine.FILE)
    settings = {
        name: connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous", "foreign_keys", "fullfsync")
    }
    connection.close()
    assert settings == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "fullfsync": 1}


async def test_a_file_that_is_no_store_is_one_line(sqlite: Place) -> None:
    (sqlite.directory.path / "hall.db").write_bytes(b"not a database, but long enough to be looked at" * 50)
    with pytest.raises(UsageError, match=r"hall\.db: file is not a database"):
        async with sqlite.opened():
            pass


def test_a_store_is_not_made_by_looking_for_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no store"):
        connect(tmp_path / "hall.db")
    assert not (tmp_path / "hall.db").exists()


@pytest.mark.parametrize("value", [b"", b"\0\xff", None])
def test_parameters_are_not_searched_for_methods(value: bytes | None) -> None:
    """Without an adapter this raises ProgrammingError, and so it does inside of each statement."""
    assert sqlite3.adapt(value, sqlite3.PrepareProtocol) is value


def test_the_database_refuses_what_the_code_never_asks_for(sqlite: Place) -> None:
    with sqlite.books() as books:
        propose("prop_1")(books)
    with sqlite.connected() as connection, pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        connection.execute("INSERT INTO standings VALUES (?, 1200, 0, 1, ?)", (b"x" * 32, b"{}"))
