"""The log of the mesh in SQL (see `market.epoch_log`)."""

from collections.abc import Iterable, Sequence
from typing import Final

from moothall.market.books import MAX_READ, Page, what_fits
from moothall.market.epoch_log import Act, ClosedEpoch, Leaf, Logged, TopicMessage, epoch_at
from moothall.store.row_cache import RowCache
from moothall.store.work import MARKS, SqlWork, runs
from moothall.wire.mesh.envelope import Envelope
from moothall.wire.mesh.keccak import keccak256
from moothall.wire.mesh.msg_types import MsgType

# As other lists: numbers and lengths first, and then the envelopes that fit.
_OF_CONVERSATION: Final = (
    "SELECT number, length(envelope) FROM mesh_log WHERE conversation_id = ? AND number > ?"
    " ORDER BY number LIMIT ?"
)
_LATEST: Final = (
    "SELECT number, length(envelope) FROM mesh_log WHERE conversation_id = ? ORDER BY number DESC LIMIT ?"
)
_ENVELOPES: Final = f"SELECT number, epoch, at, envelope FROM mesh_log WHERE number IN ({MARKS})"  # noqa: S608
_LEAVES: Final = "SELECT number, leaf FROM mesh_log WHERE epoch = ? AND number > ? ORDER BY number LIMIT ?"
_OFFERS: Final = f"({MsgType.PROPOSE:d}, {MsgType.COUNTER:d}, {MsgType.ACCEPT:d})"
ACTS: Final = (
    f"SELECT sender, number, msg_type, at, CASE WHEN msg_type IN {_OFFERS} THEN envelope END, notary FROM mesh_log"  # noqa: S608
    f" LEFT JOIN conversations ON msg_type = {MsgType.ACCEPT:d} AND conversations.id = conversation_id"
)
_ACTS: Final = f"{ACTS} WHERE epoch = ? AND number > ? ORDER BY number LIMIT ?"
_CLOSED: Final = "SELECT epoch, envelopes, root, record FROM mesh_epochs"
_FIRST_OPEN: Final = (
    "SELECT min(epoch) FROM mesh_log WHERE epoch > (SELECT coalesce(max(epoch), -1) FROM mesh_epochs)"
)
_NONE: Final = -1


class LogSql(SqlWork):
    """What `SqlBooks` is made of besides the other parts."""

    _cache: RowCache

    def log(
        self,
        envelope: Envelope,
        raw: bytes,
        at: int,
        *,
        belongs: bool = True,
        envelope_hash: bytes | None = None,
    ) -> None:
        epoch = max(epoch_at(at), self._first_open())
        known_hash = envelope_hash or keccak256(raw)
        self._draft.put_logged(envelope, raw, known_hash, epoch=epoch, at=at, belongs=belongs)

    def log_messages(self, messages: Sequence[TopicMessage]) -> None:
        self._draft.put_messages(messages, self._first_open())

    def logged(
        self, conversation_id: bytes, *, after: int = 0, limit: int = 100, most: int = MAX_READ
    ) -> Page[Logged]:
        rows = self._query(_OF_CONVERSATION, conversation_id, after, limit)
        fitting, truncated = what_fits(rows, lambda row: int(row[1]), most)
        return Page(self._read(row[0] for row in fitting), truncated)

    def logged_envelope(self, envelope_hash: bytes) -> bytes | None:
        rows = self._query("SELECT envelope FROM mesh_log WHERE hash = ?", envelope_hash)
        return rows[0][0] if rows else None

    def latest_logged(
        self, conversation_id: bytes, *, limit: int = 100, most: int = MAX_READ
    ) -> Page[Logged]:
        rows = self._query(_LATEST, conversation_id, limit + 1)
        fitting, truncated = what_fits(rows[:limit], lambda row: int(row[1]), most)
        return Page(self._read(row[0] for row in reversed(fitting)), truncated or len(rows) > limit)

    def _read(self, numbers: Iterable[int]) -> list[Logged]:
        wanted = list(numbers)
        found: dict[int, Logged] = {}
        for some in runs(wanted):
            found.update((row[0], Logged(*row)) for row in self._query(_ENVELOPES, *some))
        return [found[number] for number in wanted]

    def leaves(self, epoch: int, *, after: int = 0, limit: int = 1000) -> list[Leaf]:
        return [Leaf(number, leaf) for number, leaf in self._query(_LEAVES, epoch, after, limit)]

    def acts(self, epoch: int, *, after: int = 0, limit: int = 100) -> list[Act]:
        return [Act(*row) for row in self._query(_ACTS, epoch, after, limit)]

    def first_open_epoch(self) -> int | None:
        ((epoch,),) = self._query(_FIRST_OPEN)
        return None if epoch is None else int(epoch)

    def hold_log(self) -> None:
        if self._connection.dialect.locks_rows:
            self._connection.execute("LOCK TABLE mesh_log IN SHARE ROW EXCLUSIVE MODE")

    def count_logged(self, epoch: int) -> int:
        ((count,),) = self._query("SELECT count(*) FROM mesh_log WHERE epoch = ?", epoch)
        return int(count)

    def close_epoch(self, closed: ClosedEpoch) -> None:
        self._draft.put_epoch(closed)

    def closed_epoch(self, epoch: int | None = None) -> ClosedEpoch | None:
        if epoch is None:
            rows = self._query(f"{_CLOSED} ORDER BY epoch DESC LIMIT 1")
        else:
            rows = self._query(f"{_CLOSED} WHERE epoch = ?", epoch)
        return ClosedEpoch(*rows[0]) if rows else None

    def charge_disk(self, account: str, day: int, size: int) -> None:
        self._draft.add_usage(account, day, size)

    def _first_open(self) -> int:
        """No envelope goes into an earlier epoch. 0 where a trigger moves them."""
        return 0 if self._connection.dialect.locks_rows else self._last_closed() + 1

    def _last_closed(self) -> int:
        for known in (self._draft.closed_epoch, self._before.closed_epoch, self._cache.closed_epoch):
            if known is not None:
                return known
        row = self._connection.execute("SELECT max(epoch) FROM mesh_epochs").fetchone()
        last = _NONE if row is None or row[0] is None else int(row[0])
        self._cache.closed_epoch = last
        return last
