"""The part of the books that says which key each id belongs to and which keys are revoked, in SQL (see
`hall.bindings` and `hall.revocation`)."""

from collections.abc import Collection
from functools import cache

from moothall.hall.other_halls import NEWS
from moothall.identity import PublicKey
from moothall.store.work import SqlWork, short_runs


class IdBooks(SqlWork):
    """What `SqlBooks` is made of besides the other parts."""

    def owners(self, ids: Collection[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for some in short_runs(sorted(ids)):
            found.update(self._query(_owners_of(len(some)), *some))
        return found

    def bound_ids(self) -> int:
        """Rows are never removed, so their highest number is their count, which would have to be counted."""
        rows = self._query("SELECT max(number) FROM bindings")
        return int(rows[0][0] or 0)

    def bind(self, agent_id: str, key: bytes, now: int) -> None:
        self._draft.put_binding(agent_id, key, now)

    def is_revoked(self, key: bytes) -> bool:
        return bool(self._query("SELECT 1 FROM revocations WHERE key = ?", key))

    def is_known(self, key: bytes) -> bool:
        public = PublicKey(key)
        ids = (public.agent_id(), public.fingerprint)
        return key in self.owners(ids).values() or bool(self._query("SELECT 1 FROM keys WHERE key = ?", key))

    def revocations(self) -> int:
        rows = self._query("SELECT max(number) FROM revocations")
        return int(rows[0][0] or 0)

    def revoked_since(self, number: int) -> list[tuple[int, bytes]]:
        rows = self._query("SELECT number, key FROM revocations WHERE number > ? ORDER BY number", number)
        return [(number, key) for number, key in rows]

    def revoke(self, key: bytes, notice: bytes, now: int) -> None:
        self._draft.put_revocation(key, now, notice)
        self.signal(NEWS)


@cache
def _owners_of(ids: int) -> str:
    return f"SELECT id, key FROM bindings WHERE id IN ({', '.join('?' * ids)})"  # noqa: S608
