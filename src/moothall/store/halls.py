"""The part of the books about other halls on the same store (see `hall.other_halls`): halls on one PostgreSQL, or
node processes on one file.

All times are the database's: the clocks of two halls may differ by minutes.
"""

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from moothall.hall.elsewhere import EXPIRY_SECONDS, Connected
from moothall.hall.other_halls import LETTER, LETTER_SECONDS, NEWS, Letter, News, named
from moothall.store.dialect import Connection
from moothall.store.work import SqlWork, short_runs

KEY_BYTES: Final = 32
ROWS_AT_ONCE: Final = 128

_BEAT: Final = "UPDATE halls SET seen_at = {now}, changes = ? WHERE id = ?"
_COME: Final = "INSERT INTO halls (id, seen_at, changes) VALUES (?, {now}, ?)"
_EXPIRE: Final = f"DELETE FROM halls WHERE id <> ? AND seen_at < {{now}} - {round(EXPIRY_SECONDS * 1000)}"  # noqa: S608
_TIDY: Final = f"DELETE FROM letters WHERE at < {{now}} - {round(LETTER_SECONDS * 1000)}"  # noqa: S608
_ENTER: Final = (
    "INSERT INTO present (hall, key, presence, on_mesh) VALUES {rows}"
    " ON CONFLICT (hall, key) DO UPDATE SET presence = excluded.presence, on_mesh = excluded.on_mesh"
)
_DEPART: Final = "DELETE FROM present WHERE hall = ? AND key IN ({marks})"
_NEWS: Final = (
    "SELECT (SELECT count(*) FROM halls WHERE id <> ?),"
    " coalesce((SELECT max(number) FROM revocations), 0),"
    " coalesce((SELECT max(number) FROM pins), 0),"
    " coalesce((SELECT max(number) FROM letters), 0),"
    " coalesce((SELECT max(number) FROM audit), 0),"
    " coalesce((SELECT sum(changes) FROM halls WHERE id <> ?), 0),"
    " {now}"
)
_ELSEWHERE: Final = (
    "SELECT key, presence FROM present JOIN halls ON halls.id = hall"  # noqa: S608
    f" WHERE hall <> ? AND seen_at >= {{now}} - {round(EXPIRY_SECONDS * 1000)}"
)
# There are few halls: for each of them, the keys are looked up in the primary key.
_ALSO_ELSEWHERE: Final = (
    "SELECT DISTINCT key FROM halls JOIN present ON hall = halls.id WHERE hall <> ? AND key IN ({marks})"
)
_ON_MESH: Final = f"{_ALSO_ELSEWHERE} AND on_mesh"
_POST: Final = "INSERT INTO letters (hall, at, recipients, body) VALUES (?, {now}, ?, ?) RETURNING number"
_LETTERS: Final = "SELECT number, recipients FROM letters WHERE number > ? AND hall <> ? ORDER BY number"
_BODIES: Final = "SELECT number, body FROM letters WHERE number IN ({marks})"


class HallsSql(SqlWork):
    """What `SqlBooks` is made of besides the other parts. A hall that is alone in its store asks for none of it."""

    def pulse(self, presences: Mapping[bytes, Connected | None], changes: int = 0) -> News:
        is_known = bool(self._change(self._timed(_BEAT), changes, self.hall))
        if not is_known:
            self._change(self._timed(_COME), self.hall, changes)
            self.signal(NEWS)
        self._change(self._timed(_EXPIRE), self.hall)
        self._change(self._timed(_TIDY))
        here = [(self.hall, key, *found) for key, found in presences.items() if found is not None]
        for rows in _parts(here):
            self._change(_entering(len(rows)), *(value for row in rows for value in row))
        for keys in short_runs([key for key, presence in presences.items() if presence is None]):
            self._change(_marked(_DEPART, len(keys)), self.hall, *keys)
        ((others, revoked, pinned, letters, decisions, changed, now),) = self._query(
            self._timed(_NEWS), self.hall, self.hall
        )
        return News(
            is_known=is_known,
            others=others,
            lists=dict(self._query("SELECT list, version FROM common_versions")),
            revoked=revoked,
            pinned=pinned,
            letters=letters,
            decisions=decisions,
            changes=int(changed),
            time=now / 1000,
        )

    def leave(self) -> None:
        self._change("DELETE FROM halls WHERE id = ?", self.hall)
        self.signal(NEWS)

    def elsewhere(self) -> list[tuple[bytes, str]]:
        if not self.hall:
            return []
        return [(key, presence) for key, presence in self._query(self._timed(_ELSEWHERE), self.hall)]

    def also_elsewhere(self, keys: Collection[bytes]) -> set[bytes]:
        return self._keys_among(_ALSO_ELSEWHERE, keys)

    def on_mesh_elsewhere(self, keys: Collection[bytes]) -> set[bytes]:
        return self._keys_among(_ON_MESH, keys)

    def post(self, to: Collection[bytes], body: bytes) -> None:
        self._begin_own()  # a unit that fails posts nothing
        ((number,),) = self._query(self._timed(_POST), self.hall, b"".join(to), body)
        self.signal(f"{LETTER} {number} {named(to)}")

    def letters(self, after: int, but: Container[int], wanted: Container[bytes]) -> list[Letter]:
        new = [(number, to) for number, to in self._query(_LETTERS, after, self.hall) if number not in but]
        concern = [number for number, to in new if any(key in wanted for key in _keys(to))]
        bodies: dict[int, bytes] = {}
        for some in short_runs(concern):
            bodies.update(self._query(_marked(_BODIES, len(some)), *some))
        return [Letter(number, bodies.get(number)) for number, _ in new]

    def _keys_among(self, sql: str, keys: Collection[bytes]) -> set[bytes]:
        return {
            key
            for some in short_runs(keys)
            for (key,) in self._query(_marked(sql, len(some)), self.hall, *some)
        }

    def _timed(self, sql: str) -> str:
        return _at(sql, self._connection.dialect.now)


def forget_all(connection: Connection) -> None:
    """Remove what nodes have left in a file that is used by no process now."""
    connection.execute("DELETE FROM halls")
    connection.execute("DELETE FROM letters")


def _keys(joined: bytes) -> list[bytes]:
    return [joined[start : start + KEY_BYTES] for start in range(0, len(joined), KEY_BYTES)]


def _parts(rows: Sequence[tuple[Any, ...]]) -> Iterator[Sequence[tuple[Any, ...]]]:
    for start in range(0, len(rows), ROWS_AT_ONCE):
        yield rows[start : start + ROWS_AT_ONCE]


@cache
def _at(sql: str, now: str) -> str:
    return sql.replace("{now}", now)


@cache
def _marked(sql: str, count: int) -> str:
    return sql.replace("{marks}", ", ".join("?" * count))


@cache
def _entering(rows: int) -> str:
    return _ENTER.replace("{rows}", ", ".join(["(?, ?, ?, ?)"] * rows))
