"""The part of the books that all halls on one store have in common, in SQL (see `hall.common`)."""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from moothall.hall.common import ListName
from moothall.hall.other_halls import NEWS
from moothall.store.dialect import Connection
from moothall.store.work import SqlWork

_LISTED: Final = "SELECT record FROM common WHERE list = ? ORDER BY number"
_ENLIST: Final = (
    "INSERT INTO common (list, name, record) VALUES (?, ?, ?)"
    " ON CONFLICT (list, name) DO UPDATE SET record = excluded.record"
)
_STRIKE: Final = "DELETE FROM common WHERE list = ? AND name = ?"
# Two halls that change the same list do so one after the other.
_COUNT: Final = (
    "INSERT INTO common_versions (list, version) VALUES (?, 1)"
    " ON CONFLICT (list) DO UPDATE SET version = common_versions.version + 1"
)

_PIN: Final = "INSERT INTO pins (identity, key) VALUES (?, ?) ON CONFLICT (identity) DO NOTHING"
_PINNED_SINCE: Final = "SELECT number, identity, key FROM pins WHERE number > ? ORDER BY number"


class CommonSql(SqlWork):
    """What `SqlBooks` is made of besides the other parts."""

    def listed(self, of: ListName) -> list[bytes]:
        return [row[0] for row in self._query(_LISTED, of)]

    def enlist(self, of: ListName, name: bytes, record: bytes) -> None:
        self._change(_ENLIST, of, name, record)
        self._changed(of)

    def strike(self, of: ListName, names: Collection[bytes]) -> None:
        if names:
            for name in names:
                self._change(_STRIKE, of, name)
            self._changed(of)

    def pin(self, pins: Iterable[tuple[str, bytes]]) -> dict[str, bytes]:
        holding: dict[str, bytes] = {}
        for identity, key in sorted(pins):  # in one order, so that two halls never wait for each other
            if self._change(_PIN, identity, key):
                holding[identity] = key
            else:
                holding.update(self._query("SELECT identity, key FROM pins WHERE identity = ?", identity))
        self.signal(NEWS)
        return holding

    def pinned_since(self, number: int) -> list[tuple[int, str, bytes]]:
        return [(number, identity, key) for number, identity, key in self._query(_PINNED_SINCE, number)]

    def _changed(self, of: ListName) -> None:
        self._change(_COUNT, of)
        self._draft.has_lists = True
        self.signal(NEWS)


def listed(connection: Connection, of: ListName) -> list[bytes]:
    """The records of a list, outside of a unit of work."""
    return [row[0] for row in connection.execute(_LISTED, (of,)).fetchall()]


def alter(
    connection: Connection, of: ListName, enlisted: Sequence[tuple[bytes, bytes]], struck: Collection[bytes]
) -> None:
    """Enter (name, record) pairs, and take out names. The caller holds the transaction."""
    for name, record in enlisted:
        connection.execute(_ENLIST, (of, name, record))
    for name in struck:
        connection.execute(_STRIKE, (of, name))
    if enlisted or struck:
        connection.execute(_COUNT, (of,))


def versions(connection: Connection) -> dict[ListName, int]:
    """The number of changes of each list."""
    return dict(connection.execute("SELECT list, version FROM common_versions").fetchall())


def pinned(connection: Connection) -> list[tuple[int, str, bytes]]:
    """All pins, in the order of their numbers."""
    rows = connection.execute(_PINNED_SINCE, (0,)).fetchall()
    return [(number, identity, key) for number, identity, key in rows]


def bring_in_pins(connection: Connection, pins: Iterable[tuple[str, bytes]]) -> int:
    """How many of these were not there yet. The caller holds the transaction."""
    return sum(connection.execute(_PIN, pin).rowcount for pin in pins)
