"""The shared store: PostgreSQL, with a few threads that have a connection each.

Each unit of work is a transaction of its own; the server makes one write to its disk of commits that arrive
together. Other halls may use the same database, so rows that a unit changes are locked (see `books`) or checked
when they are written (see `rows`), and a unit that collided with another runs again.

A connection that is lost before COMMIT was sent cost nothing: the unit runs again on a new one. Lost after
that, it is unknown whether the change was saved: the unit fails with OutcomeUnknown and is never acknowledged.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from queue import SimpleQueue
from time import monotonic
from typing import Any, Final, NamedTuple

import psycopg
from psycopg import errors, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from moothall.errors import OutcomeUnknown, StoreUnreachable, UsageError
from moothall.market.hooks import Subscription
from moothall.store.books import StoreBooks
from moothall.store.dialect import POSTGRES, Cursor, Row, Statement, Value
from moothall.store.row_cache import RowCache
from moothall.store.rows import Draft, Stale
from moothall.store.transaction import Transaction
from moothall.store.units import Answer, Answers, Result, Statistics, StoreFailed, Unit

THREADS: Final = 4  # two cores of a database server, and as many units again waiting for its disk
ATTEMPTS: Final = 10  # of one unit; each collision means that another unit got through
MAX_PARAMETERS: Final = 10_000  # of one statement; the protocol ends at 65,535
PAUSE: Final = 1.0  # seconds after a failed connection before the next is tried; units fail meanwhile

COLLISIONS: Final = (
    Stale,
    errors.SerializationFailure,
    errors.DeadlockDetected,
    errors.UniqueViolation,
)

# What the operator did not decide in the URL.
_DEFAULTS: Final = {
    "application_name": "moothall",
    # A server that vanished is noticed within 9 seconds, before clients give up. Without these, it takes a
    # quarter of an hour.
    "connect_timeout": "4",
    "tcp_user_timeout": "5000",  # ms
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    # A hall that was stopped in the middle of a transaction must not hold its locks for ever.
    "options": "-c idle_in_transaction_session_timeout=30s -c lock_timeout=10s",
}


class Uncertain(StoreFailed, OutcomeUnknown):
    """COMMIT was sent, and no answer came."""


class Unreachable(StoreFailed, StoreUnreachable):
    """There is no connection, or it was lost before COMMIT was sent."""


class PostgresConnection:
    dialect = POSTGRES
    errors: tuple[type[Exception], ...] = (psycopg.Error,)

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    @property
    def lost(self) -> bool:
        return self._connection.closed

    def execute(self, sql: str, parameters: Sequence[Value] = (), /) -> Cursor:
        return self._connection.execute(_translated(sql), parameters or None, binary=True)

    def stream(self, sql: str) -> Iterator[Row]:
        with self._connection.cursor() as cursor:
            yield from cursor.stream(_translated(sql), binary=True)

    def execute_all(self, statements: Sequence[Statement]) -> list[int]:
        """Send all as one: each alone would cost a round trip, and most of the client's time. An import is too long
        for that, and goes out in parts."""
        counts: list[int] = []
        for part in _parts(statements):
            parameters = [value for _, values in part for value in values]
            row = self.execute(_as_one(tuple(sql for sql, _ in part)), parameters).fetchone()
            counts += row or ()
        return counts

    def listen(self, channel: str) -> None:
        """`channel` is an SQL expression."""
        name = str(self._connection.execute(f"SELECT {channel}".encode()).fetchone()[0])  # type: ignore[index]
        self._connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(name)))

    def signals(self, seconds: float) -> Iterator[str]:
        """The signals on that channel within this time."""
        for notify in self._connection.notifies(timeout=seconds):
            yield notify.payload

    def close(self) -> None:
        self._connection.close()


def _parts(statements: Sequence[Statement]) -> Iterator[list[Statement]]:
    part: list[Statement] = []
    room = MAX_PARAMETERS
    for statement in statements:
        if part and len(statement[1]) > room:
            yield part
            part, room = [], MAX_PARAMETERS
        part.append(statement)
        room -= len(statement[1])
    if part:
        yield part


@cache
def _translated(sql: str) -> bytes:
    return sql.replace("%", "%%").replace("?", "%s").encode()


@cache
def _as_one(statements: tuple[str, ...]) -> str:
    parts = [f"w{number} AS ({sql} RETURNING 1)" for number, sql in enumerate(statements)]
    counts = [f"(SELECT count(*) FROM w{number})" for number in range(len(statements))]  # noqa: S608
    return f"WITH {', '.join(parts)} SELECT {', '.join(counts)}"


def connect(url: str) -> PostgresConnection:
    """Raises psycopg.OperationalError."""
    wanted = make_conninfo("", **{**_DEFAULTS, **conninfo_to_dict(url)})
    connection = PostgresConnection(psycopg.connect(wanted, autocommit=True))
    # Even if the server has it off: an acknowledged deal must be on the disk.
    connection.execute(
        "SELECT set_config('synchronous_commit', 'on', false)"
        " WHERE current_setting('synchronous_commit') = 'off'"
    )
    return connection


def connect_first(url: str) -> PostgresConnection:
    """Raise an error for the operator if the database cannot be reached when the hall starts."""
    try:
        return connect(url)
    except psycopg.Error as error:
        raise UsageError(f"{_without_password(url)}: {_one_line(error)}") from None


def _without_password(url: str) -> str:
    try:
        known = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        return "the store's URL"
    return f"postgresql://{known.get('host', '')}/{known.get('dbname', '')}"


class PostgresStore:
    def __init__(
        self,
        url: str,
        committed: Callable[[Draft], None],
        subscriptions: Sequence[Subscription] = (),
        threads: int = THREADS,
        hall: str = "",
    ) -> None:
        """`committed` hears, on the thread that did it, what each commit changed. `hall` is the name of this hall
        among those that share the store."""
        self._url = url
        self._hall = hall
        self._subscriptions = subscriptions
        self._committed = committed
        self._answers = Answers()
        self._statistics = Statistics()
        self._counting = threading.Lock()
        self._reach = Reach()
        self._queue: SimpleQueue[Unit | None] = SimpleQueue()  # bounded as in SqliteStore
        self._closed = False
        self._threads = [
            threading.Thread(target=self._serve, name=f"store-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

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
        with self._counting:
            return self._statistics.copy(self._queue.qsize())

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            for _ in self._threads:
                self._queue.put(None)
            for thread in self._threads:
                thread.join()

    def _serve(self) -> None:
        worker = PgWorker(self._url, self._subscriptions, self._hall, self._reach)
        while (unit := self._queue.get()) is not None:
            finished = worker.run(unit)
            self._count(finished)
            if finished.changes is not None:
                self._committed(finished.changes)
            self._answers.send((finished.answer,))
        worker.close()

    def _count(self, finished: "Finished") -> None:
        with self._counting:
            self._statistics.repeated += finished.repeated
            if finished.failed:
                self._statistics.failed += 1
            elif finished.changes is None:
                self._statistics.units += 1
            else:
                self._statistics.committed(1, finished.commit_seconds)


class Finished(NamedTuple):
    answer: Answer
    changes: Draft | None = None  # None: nothing was committed
    commit_seconds: float = 0.0
    repeated: int = 0
    failed: bool = False


class Reach:
    """Whether the database can be reached, as far as the threads of a store know.

    After a failed attempt, no thread begins another one for PAUSE seconds, unless one that is under way succeeds.
    """

    def __init__(self) -> None:
        self._next_attempt = 0.0
        self._reached_at = 0.0

    @property
    def may_try(self) -> bool:
        return monotonic() >= self._next_attempt

    def connect(self, url: str) -> PostgresConnection:
        """Raises psycopg.Error."""
        began = monotonic()
        try:
            connection = connect(url)
        except psycopg.Error:
            if began > self._reached_at:  # or the attempt is older than what another thread knows
                self._next_attempt = monotonic() + PAUSE
            raise
        self._reached_at = monotonic()
        self._next_attempt = 0.0
        return connection


class PgWorker:
    """One connection, and the thread that works with it."""

    def __init__(
        self, url: str, subscriptions: Sequence[Subscription] = (), hall: str = "", reach: Reach | None = None
    ) -> None:
        """`reach`: what it shares with other threads that work with the same database."""
        self._url = url
        self._hall = hall
        self._subscriptions = subscriptions
        self._connection: PostgresConnection | None = None
        self._cache = RowCache()
        self._reach = Reach() if reach is None else reach

    def run(self, unit: Unit) -> Finished:
        failure = StoreFailed("not saved")
        for repeated in range(ATTEMPTS):
            try:
                return self._attempt(unit, repeated)
            except COLLISIONS as error:
                failure = StoreFailed(f"not saved: others changed the same rows again and again ({error!r})")
            except psycopg.Error as error:
                if not self._is_lost():
                    failure = StoreFailed(f"not saved: {_one_line(error)}")
                    break
                failure = Unreachable(f"not saved: {_one_line(error)}")
            except StoreFailed as error:
                failure = error
                break
            except BaseException as error:  # noqa: BLE001  # always answer, or the caller waits for ever
                failure = StoreFailed(f"not saved: {error!r}")
                break
            self._roll_back()
        self._roll_back()
        return Finished(unit.fail(failure), repeated=repeated, failed=True)

    def _attempt(self, unit: Unit, repeated: int) -> Finished:
        connection = self._connected()
        self._cache.forget()
        transaction = Transaction(
            connection, self._cache, self._subscriptions, careful=repeated > 0, hall=self._hall
        )
        transaction.begin()
        try:
            answer = unit.run(transaction.unit())
        except (*COLLISIONS, psycopg.Error):
            raise
        except BaseException as error:  # noqa: BLE001  # a Refusal or a fault goes to the caller
            self._roll_back()
            return Finished(unit.fail(error), repeated=repeated)
        transaction.write()
        seconds = self._commit(connection, transaction)
        return Finished(answer, transaction.changes, seconds, repeated)

    def _commit(self, connection: PostgresConnection, transaction: Transaction) -> float:
        try:
            return transaction.commit()
        except psycopg.Error as error:
            if connection.lost:
                raise Uncertain(
                    f"the connection was lost while saving: it may or may not be saved ({_one_line(error)})"
                ) from error
            raise

    def _connected(self) -> PostgresConnection:
        if self._connection is None or self._connection.lost:
            if not self._reach.may_try:
                raise Unreachable("not saved: the database cannot be reached")
            try:
                self._connection = self._reach.connect(self._url)
            except psycopg.Error as error:
                raise Unreachable(f"not saved: {_one_line(error)}") from error
        return self._connection

    def _is_lost(self) -> bool:
        return self._connection is None or self._connection.lost

    def _roll_back(self) -> None:
        if self._connection is not None and not self._connection.lost:
            try:
                self._connection.execute("ROLLBACK")
            except psycopg.Error:
                self.close()  # the server rolls back what it loses

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
