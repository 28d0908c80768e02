"""A hall that outgrows its file: every row of it, into an empty PostgreSQL, in one transaction."""

from collections.abc import Iterator, Sequence
from graphlib import TopologicalSorter
from itertools import islice
from typing import Any, Final

from moothall.errors import UsageError
from moothall.store import migrations
from moothall.store.dialect import Connection
from moothall.store.files import DataDirectory
from moothall.store.former import bring_in_journal

# Rows of one statement; the widest tables have a dozen columns (`postgres.MAX_PARAMETERS`)
BATCH: Final = 500
# What the processes of a running hall tell each other. The others are about the past.
PASSING: Final = frozenset(("halls", "present", "letters"))

_OWN_TABLES: Final = (
    "SELECT name FROM sqlite_master"
    " WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'migrations'"
)
_NUMBERED: Final = (
    "SELECT table_name, column_name FROM information_schema.columns"
    " WHERE table_schema = current_schema() AND is_identity = 'YES'"
)


def move(source: Connection, target: Connection, directory: DataDirectory, now: int) -> int:
    """How many rows were copied. `source` is the file in `directory`, of this version. Raises UsageError if
    `target` has a store."""
    target.execute(target.dialect.begin)
    migrations.lock(target)
    if migrations.version_of(target):
        raise UsageError("the database has a store of a hall already; name an empty one")
    migrations.upgrade(target, now)
    source.execute(source.dialect.snapshot)
    numbered: dict[str, str] = dict(target.execute(_NUMBERED).fetchall())
    copied = sum(_copy(source, target, table, numbered.get(table)) for table in _tables(source))
    bring_in_journal(target, directory)
    source.execute("ROLLBACK")
    target.execute("COMMIT")
    return copied


def _tables(source: Connection) -> list[str]:
    """A table comes after those that its rows refer to."""
    names = {row[0] for row in source.execute(_OWN_TABLES).fetchall()} - PASSING
    needs = {
        name: {row[2] for row in source.execute(f"PRAGMA foreign_key_list({name})").fetchall()}
        & names - {name}
        for name in names
    }
    return list(TopologicalSorter(needs).static_order())


def _copy(source: Connection, target: Connection, table: str, number: str | None) -> int:
    columns = [row[1] for row in source.execute(f"PRAGMA table_info({table})").fetchall()]
    listed = ", ".join(columns)
    places = f"({', '.join('?' * len(columns))})"
    overriding = " OVERRIDING SYSTEM VALUE" if number else ""
    # Triggers keep running halls from writing to what is closed: to epochs of the mesh's log that have ended.
    target.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
    copied = 0
    for rows in _batches(source.stream(f"SELECT {listed} FROM {table}")):  # noqa: S608
        values = ", ".join([places] * len(rows))
        target.execute(
            f"INSERT INTO {table} ({listed}){overriding} VALUES {values}",  # noqa: S608
            [value for row in rows for value in row],
        )
        copied += len(rows)
    target.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
    if number and (last := _last_number(source, table, number)):
        target.execute("SELECT setval(pg_get_serial_sequence(?, ?), ?)", (table, number, last))
    return copied


def _last_number(source: Connection, table: str, number: str) -> int:
    """A number that was removed may not be given out again."""
    row = source.execute(f"SELECT max({number}) FROM {table}").fetchone()  # noqa: S608
    last = row[0] or 0 if row else 0
    if source.execute("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_sequence'").fetchone():
        row = source.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
        last = max(last, row[0] if row else 0)
    return int(last)


def _batches(rows: Iterator[Sequence[Any]]) -> Iterator[list[Sequence[Any]]]:
    while batch := list(islice(rows, BATCH)):
        yield batch
