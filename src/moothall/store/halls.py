"""The part of the books about other halls on the same PostgreSQL (see `hall.other_halls`).

All times are the database's: the clocks of two halls may differ by minutes.
"""

from collections.abc import Collection, Container, Mapping
from typing import Final

from moothall.hall.elsewhere import Connected
from moothall.hall.other_halls import EXPIRY_SECONDS, LETTER, LETTER_SECONDS, NEWS, Letter, News, named
from moothall.store.work import SqlWork

KEY_BYTES: Final = 32

_NOW: Final = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_BEAT: Final = f"UPDATE halls SET seen_at = {_NOW}, changes = ? WHERE id = ?"  # noqa: S608
_COME: Final = f"INSERT INTO halls (id, seen_at, changes) VALUES (?, {_NOW}, ?)"  # noqa: S608
_EXPIRE: Final = f"DELETE FROM halls WHERE id <> ? AND seen_at < {_NOW} - {round(EXPIRY_SECONDS * 1000)}"  # noqa: S608
_TIDY: Final = f"DELETE FROM letters WHERE at < {_NOW} - {round(LETTER_SECONDS * 1000)}"  # noqa: S608
_ENTER: Final = (
    "INSERT INTO present (hall, key, presence, on_mesh) SELECT ?, key, presence, on_mesh"
    " FROM unnest(?::bytea[], ?::text[], ?::boolean[]) AS changed (key, presence, on_mesh)"
    " ON CONFLICT (hall, key) DO UPDATE SET presence = excluded.presence, on_mesh = excluded.on_mesh"
)
_DEPART: Final = "DELETE FROM present WHERE hall = ? AND key = ANY(?::bytea[])"
_NEWS: Final = (
    "SELECT (SELECT count(*) FROM halls WHERE id <> ?),"
    " coalesce((SELECT max(number) FROM revocations), 0),"
    " coalesce((SELECT max(number) FROM pins), 0),"
    " coalesce((SELECT max(number) FROM letters), 0),"
    " coalesce((SELECT max(number) FROM audit), 0),"
    " coalesce((SELECT sum(changes) FROM halls WHERE id <> ?), 0)"
)
_ELSEWHERE: Final = (
    "SELECT key, presence FROM present JOIN halls ON halls.id = hall"  # noqa: S608
    f" WHERE hall <> ? AND seen_at >= {_NOW} - {round(EXPIRY_SECONDS * 1000)}"
)
# There are few halls: for each of them, the keys are looked up in the primary key.
_ALSO_ELSEWHERE: Final = (
    "SELECT DISTINCT key FROM halls JOIN present ON hall = halls.id WHERE hall <> ? AND key = ANY(?::bytea[])"
)
_ON_MESH: Final = f"{_ALSO_ELSEWHERE} AND on_mesh"
_POST: Final = f"INSERT INTO letters (hall, at, recipients, body) VALUES (?, {_NOW}, ?, ?) RETURNING number"  # noqa: S608
_LETTERS: Final = "SELECT number, recipients FROM letters WHERE number > ? AND hall <> ? ORDER BY number"
_BODIES: Final = "SELECT number, body FROM letters WHERE number = ANY(?::bigint[])"


class HallsSql(SqlWork):
    """What `SqlBooks` is made of besides the other parts. A hall that is alone in its store asks for none of it."""

    def pulse(self, presences: Mapping[bytes, Connected | None], changes: int = 0) -> News:
        is_known = bool(self._change(_BEAT, changes, self.hall))
        if not is_known:
            self._change(_COME, self.hall, changes)
            self.signal(NEWS)
        self._change(_EXPIRE, self.hall)
        self._change(_TIDY)
        here = {key: presence for key, presence in presences.items() if presence is not None}
        if here:
            presence, on_mesh = map(list, zip(*here.values(), strict=True))
            self._query(f"{_ENTER} RETURNING 1", self.hall, list(here), presence, on_mesh)
        if gone := [key for key, presence in presences.items() if presence is None]:
            self._query(f"{_DEPART} RETURNING 1", self.hall, gone)
        ((others, revoked, pinned, letters, decisions, changed),) = self._query(_NEWS, self.hall, self.hall)
        return News(
            is_known=is_known,
            others=others,
            lists=dict(self._query("SELECT list, version FROM common_versions")),
            revoked=revoked,
            pinned=pinned,
            letters=letters,
            decisions=decisions,
            changes=int(changed),
        )

    def leave(self) -> None:
        self._change("DELETE FROM halls WHERE id = ?", self.hall)
        self.signal(NEWS)

    def elsewhere(self) -> list[tuple[bytes, str]]:
        if not self.hall:
            return []
        return [(key, presence) for key, presence in self._query(_ELSEWHERE, self.hall)]

    def also_elsewhere(self, keys: Collection[bytes]) -> set[bytes]:
        return {key for (key,) in self._query(_ALSO_ELSEWHERE, self.hall, list(keys))}

    def on_mesh_elsewhere(self, keys: Collection[bytes]) -> set[bytes]:
        return {key for (key,) in self._query(_ON_MESH, self.hall, list(keys))}

    def post(self, to: Collection[bytes], body: bytes) -> None:
        self._begin_own()  # a unit that fails posts nothing
        ((number,),) = self._query(_POST, self.hall, b"".join(to), body)
        self.signal(f"{LETTER} {number} {named(to)}")

    def letters(self, after: int, but: Container[int], wanted: Container[bytes]) -> list[Letter]:
        new = [(number, to) for number, to in self._query(_LETTERS, after, self.hall) if number not in but]
        concern = [number for number, to in new if any(key in wanted for key in _keys(to))]
        bodies: dict[int, bytes] = dict(self._query(_BODIES, concern)) if concern else {}
        return [Letter(number, bodies.get(number)) for number, _ in new]


def _keys(joined: bytes) -> list[bytes]:
    return [joined[start : start + KEY_BYTES] for start in range(0, len(joined), KEY_BYTES)]
