"""The embedded store: one file, one writer thread, and commits that are shared.

An fsync costs milliseconds and a unit of work a tenth of one. So the thread takes whatever waits and whatever
arrives meanwhile, runs it unit by unit inside one transaction, commits once, and only then answers them all. A unit
that is refused leaves nothing behind and does not affect others. If rows collide when they are written (which
decisions that look first never do), the transaction is undone and its units run again, each in a savepoint of its
own, so that the one at fault fails alone. If COMMIT itself fails, nothing was saved, and every unit fails with
that.

How much goes into one commit depends on the disk: enough that the fsync is a small part of the time, and no more,
because the first unit waits for the others, and all of them go on together afterwards. Where a disk takes no time,
units still share the pages that they change.
"""

import os
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from types import NoneType
from typing import Final

from moothall.errors import UsageError
from moothall.market.hooks import Subscription
from moothall.store.books import SqlBooks, StoreBooks
from moothall.store.dialect import SQLITE, Row, Statement
from moothall.store.row_cache import RowCache
from moothall.store.rows import Draft, Stale
from moothall.store.transaction import Transaction
from moothall.store.units import Answer, Answers, LoopFirst, Result, Statistics, StoreFailed, Unit, step_back

FILE: Final = "hall.db"
LOG: Final = "-wal"  # what the name of the log beside it ends with: the latest commits are in there

MAX_BATCH: Final = 256
SHORTEST_BATCH: Final = 0.01  # seconds after which a batch is committed even where a commit takes no time
LONGEST_BATCH: Final = 0.02
BATCH_TO_COMMIT: Final = 3  # in between, a batch takes so many times as long as the last commit
SLICE: Final = 0.0002  # seconds of work after which it is the loop's turn

BUSY_TIMEOUT: Final = 5000  # ms to wait for another program that holds the file
CACHE_KB: Final = 32 * 1024  # of pages; the default of 2 MB is full after a few thousand deals
LOG_PAGES: Final = 4000  # before they are copied into the file: a page that many deals changed is copied once
PREPARED: Final = 256  # statements: thirteen tables in runs of seven lengths, and the queries


# What the engine raises for a file that is not a database, or not any more. Its words about a damaged schema need
# not be UTF-8.
DAMAGED: Final = (sqlite3.DatabaseError, UnicodeDecodeError)
REMEDY: Final = "restore it from a backup, or move it away to begin anew"


def _as_it_is(value: bytes | None) -> bytes | None:
    return value


# For each parameter that is bytes or None, the module looks for an adapter. If there is none, it looks for methods
# and makes an exception for each that is missing: 3,300 instructions for a value that the engine takes as it is.
sqlite3.register_adapter(bytes, _as_it_is)
sqlite3.register_adapter(NoneType, _as_it_is)


class SqliteConnection(sqlite3.Connection):
    dialect = SQLITE
    errors: tuple[type[Exception], ...] = (sqlite3.Error,)

    def stream(self, sql: str) -> Iterator[Row]:
        yield from self.execute(sql)

    def execute_all(self, statements: Sequence[Statement]) -> list[int]:
        return [self.execute(sql, parameters).rowcount for sql, parameters in statements]


def connect(path: Path, *, create: bool = False) -> SqliteConnection:
    _refuse_orphan(path)
    try:
        if create:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # the log beside it gets the same mode
        elif not path.exists():
            raise UsageError(f"{path}: there is no store; the first start of a hall or node makes it")
        connection = sqlite3.connect(
            path,
            isolation_level=None,  # transactions begin and end where this module says so
            check_same_thread=False,  # opened here, used by the writer, closed by it
            cached_statements=PREPARED,
            factory=SqliteConnection,
        )
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except sqlite3.Error as error:
        raise UsageError(f"{path}: {error}") from None
    try:
        for pragma in (
            f"busy_timeout = {BUSY_TIMEOUT}",
            "journal_mode = WAL",
            "synchronous = FULL",  # acknowledged means on the disk
            "fullfsync = ON",  # on macOS, where an fsync does not reach it
            "foreign_keys = ON",
            f"cache_size = {-CACHE_KB}",
            f"wal_autocheckpoint = {LOG_PAGES}",
        ):
            connection.execute(f"PRAGMA {pragma}")
    except sqlite3.OperationalError as error:
        connection.close()
        raise UsageError(f"{path}: {error}") from None
    except DAMAGED as error:
        connection.close()
        raise UsageError(f"{path}: {error}; {REMEDY}") from None
    return connection


def _refuse_orphan(path: Path) -> None:
    """A log whose file is gone may be all that is left of many deals, and the engine would delete it."""
    log = _log_of(path)
    if _size(log) and not _size(path):
        raise UsageError(
            f"{path} is missing or empty, and {log.name} beside it holds changes that were made to it:"
            f" put {path.name} back, or move {log.name} away to begin anew"
        )


def _log_of(path: Path) -> Path:
    return path.with_name(path.name + LOG)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


