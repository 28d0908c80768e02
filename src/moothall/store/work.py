"""What every part of the books is built on: one unit of work in SQL, before it is committed."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final, TypeVar

from moothall.store.dialect import Connection, Row, Value
from moothall.store.rows import Draft

# Where halls on one PostgreSQL signal each other. The tables of a store are its own, whatever else is in the
# database.
CHANNEL: Final = "'moothall_' || 'migrations'::regclass::oid"

KEYS_AT_ONCE: Final = 256  # in one statement; a short list is filled up, so that few statements are prepared
FEW_AT_ONCE: Final = 64
MARKS: Final = ", ".join("?" for _ in range(KEYS_AT_ONCE))

Each = TypeVar("Each")


class SqlWork:
    """Changes are collected in a draft, and written before the next query over many rows."""

    def __init__(self, connection: Connection, before: Draft, hall: str = "") -> None:
        """`before` are the changes of the units before this one in the same transaction. `hall` is the name of this
        hall among those that share the store; empty if none can."""
        self.hall = hall
        self._connection = connection
        self._before = before
        self._draft = Draft()
        self._savepoint = False

    def signal(self, signal: str) -> None:
        """Signal the other halls on this store, once this unit is committed."""
        if not self.hall:
            return
        if self._connection.dialect.locks_rows:
            self._connection.execute(f"SELECT pg_notify({CHANNEL}, ?)", (f"{self.hall} {signal}",))
        else:
            self._draft.signals.append(signal)  # carried by the supervising process, see `turns`

    def _query(self, sql: str, *parameters: Any) -> list[Row]:
        self._write_out()
        return self._connection.execute(sql, parameters).fetchall()

    def _change(self, sql: str, *parameters: Value) -> int:
        """Return the number of changed rows."""
        self._write_out()
        self._begin_own()
        return self._connection.execute(sql, parameters).rowcount

    def _write_out(self) -> None:
        """The units before this one stay written whatever happens to this one; its own rows do not."""
        if self._before.unwritten:
            self._before.write(self._connection)
        if self._draft.unwritten:
            self._begin_own()
            self._draft.write(self._connection)

    def _begin_own(self) -> None:
        if not self._savepoint:
            self._connection.execute("SAVEPOINT unit")
            self._savepoint = True


def is_plain(text: str) -> bool:
    """True for every id that a hall makes. An agent may send other text, with NUL or lone surrogates."""
    return text.isascii() and text.isprintable()


def is_storable(text: str) -> bool:
    """True for a text that a database takes: without NUL and without lone surrogates."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def runs(values: Collection[Each]) -> Iterator[Sequence[Each]]:
    """Split into pieces of KEYS_AT_ONCE."""
    listed = list(values)
    for start in range(0, len(listed), KEYS_AT_ONCE):
        some = listed[start : start + KEYS_AT_ONCE]
        yield [*some, *some[:1] * (KEYS_AT_ONCE - len(some))]


def short_runs(values: Collection[Each]) -> Iterator[Sequence[Each]]:
    """Split into pieces of at most FEW_AT_ONCE, for lists that are short most of the time: each is filled up to a
    power of two."""
    listed = list(values)
    for start in range(0, len(listed), FEW_AT_ONCE):
        some = listed[start : start + FEW_AT_ONCE]
        size = 1 << (len(some) - 1).bit_length()
        yield [*some, *some[:1] * (size - len(some))]
