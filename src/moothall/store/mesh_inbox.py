"""Inboxes of the mesh in SQL (see `hall.mesh.stored_inbox`).

Where envelopes made way, the next one in the inbox counts them in its `lost`. If there is none, the last of them
stays as a row without its envelope. It goes when the agent confirms its cursor, or when it is old.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Sequence
from typing import Final

from moothall.hall.mesh.inbox import Page
from moothall.hall.mesh.stored_inbox import MAX_AGE, MAX_BYTES, MAX_ENVELOPES
from moothall.market.books import what_fits
from moothall.store.dialect import Row
from moothall.store.work import MARKS, SqlWork, runs
from moothall.wire.mesh.envelope import is_offer, sender_of

AT_ONCE: Final = 100  # inboxes that are tidied in one unit: other units wait

_USED: Final = "SELECT count(*), coalesce(sum(size), 0) FROM mesh_inbox WHERE recipient = ? AND size > 0"
_ROWS: Final = (
    "SELECT number, sender, size, lost, substr(envelope, 1, 3) FROM mesh_inbox WHERE recipient = ?"
    " ORDER BY number"
)
_PUT: Final = (
    "INSERT INTO mesh_inbox (recipient, sender, at, size, lost, envelope) VALUES (?, ?, ?, ?, 0, ?)"
    " RETURNING number"
)
_REMOVE: Final = f"DELETE FROM mesh_inbox WHERE number IN ({MARKS})"  # noqa: S608
_EMPTY: Final = "UPDATE mesh_inbox SET size = 0, envelope = ? WHERE number = ?"
_PAGE: Final = (
    "SELECT number, size FROM mesh_inbox WHERE recipient = ? AND number > ? AND size > 0"
    " ORDER BY number LIMIT ?"
)
_ENVELOPES: Final = (
    "SELECT number, envelope FROM mesh_inbox WHERE recipient = ? AND number > ? AND number <= ? AND size > 0"
    " ORDER BY number"
)
_LOST: Final = "SELECT coalesce(sum(lost), 0) FROM mesh_inbox WHERE recipient = ? AND number <= ?"
_AGED: Final = (
    "SELECT recipient, max(number) FROM mesh_inbox WHERE at < ? AND size > 0 GROUP BY recipient LIMIT ?"
)
_NEXT: Final = "SELECT min(CASE WHEN size > 0 THEN at ELSE at + ? END) FROM mesh_inbox"
_FULLEST: Final = (
    "SELECT recipient FROM mesh_inbox WHERE size > 0 GROUP BY recipient"
    " ORDER BY sum(size) DESC, recipient LIMIT ?"
)


class InboxSql(SqlWork):
    """What `SqlBooks` is made of besides the other parts."""

    def put_envelope(self, recipient: bytes, raw: bytes, at: int) -> int:
        self._begin_own()
        ((number,),) = self._query(_PUT, recipient, sender_of(raw), at, len(raw), raw)
        self._draft.size += len(raw)
        ((count, used),) = self._query(_USED, recipient)
        self._make_way(recipient, count - MAX_ENVELOPES, used - MAX_BYTES)
        return int(number)

    def take_out(self, recipient: bytes, cursor: int) -> None:
        own = (recipient, cursor)
        if not self._change("DELETE FROM mesh_inbox WHERE recipient = ? AND number = ? AND lost = 0", *own):
            self._change(f"{_EMPTY} AND recipient = ?", b"", cursor, recipient)

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
        has_more = len(fitting) < len(rows)
        ((lost,),) = self._query(_LOST, recipient, end if has_more else newest)
        return Page(envelopes, more=has_more, lost=int(lost))

    def newest_envelope(self, recipient: bytes) -> int:
        ((newest,),) = self._query(
            "SELECT max(number) FROM mesh_inbox WHERE recipient = ? AND size > 0", recipient
        )
        return newest or 0

    def tidy_inboxes(self, before: int, most: int) -> int | None:
        aged = self._query(_AGED, before, AT_ONCE)
        for recipient, last in aged:
            rows = self._query(_ROWS, recipient)
            self._remove(rows, {row[0] for row in rows if row[0] <= last})
        self._change("DELETE FROM mesh_inbox WHERE at < ? AND size = 0", before - MAX_AGE)
        ((total,),) = self._query("SELECT coalesce(sum(size), 0) FROM mesh_inbox")
        fullest = self._query(_FULLEST, AT_ONCE) if total > most else []
        for (recipient,) in fullest:
            if total > most:
                rows = self._query(_ROWS, recipient)
                older = [row for row in rows if row[2]]
                older = older[: (len(older) + 1) // 2]
                self._remove(rows, {row[0] for row in older})
                total -= sum(row[2] for row in older)
        if total > most or len(aged) == AT_ONCE:
            return 0
        ((oldest,),) = self._query(_NEXT, MAX_AGE)
        return None if oldest is None else int(oldest)

    def _make_way(self, recipient: bytes, count: int, size: int) -> None:
        """Remove at least so many envelopes, and so many bytes; but not the newest. Offers go first, and of them
        the oldest one of the sender that has most bytes in the inbox: see `hall.mesh.inbox`."""
        if count <= 0 and size <= 0:
            return
        rows = self._query(_ROWS, recipient)
        by_sender: defaultdict[tuple[bool, bytes], deque[Row]] = defaultdict(deque)
        used: Counter[tuple[bool, bytes]] = Counter()
        for row in rows[:-1]:
            if row[2]:
                sender = (is_offer(row[4]), row[1])
                by_sender[sender].append(row)
                used[sender] += row[2]
        gone: set[int] = set()
        while used and (count > 0 or size > 0):
            sender = max(used, key=lambda each: (each[0], used[each], each))
            number, _, length, _, _ = by_sender[sender].popleft()
            gone.add(number)
            count, size = count - 1, size - length
            used[sender] -= length
            if not by_sender[sender]:
                del used[sender]
        self._remove(rows, gone)

    def _remove(self, rows: Sequence[Row], gone: Collection[int]) -> None:
        """Remove these rows of an inbox, all of which are given, and count them in those that follow."""
        lost = 0
        counts: list[tuple[int, int]] = []
        for number, _, size, before, _ in rows:
            if number in gone:
                lost += before + bool(size)
            elif lost:
                counts.append((number, before + lost))
                lost = 0
        kept = rows[-1][0] if lost else None
        if kept is not None:
            counts.append((kept, lost))
            self._change(_EMPTY, b"", kept)
        for some in runs([number for number in gone if number != kept]):
            self._change(_REMOVE, *some)
        for number, count in counts:
            self._change("UPDATE mesh_inbox SET lost = ? WHERE number = ?", count, number)