class SqliteStore:
    def __init__(
        self,
        connection: SqliteConnection,
        committed: Callable[[Draft], None],
        subscriptions: Sequence[Subscription] = (),
        *,
        hall: str = "",
        turn: AbstractContextManager[None] | None = None,
    ) -> None:
        """`committed` hears, on the writer's thread, what each commit changed. If other processes write to the file
        too, `hall` is the name of this one among them, and `turn` is entered before each transaction."""
        # How to undo a statement of many rows is noted beside it: in a temporary file, unless we say otherwise.
        # A few hundred pages at most; those who read the whole store sort more than that, and may use files.
        connection.execute("PRAGMA temp_store = MEMORY")
        self._connection = connection
        self._subscriptions = subscriptions
        self._hall = hall
        self._turn = turn or nullcontext()
        self._committed = committed
        self._answers = Answers()
        self._loop_first = LoopFirst()
        self._batch_seconds = SHORTEST_BATCH
        self._statistics = Statistics()
        self._cache = RowCache()
        self._data_version = -1
        self._path = Path(connection.execute("PRAGMA database_list").fetchone()[2])
        self._log = _log_of(self._path)
        self._files = self._found()
        # Each session has at most one unit here (its later commands wait in its own inbox), so that the
        # number of connections bounds the queue.
        self._queue: SimpleQueue[Unit | None] = SimpleQueue()
        self._waiting: deque[Unit] = deque()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="store", daemon=True)
        self._thread.start()

    def submit(
        self,
        work: Callable[[StoreBooks], Result],
        done: Callable[[Result], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        if self._closed:
            raise StoreFailed("the store is closed")
        self._queue.put(Unit(work, done, failed))

    def statistics(self) -> Statistics:
        return self._statistics.copy(self._queue.qsize() + len(self._waiting))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop_first.end()
            self._queue.put(None)
            self._thread.join()

    # -- the writer's thread -------------------------------------------------------------------------

    def _serve(self) -> None:
        step_back()
        while self._wait():
            answers = self._answer()
            for _ in answers:
                self._waiting.popleft()
            self._answers.send(answers)
        self._connection.close()

    def _wait(self) -> bool:
        """Until a unit waits. False: the store closes, and none does."""
        if not self._waiting:
            unit = self._queue.get()
            if unit is None:
                return False
            self._waiting.append(unit)
        return True

    def _take(self) -> None:
        """What has been handed in since, as far as one commit has room for it."""
        with suppress(Empty):  # nothing more waits
            while len(self._waiting) < MAX_BATCH:
                unit = self._queue.get_nowait()
                if unit is None:
                    self._queue.put(None)  # for the next time, when nothing waits
                    break
                self._waiting.append(unit)

    def _answer(self) -> list[Answer]:
        """For all units that wait, or for as many of them as the time allows."""
        try:
            with self._turn:
                return self._try_twice()
        except BaseException as error:  # noqa: BLE001  # always answer, or the callers wait for ever
            self._statistics.failed += len(self._waiting)
            reason = error if isinstance(error, StoreFailed) else StoreFailed(f"not saved: {error!r}")
            return [unit.fail(reason) for unit in self._waiting]

    def _try_twice(self) -> list[Answer]:
        try:
            try:
                return self._together(careful=False)
            except (sqlite3.Error, Stale):
                self._roll_back()
                self._statistics.repeated += len(self._waiting)
                return self._together(careful=True)
        except BaseException:
            self._roll_back()  # before the turn ends
            raise

    def _together(self, *, careful: bool) -> list[Answer]:
        """One commit for all units that wait. Those that arrive meanwhile go into it too."""
        began = turn = monotonic()
        transaction = Transaction(
            self._connection, self._cache, self._subscriptions, careful=careful, hall=self._hall
        )
        self._begin(transaction)
        answers: list[Answer] = []
        for unit in self._units():
            if monotonic() - turn > SLICE:
                self._loop_first.wait()
                turn = monotonic()
            answers.append(self._run(unit, transaction.unit(), careful))
            if monotonic() - began > self._batch_seconds:
                break
        if monotonic() - turn > SLICE:
            self._loop_first.wait()
        self._write(transaction)
        took = self._commit(transaction)
        self._batch_seconds = min(max(SHORTEST_BATCH, BATCH_TO_COMMIT * took), LONGEST_BATCH)
        self._statistics.committed(len(answers), took)
        self._committed(transaction.changes)
        return answers

    def _units(self) -> Iterator[Unit]:
        """Those that wait, and those that arrive while they are run."""
        taken = 0
        while True:
            if taken == len(self._waiting):
                self._take()
            if taken == len(self._waiting):
                return
            yield self._waiting[taken]
            taken += 1

    def _run(self, unit: Unit, books: SqlBooks, careful: bool) -> Answer:
        try:
            return unit.run(books)
        except (sqlite3.Error, Stale) as error:
            # Perhaps another unit's rows. The second try tells whose they are, unless the engine gave up.
            if not careful or not self._connection.in_transaction:
                raise
            books.undo()
            return unit.fail(StoreFailed(f"not saved: {error!r}"))
        except BaseException as error:  # noqa: BLE001  # a Refusal or a fault goes to the caller
            books.undo()
            return unit.fail(error)

    def _write(self, transaction: Transaction) -> None:
        try:
            transaction.write()
        except (OverflowError, ValueError) as error:
            raise Stale from error  # a number or a text that no column holds: the second try tells whose

    def _begin(self, transaction: Transaction) -> None:
        try:
            transaction.begin()
            row = self._connection.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error as error:
            raise StoreFailed(f"not saved: {error}") from error
        if row[0] != self._data_version:  # another process wrote to the file
            self._data_version = row[0]
            self._cache.clear()

    def _found(self) -> tuple[tuple[int, int] | None, ...]:
        return _inode(self._path), _inode(self._log)

    def _commit(self, transaction: Transaction) -> float:
        if self._found() != self._files:
            # The engine would go on writing into deleted files, and a restart would lose that.
            raise StoreFailed(
                f"not saved: {self._path}, or the log beside it, was removed or replaced while in use;"
                " put both back, or restart the hall"
            )
        try:
            return transaction.commit()
        except sqlite3.Error as error:
            raise StoreFailed(f"not saved: {error}") from error

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
