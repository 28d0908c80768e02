"""Which version a database has, and how it gets to ours. The caller holds the transaction."""

from typing import Final

from moothall.errors import UsageError
from moothall.store.dialect import Connection
from moothall.store.migration_steps import fills, statements
from moothall.store.offers import fill_offers
from moothall.store.schema import MIGRATIONS, VERSION

_FILLS: Final = {"offers": fill_offers}

# Two halls that start on one empty database must not both create it. The number is ours alone.
_MIGRATION_LOCK: Final = 0x6D6F6F7468616C6C  # "moothall"


def version_of(connection: Connection) -> int:
    """0: there is nothing of ours in it."""
    if connection.dialect.locks_rows:
        exists = connection.execute("SELECT to_regclass('migrations') IS NOT NULL").fetchone()
    else:
        exists = connection.execute(
            "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'migrations'"
        ).fetchone()
    if not (exists and exists[0]):
        return 0
    row = connection.execute("SELECT max(version) FROM migrations").fetchone()
    return int(row[0] or 0) if row else 0


def require_current(connection: Connection) -> None:
    """For programs that read: whatever they would say about another version's tables could be wrong."""
    found = version_of(connection)
    if found == 0:
        raise UsageError("there is no store of a hall there")
    refuse_newer(found)
    if found < VERSION:
        raise UsageError(
            f"the store has version {found}, this program needs {VERSION}: run `moothall store upgrade`"
        )


def refuse_newer(found: int) -> None:
    if found > VERSION:
        raise UsageError(
            f"the store was written by a newer moothall (version {found}, this program knows {VERSION}):"
            " upgrade moothall"
        )


def lock(connection: Connection) -> None:
    """Wait until no other process upgrades. On SQLite the transaction itself locks the others out."""
    if connection.dialect.locks_rows:
        connection.execute("SELECT pg_advisory_xact_lock(?)", (_MIGRATION_LOCK,))


def upgrade(connection: Connection, now: int) -> int:
    """Apply what is missing; returns the version that was found."""
    found = version_of(connection)
    refuse_newer(found)
    if found == 0:
        connection.execute("CREATE TABLE migrations (version BIGINT PRIMARY KEY, applied_at BIGINT NOT NULL)")
    for version in range(found + 1, VERSION + 1):
        for statement in statements(MIGRATIONS[version - 1], connection.dialect):
            connection.execute(statement)
        for table in fills(MIGRATIONS[version - 1]):
            _FILLS[table](connection)
        connection.execute("INSERT INTO migrations (version, applied_at) VALUES (?, ?)", (version, now))
    return found
