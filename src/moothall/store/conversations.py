"""Conversations of the mesh, in SQL. Lookups ask in the same order as those of deals (see `books`)."""

from collections.abc import Iterable
from typing import Final

import msgspec

from moothall.market.books import MAX_READ, OpenOffers, Page, what_fits
from moothall.market.conversations import Conversation
from moothall.store.standings import StandingBooks
from moothall.store.stored import Stored
from moothall.store.tables import TABLES
from moothall.store.work import MARKS, runs

_conversation: Final = msgspec.json.Decoder(Conversation).decode

_ALL: Final = 2**62  # comes before every time
_AFTER_ALL: Final = b"\xff" * 17  # comes after every id
_ROLES: Final = ("requester", "provider", "notary")
_BRANCH: Final = (
    "SELECT * FROM (SELECT id, created_at, length(record) AS size FROM conversations"
    " WHERE {role} = ? AND is_open = {is_open} AND (created_at, id) < (?, ?)"
    " ORDER BY created_at DESC, id DESC LIMIT ?) AS {role}_{is_open}"
)
_OPEN: Final = (
    "SELECT count(*), coalesce(sum(CASE WHEN ? IN (requester, provider) THEN 1 ELSE 0 END), 0) FROM"
    " (SELECT requester, provider FROM conversations WHERE proposer = ? AND is_open = 1 AND created_at > ?"
    " LIMIT ?) AS own"
)
_COMPLETED: Final = (
    "SELECT completed_at FROM conversations WHERE requester = ? AND provider = ? AND completed_at IS NOT NULL"
    " ORDER BY completed_at DESC LIMIT ?"
)
_DUE: Final = "is_open = 1 AND deadline IS NOT NULL"  # what the index conversations_due holds
_ADD_BID: Final = (
    "INSERT INTO notary_bids (conversation_id, agent, at) VALUES (?, ?, ?)"
    " ON CONFLICT (conversation_id, agent) DO UPDATE SET at = excluded.at"
)


def _query(states: Iterable[int]) -> str:
    """One branch per index range: each stops after as many rows as are wanted."""
    branches = [_BRANCH.format(role=role, is_open=is_open) for role in _ROLES for is_open in states]
    return " UNION ALL ".join(branches) + " ORDER BY created_at DESC, id DESC LIMIT ?"


_CONVERSATIONS_OF: Final = _query((0, 1))
_OPEN_CONVERSATIONS_OF: Final = _query((1,))
_COLUMNS: Final = next(table.columns for table in TABLES if table.name == "conversations")
_REQUESTER, _PROVIDER, _PROPOSER, _VERSION = (
    _COLUMNS.index(column) for column in ("requester", "provider", "proposer", "version")
)


class ConversationSql(StandingBooks):
    """What `SqlBooks` is made of besides the other parts."""

    def conversation(self, conversation_id: bytes, *, hold: bool = True) -> Conversation | None:
        stored = self._rows.conversation(conversation_id)
        if stored is None:
            lock = self._connection.dialect.for_update if hold else ""
            row = self._connection.execute(
                f"SELECT version, record FROM conversations WHERE id = ?{lock}",  # noqa: S608
                (conversation_id,),
            ).fetchone()
            if row is None:
                return None
            stored = Stored(row[0], _conversation(row[1]))
            self._cache.conversations[conversation_id] = stored
        return stored.record

    def conversations_of(
        self,
        key: bytes,
        *,
        limit: int = 100,
        open_only: bool = False,
        before: Conversation | None = None,
        most: int = MAX_READ,
    ) -> Page[Conversation]:
        query, states = (_OPEN_CONVERSATIONS_OF, 1) if open_only else (_CONVERSATIONS_OF, 2)
        since, last = (_ALL, _AFTER_ALL) if before is None else (before.created_at, before.id)
        rows = self._query(query, *((key, since, last, limit) * (len(_ROLES) * states)), limit)
        fitting, truncated = what_fits(rows, lambda row: int(row[2]), most)
        wanted = [row[0] for row in fitting]
        records: dict[bytes, bytes] = {}
        for some in runs(wanted):
            records.update(
                self._query(f"SELECT id, record FROM conversations WHERE id IN ({MARKS})", *some)  # noqa: S608
            )
        return Page([_conversation(records[each]) for each in wanted], truncated)

    def open_conversations(self, proposer: bytes, recipient: bytes, since: int, most: int) -> OpenOffers:
        """What waits to be written is counted here, and not written first. What has just ended still counts."""
        row = self._connection.execute(_OPEN, (recipient, proposer, since, most)).fetchone() or (0, 0)
        waiting = [
            (fields[_REQUESTER], fields[_PROVIDER])
            for draft in (self._before, self._draft)
            for fields in draft.rows["conversations"].values()
            if fields[_PROPOSER] == proposer and fields[_VERSION] == 1
        ]
        of_pair = sum(recipient in parties for parties in waiting)
        return OpenOffers(of_pair=row[1] + of_pair, of_proposer=row[0] + len(waiting))

    def due_conversations(self, now: int, limit: int = 100) -> list[bytes]:
        rows = self._query(
            f"SELECT id FROM conversations WHERE {_DUE} AND deadline <= ? ORDER BY deadline, id LIMIT ?",  # noqa: S608
            now,
            limit,
        )
        return [row[0] for row in rows]

    def next_conversation_deadline(self) -> int | None:
        rows = self._query(f"SELECT min(deadline) FROM conversations WHERE {_DUE}")  # noqa: S608
        earliest: int | None = rows[0][0]
        return earliest

    def conversations_by_state(self) -> dict[str, int]:
        return dict(self._query("SELECT state, count(*) FROM conversations GROUP BY state"))

    def save_conversation(self, conversation: Conversation) -> None:
        for key in conversation.signers:
            self._rows.put_key(key)
        self._rows.put_conversation(conversation)

    def _completed_conversations(self, one: bytes, other: bytes, limit: int) -> list[int]:
        """When these two completed conversations with each other, the latest so many of each direction."""
        pairs = ((one, other), (other, one))
        return [row[0] for pair in pairs for row in self._query(_COMPLETED, *pair, limit)]

    # -- notaries ------------------------------------------------------------------------------------

    def add_bid(self, conversation_id: bytes, agent: bytes, at: int) -> None:
        self._change(_ADD_BID, conversation_id, agent, at)

    def bids(self, conversation_id: bytes, since: int, most: int) -> list[bytes]:
        rows = self._query(
            "SELECT agent FROM notary_bids WHERE conversation_id = ? AND at > ? ORDER BY at, agent LIMIT ?",
            conversation_id,
            since,
            most,
        )
        return [row[0] for row in rows]

    def remove_bids(self, conversation_id: bytes, before: int | None = None) -> None:
        self._change(
            "DELETE FROM notary_bids WHERE conversation_id = ? AND at < ?",
            conversation_id,
            _ALL if before is None else before,
        )
