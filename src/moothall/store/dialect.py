"""Where SQLite and PostgreSQL differ, as values. Every statement of the store is written once, for both.

No ORM and no query builder: there are thirty statements. SQLAlchemy Core 2.1, measured with the rows of a deal
and its audit in batches of 64, takes 14 us a unit where plain SQL takes 3, all of it holding the interpreter's
lock, which is what the event loop waits for.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

Value = str | bytes | int | float | None
Row = tuple[Any, ...]


Statement = tuple[str, Sequence[Value]]


class Cursor(Protocol):
    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Row | None: ...

    def fetchall(self) -> list[Row]: ...


@dataclass(frozen=True, slots=True)
class Dialect:
    name: str
    begin: str
    snapshot: str  # begins a transaction that only reads, and sees one moment
    insert: str  # begins the INSERT of many rows; if it fails, the caller undoes more than this statement
    for_update: str  # ends a SELECT and locks its rows until this transaction ends
    skip_locked: str  # the same, but skips rows that another transaction has locked
    position: str  # the function that tells where in a text another one is; 0 if it is not there
    now: str  # milliseconds since the epoch, by the clock of the machine that the database is on
    types: dict[str, str]  # of the schema's placeholders

    @property
    def locks_rows(self) -> bool:
        return bool(self.for_update)


class Connection(Protocol):
    """Statements carry `?` for parameters, on both engines."""

    dialect: Dialect
    errors: tuple[type[Exception], ...]  # what this engine raises

    def execute(self, sql: str, parameters: Sequence[Value] = (), /) -> Cursor: ...

    def stream(self, sql: str) -> Iterator[Row]:
        """Rows one by one: they need not fit into memory. No other statement until the last was read."""

    def execute_all(self, statements: Sequence[Statement]) -> list[int]:
        """Statements that change rows of different tables, in any order; how many rows each changed."""

    def close(self) -> None: ...


SQLITE: Final = Dialect(
    name="SQLite",
    begin="BEGIN IMMEDIATE",  # takes the write lock now: a lock wanted later could be refused
    snapshot="BEGIN",
    insert="INSERT OR FAIL INTO",  # without FAIL it copies each page that it changes, to undo its first half
    for_update="",  # there is one writer
    skip_locked="",
    position="instr",
    now="CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)",
    types={
        "number": "INTEGER PRIMARY KEY",
        "cursor": "INTEGER PRIMARY KEY AUTOINCREMENT",  # a number that was removed is not given out again
        "bytes": "BLOB",
        "text": "TEXT",
        "compact": " WITHOUT ROWID",
    },
)

POSTGRES: Final = Dialect(
    name="PostgreSQL",
    begin="BEGIN ISOLATION LEVEL READ COMMITTED",
    snapshot="BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    insert="INSERT INTO",
    for_update=" FOR UPDATE",
    skip_locked=" FOR UPDATE SKIP LOCKED",
    position="strpos",
    now="(extract(epoch FROM clock_timestamp()) * 1000)::bigint",
    types={
        "number": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "cursor": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "bytes": "BYTEA",
        "text": 'TEXT COLLATE "C"',  # as SQLite compares, whatever the database's language
        "compact": "",
    },
)
