"""Inboxes of the mesh in SQL (see `hall.mesh.stored_inbox`).

Where envelopes made way, the last of them stays as a row without its envelope, which counts them in `lost`. It goes
when the agent confirms a later cursor, or when it is old.
"""

from typing import Final

from moothall.hall.mesh.inbox import Page
from moothall.hall.mesh.stored_inbox import MAX_AGE, MAX_BYTES, MAX_ENVELOPES
from moothall.market.books import what_fits
from moothall.store.work import SqlWork

AT_ONCE: Final = 100  # inboxes that are tidied in one unit: other units wait

_USED: Final = "SELECT count(*), coalesce(sum(size), 0) FROM mesh_inbox WHERE recipient = ? AND size > 0"
_OLDEST: Final = (
    "SELECT number, size FROM mesh_inbox WHERE recipient = ? AND size > 0 ORDER BY number LIMIT ?"
)
_PUT: Final = "INSERT INTO mesh_inbox (recipient, at, size, lost, envelope) VALUES (?, ?, ?, 0, ?)"
_GONE: Final = (
    "SELECT coalesce(sum(CASE WHEN size > 0 THEN 1 ELSE lost END), 0) FROM mesh_inbox"
    " WHERE recipient = ? AND number <= ?"
)
_MARK: Final = "UPDATE mesh_inbox SET size = 0, lost = ?, envelope = ? WHERE number = ?"
_PAGE: Final = (
    "SELECT number, size FROM mesh_inbox WHERE recipient = ? AND number > ? AND size > 0"
    " ORDER BY number LIMIT ?"
)
_ENVELOPES: Final = (
    "SELECT number, envelope FROM mesh_inbox WHERE recipient = ? AND number > ? AND number <= ? AND size > 0"
    " ORDER BY number"
)
_AGED: Final = (
    "SELECT recipient, max(number) FROM mesh_inbox WHERE at < ? AND size > 0 GROUP BY recipient LIMIT ?"
)
_NEXT: Final = "SELECT min(CASE WHEN size > 0 THEN at ELSE at + ? END) FROM mesh_inbox"
_FULLEST: Final = (
    "SELECT recipient, count(*) FROM mesh_inbox WHERE size > 0 GROUP BY recipient"
    " ORDER BY sum(size) DESC, recipient LIMIT ?"
)


class InboxSql(SqlWork):
    """What `SqlBooks` is made of besides the other parts."""

    def put_envelope(self, recipient: bytes, raw: bytes, at: int) -> None:
        ((count, used),) = self._query(_USED, recipient)
        self._make_way(recipient, count + 1 - MAX_ENVELOPES, used + len(raw) - MAX_BYTES)
        self._change(_PUT, recipient, at, len(raw), raw)
        self._draft.size += len(raw)

    def inbox(self, recipient: bytes, after: int | None, limit: int, most: int) -> Page:
        ((newest,),) = self._query("SELECT max(number) FROM mesh_inbox WHERE recipient = ?", recipient)
        if newest is None:
            return Page((), more=False, lost=0)
        if after is not None and after <= newest:
            self._change("DELETE FROM mesh_inbox WHERE recipient = ? AND number <= ?", recipient, after)
        start = after if after is not None and after <= newest else 0
        rows = self._query(_PAGE, recipient, start, limit + 1)
        fitting, _ = what_fits(rows[:limit], lambda row: int(row[1]), most)
        end = fitting[-1][0] if fitting else start
        envelopes = tuple(
            (number, envelope) for number, envelope in self._query(_ENVELOPES, recipient, start, end)
        )
        ((lost,),) = self._query(
            "SELECT coalesce(sum(lost), 0) FROM mesh_inbox WHERE recipient = ?", recipient
        )
        return Page(envelopes, more=len(fitting) < len(rows), lost=int(lost))

    def newest_envelope(self, recipient: bytes) -> int:
        ((newest,),) = self._query(
            "SELECT max(number) FROM mesh_inbox WHERE recipient = ? AND size > 0", recipient
        )
        return newest or 0

    def tidy_inboxes(self, before: int, most: int) -> int | None:
        aged = self._query(_AGED, before, AT_ONCE)
        for recipient, last in aged:
            self._drop(recipient, last)
        self._change("DELETE FROM mesh_inbox WHERE at < ? AND size = 0", before - MAX_AGE)
        ((total,),) = self._query("SELECT coalesce(sum(size), 0) FROM mesh_inbox")
        fullest = self._query(_FULLEST, AT_ONCE) if total > most else []
        for recipient, count in fullest:
            if total > most:
                total -= self._make_way(recipient, (count + 1) // 2, 0)
        if total > most or len(aged) == AT_ONCE:
            return 0
        ((oldest,),) = self._query(_NEXT, MAX_AGE)
        return None if oldest is None else int(oldest)

    def _make_way(self, recipient: bytes, count: int, size: int) -> int:
        """Remove the oldest: at least so many envelopes, and so many bytes. Return how many bytes they had."""
        removed = 0
        if count <= 0 and size <= 0:
            return removed
        last = 0
        for number, length in self._query(_OLDEST, recipient, MAX_ENVELOPES):
            if count <= 0 and removed >= size:
                break
            last, count, removed = number, count - 1, removed + length
        self._drop(recipient, last)
        return removed

    def _drop(self, recipient: bytes, last: int) -> None:
        """Remove all up to this one, and remember how many they were."""
        ((lost,),) = self._query(_GONE, recipient, last)
        self._change("DELETE FROM mesh_inbox WHERE recipient = ? AND number < ?", recipient, last)
        self._change(_MARK, int(lost), b"", last)
