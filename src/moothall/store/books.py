"""The books of market and court in SQL: one unit of work, on either engine. It saves and never decides.

A lookup by key asks, in this order: this unit's own changes, those of the units before it in the same
transaction, the cache of committed rows, the database. A query over many rows asks the database, after
everything that is not there yet was written.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final, Protocol

import msgspec
from msgspec import Raw

from moothall.court.api_books import CourtApiBooks
from moothall.court.records import CourtChange, Dispute, SignedFile
from moothall.hall.bindings import BindingBooks
from moothall.hall.common import CommonBooks
from moothall.hall.keep.pinning import PinBooks
from moothall.hall.other_halls import HallBooks
from moothall.hall.spending import SpendingBooks
from moothall.identity import PublicKey
from moothall.identity.keys import AGENT_ID_LENGTH, FINGERPRINT_LENGTH
from moothall.market.api_books import MeshApiBooks
from moothall.market.books import MAX_READ, OpenOffers, Page, what_fits
from moothall.market.conversations import Conversation
from moothall.market.courier import Outbox
from moothall.market.hooks import Subscription
from moothall.market.node_books import NodeBooks
from moothall.market.records import (
    AuditRow,
    Entry,
    Happening,
    Offer,
    Proposal,
    RatingPoint,
    Receipt,
    Registration,
    Revoked,
    Standing,
)
from moothall.market.skills import Filters
from moothall.store import offers as directory
from moothall.store.api_lists import ApiSql
from moothall.store.cases import CaseBooks
from moothall.store.common import CommonSql
from moothall.store.conversations import ConversationSql
from moothall.store.credits import CreditSql
from moothall.store.dialect import Connection
from moothall.store.events import EventBooks
from moothall.store.halls import KEY_BYTES, HallsSql
from moothall.store.ids import IdBooks
from moothall.store.mesh_inbox import InboxSql
from moothall.store.mesh_log import LogSql
from moothall.store.node import NodeSql
from moothall.store.row_cache import RowCache
from moothall.store.rows import Draft
from moothall.store.spending import SpendingSql
from moothall.store.standings import StandingBooks
from moothall.store.stored import Stored
from moothall.store.tables import TABLES
from moothall.store.unit_rows import UnitRows
from moothall.store.work import MARKS, is_plain, is_storable, runs

KEYS_AT_HAND: Final = 4096  # whose fingerprints need not be computed again

_proposal: Final = msgspec.json.Decoder(Proposal).decode

_PARTIES: Final = ("proposer", "recipient")
# Lists ask for ids and lengths first, and then for the records that fit: neither engine reads a record to tell its
# length.
_PROPOSALS_BRANCH: Final = (
    "SELECT * FROM (SELECT id, created_at, length(record) AS size FROM proposals"
    " WHERE {party} = ? AND is_open = {is_open} AND (created_at, id) < (?, ?)"
    " ORDER BY created_at DESC, id DESC LIMIT ?) AS {party}_{is_open}"
)
_RECEIPTS_BRANCH: Final = (
    "SELECT * FROM (SELECT number, length(body) AS size FROM receipts"
    " WHERE {party} = ? AND number < ? ORDER BY number DESC LIMIT ?) AS {party}_receipts"
)
_COMPLETIONS: Final = (
    "SELECT number, at FROM receipts WHERE proposer = ? AND recipient = ?"
    " AND EXISTS (SELECT 1 FROM proposals WHERE proposals.id = proposal_id) ORDER BY number DESC LIMIT ?"
)
_OPEN_OFFERS: Final = (
    "SELECT count(*), coalesce(sum(CASE WHEN recipient = ? THEN 1 ELSE 0 END), 0) FROM"
    " (SELECT recipient FROM proposals WHERE proposer = ? AND is_open = 1 AND created_at > ? LIMIT ?) AS own"
)


def _proposals_query(states: Iterable[int]) -> str:
    """One branch per index range: each stops after as many rows as are wanted."""
    branches = [
        _PROPOSALS_BRANCH.format(party=party, is_open=is_open) for party in _PARTIES for is_open in states
    ]
    return " UNION ALL ".join(branches) + " ORDER BY created_at DESC, id DESC LIMIT ?"


_PROPOSALS_OF: Final = _proposals_query((0, 1))
_OPEN_PROPOSALS_OF: Final = _proposals_query((1,))
_RECEIPTS_OF: Final = (
    " UNION ALL ".join(_RECEIPTS_BRANCH.format(party=party) for party in _PARTIES)
    + " ORDER BY number DESC LIMIT ?"
)
_RECEIPTS: Final = "SELECT number, length(body) FROM receipts WHERE number < ? ORDER BY number DESC LIMIT ?"
_VERSION: Final = next(table.columns.index("version") for table in TABLES if table.name == "proposals")
_ALL: Final = 2**62  # comes before every time and every number
_DUE: Final = "is_open = 1 AND frozen = 0 AND expires IS NOT NULL"  # what the index proposals_due holds


class _Listed(Proposal, frozen=True, kw_only=True, gc=False):
    """A deal whose terms are only passed on. They need not become objects."""

    terms: Raw = Raw(b"null")


_listed: Final = msgspec.json.Decoder(_Listed).decode


class StoreBooks(
    CourtApiBooks,
    MeshApiBooks,
    Outbox,
    BindingBooks,
    CommonBooks,
    PinBooks,
    HallBooks,
    SpendingBooks,
    NodeBooks,
    Protocol,
):
    """The books of the market and the court; of conversations of the mesh, credits, its log and its inboxes; of a
    node; of the keys behind ids; of what halls have in common and tell each other; of what workers spend; and the
    courier's outbox of events."""

    def keys_from(self, digits: str) -> list[bytes]:
        """Keys that begin with these hex digits: one, or two if there are several."""


class SqlBooks(
    CaseBooks,
    ApiSql,
    ConversationSql,
    CreditSql,
    LogSql,
    InboxSql,
    NodeSql,
    EventBooks,
    IdBooks,
    CommonSql,
    HallsSql,
    SpendingSql,
    StoreBooks,
):
    """Between load and commit. `careful` is the second try of a unit whose first try met a row that was changed
    meanwhile or was there already: it locks what it reads, and looks before it writes."""

    def __init__(
        self,
        connection: Connection,
        cache: RowCache,
        before: Draft,
        *,
        subscriptions: Sequence[Subscription] = (),
        careful: bool = False,
        hall: str = "",
    ) -> None:
        super().__init__(connection, before, hall)
        self._cache = cache
        self._rows = UnitRows(self._draft, before, cache)
        self._subscriptions = subscriptions
        self._careful = careful

    # -- proposals -----------------------------------------------------------------------------------

    def proposal(
        self, proposal_id: str, *, hold: bool = True, besides: Collection[bytes] = ()
    ) -> Proposal | None:
        stored = self._rows.proposal(proposal_id)
        if stored is None:
            if not is_plain(proposal_id):
                return None
            lock = self._connection.dialect.for_update if hold else ""
            row = self._connection.execute(
                f"SELECT version, record FROM proposals WHERE id = ?{lock}",  # noqa: S608
                (proposal_id,),
            ).fetchone()
            if row is None:
                return None
            stored = Stored(row[0], _proposal(row[1]))
            self._cache.remember(stored, len(row[1]))
            if hold:
                self._hold_parties((stored.record,), besides)
        return stored.record

    def proposals_of(
        self,
        key: bytes,
        *,
        limit: int = 100,
        open_only: bool = False,
        before: Proposal | None = None,
        most: int = MAX_READ,
    ) -> Page[Proposal]:
        query, branches = (_OPEN_PROPOSALS_OF, 2) if open_only else (_PROPOSALS_OF, 4)
        since, deal = (_ALL, "") if before is None else (before.created_at, before.id)
        rows = self._query(query, *((key, since, deal, limit) * branches), limit)
        fitting, truncated = what_fits(rows, lambda row: int(row[2]), most)
        wanted = [row[0] for row in fitting]
        records: dict[str, bytes] = {}
        for some in runs(wanted):
            records.update(self._query(f"SELECT id, record FROM proposals WHERE id IN ({MARKS})", *some))  # noqa: S608
        return Page([_listed(records[deal]) for deal in wanted], truncated)

    def open_offers(self, proposer: bytes, recipient: bytes, since: int, most: int) -> OpenOffers:
        """What waits to be written is counted here, and not written first. What has just ended still counts."""
        row = self._connection.execute(_OPEN_OFFERS, (recipient, proposer, since, most)).fetchone() or (0, 0)
        waiting = [
            fields[2]
            for draft in (self._before, self._draft)
            for fields in draft.rows["proposals"].values()
            if fields[1] == proposer and fields[_VERSION] == 1
        ]
        return OpenOffers(of_pair=row[1] + waiting.count(recipient), of_proposer=row[0] + len(waiting))

    def completions(self, one: bytes, other: bytes, limit: int) -> list[int]:
        pair = (_fingerprint(one), _fingerprint(other))
        rows = [*self._query(_COMPLETIONS, *pair, limit), *self._query(_COMPLETIONS, *reversed(pair), limit)]
        deals = [at for _, at in sorted(rows)[-limit:]]
        conversations = self._completed_conversations(one, other, limit)
        return sorted([*deals, *conversations])[-limit:] if conversations else deals

    def due(self, now: int, limit: int = 100) -> list[Proposal]:
        rows = self._query(
            f"SELECT id, version, record FROM proposals WHERE {_DUE} AND expires <= ?"  # noqa: S608
            f" ORDER BY expires, id LIMIT ?{self._connection.dialect.skip_locked}",
            now,
            limit,
        )
        proposals = [self._seen_proposal(*row) for row in rows]
        self._hold_parties(proposals)
        return proposals

    def next_deadline(self) -> int | None:
        rows = self._query(f"SELECT min(expires) FROM proposals WHERE {_DUE}")  # noqa: S608
        earliest: int | None = rows[0][0]
        return earliest

    def counts(self) -> dict[str, int]:
        return dict(self._query("SELECT status, count(*) FROM proposals GROUP BY status"))

    def parties(self) -> int:
        # DISTINCT walks an index, so that only one row of each agent goes into the union.
        rows = self._query(
            "SELECT count(*) FROM (SELECT DISTINCT proposer FROM proposals"
            " UNION SELECT DISTINCT recipient FROM proposals) AS parties"
        )
        parties: int = rows[0][0]
        return parties

    def _seen_proposal(self, proposal_id: str, version: int, record: bytes) -> Proposal:
        """What was read first stays what this unit knows: its version is the one that a write is checked by."""
        proposal = _proposal(record)
        if self._rows.proposal(proposal_id) is None:
            self._cache.remember(Stored(version, proposal), len(record))
        return proposal

    def _hold_parties(self, proposals: Iterable[Proposal], besides: Iterable[bytes] = ()) -> None:
        """Lock the standings of the parties, and for a verdict of the arbiters, in the order of their keys: then
        two decisions about the same agents do not deadlock."""
        if not self._connection.dialect.locks_rows:
            return
        parties = sorted({*besides, *(key for each in proposals for key in (each.proposer, each.recipient))})
        if parties:
            marks = ", ".join("?" for _ in parties)
            rows = self._connection.execute(
                f"SELECT key, version, record FROM standings WHERE key IN ({marks}) ORDER BY key FOR UPDATE",  # noqa: S608
                parties,
            ).fetchall()
            for row in rows:
                self._seen_standing(*row)

    # -- skills, keys, receipts, signatures ----------------------------------------------------------

    def offers(self, filters: Filters, most: int) -> list[Offer]:
        self._write_out()
        return directory.search(self._connection, filters, most)

    def offering(self, capability: str, most: int) -> list[bytes]:
        self._write_out()
        return directory.offering(self._connection, capability, most) if is_storable(capability) else []

    def offered(self, found: Sequence[Offer]) -> list[tuple[Offer, dict[str, Any]]]:
        return directory.bodies(self._connection, found)

    # -- how much each key has saved -----------------------------------------------------------------

    def disk_used(self, account: str, day: int) -> int:
        row = self._connection.execute(
            "SELECT bytes FROM disk_usage WHERE account = ? AND day = ?", (account, day)
        ).fetchone()
        waiting = [used for draft in (self._before, self._draft) if (used := draft.usage.get(account))]
        return (0 if row is None else int(row[0])) + sum(added for on, added in waiting if on == day)

    def spend_disk(self, account: str, day: int) -> int:
        size = self._draft.size
        self._draft.add_usage(account, day, size)
        return size

    def find_key(self, agent_id: str) -> bytes | None:
        """The key that the id is bound to, and no other with the same eight digits: its agent may be connected to
        another hall on this store, and have no row yet. Before there were bindings, the first that had a row."""
        if len(agent_id) not in (AGENT_ID_LENGTH, FINGERPRINT_LENGTH) or not is_plain(agent_id):
            return None
        owner = self.owners((agent_id,)).get(agent_id)
        if owner is not None:
            return owner
        rows = self._query(
            "SELECT fingerprint, key FROM keys WHERE short = ? ORDER BY number", agent_id[:AGENT_ID_LENGTH]
        )
        keys = [key for fingerprint, key in rows if fingerprint.startswith(agent_id)]
        return keys[0] if keys else None

    def keys_from(self, digits: str) -> list[bytes]:
        size = 2 * KEY_BYTES  # digits
        first, last = (bytes.fromhex(digits.ljust(size, end)) for end in "0f")
        return [
            key
            for (key,) in self._query("SELECT key FROM keys WHERE key BETWEEN ? AND ? LIMIT 2", first, last)
        ]

    def receipts(
        self,
        key: bytes | None = None,
        *,
        limit: int = 100,
        before: str | None = None,
        most: int = MAX_READ,
    ) -> Page[Receipt]:
        number = _ALL if before is None else self._receipt_number(before)
        if key is None:
            rows = self._query(_RECEIPTS, number, limit)
        else:
            rows = self._query(_RECEIPTS_OF, *((_fingerprint(key), number, limit) * 2), limit)
        fitting, truncated = what_fits(rows, lambda row: int(row[1]), most)
        wanted = [row[0] for row in fitting]
        found: dict[int, Receipt] = {}
        for some in runs(wanted):
            for row in self._query(
                f"SELECT number, proposal_id, at, body FROM receipts WHERE number IN ({MARKS})",  # noqa: S608
                *some,
            ):
                found[row[0]] = Receipt(proposal_id=row[1], at=row[2], body=row[3])
        return Page([found[each] for each in wanted], truncated)

    def _receipt_number(self, proposal_id: str) -> int:
        """0 if there is none: nothing comes before it."""
        if not is_plain(proposal_id):
            return 0
        rows = self._query("SELECT number FROM receipts WHERE proposal_id = ?", proposal_id)
        return rows[0][0] if rows else 0

    # -- saving --------------------------------------------------------------------------------------

    def save(self, *changes: CourtChange) -> None:
        if [type(change) for change in changes].count(AuditRow) != 1:
            raise ValueError("a decision leaves exactly one audit row")
        for change in changes:
            self._SAVERS[type(change)](self, change)

    def _save_proposal(self, proposal: Proposal) -> None:
        self._rows.put_proposal(proposal)

    def _save_audit(self, row: AuditRow) -> None:
        self._draft.put_audit(row)

    def _save_receipt(self, receipt: Receipt) -> None:
        deal = self.proposal(receipt.proposal_id)
        if deal is None:
            raise ValueError(f"a receipt for {receipt.proposal_id}, but there is no deal of this id")
        self._draft.put_receipt(receipt, _fingerprint(deal.proposer), _fingerprint(deal.recipient))

    _SAVERS: ClassVar[Mapping[type[CourtChange], Callable[[Any, Any], None]]] = {
        Proposal: _save_proposal,
        Standing: StandingBooks.save_standing,
        Entry: StandingBooks.save_entry,
        Receipt: _save_receipt,
        AuditRow: _save_audit,
        RatingPoint: StandingBooks.save_point,
        Happening: EventBooks.save_happening,
        Registration: StandingBooks.save_registration,
        Revoked: StandingBooks.save_revoked,
        Dispute: CaseBooks.save_case,
        SignedFile: CaseBooks.save_file,
        Conversation: ConversationSql.save_conversation,
    }

    # -- the end of the unit -------------------------------------------------------------------------

    def keep(self) -> None:
        """Hand the changes over to the transaction."""
        if self._careful:
            self._write_out()
        if self._savepoint:
            self._connection.execute("RELEASE SAVEPOINT unit")
        self._before.absorb(self._draft)

    def undo(self) -> None:
        if self._savepoint:
            self._connection.execute("ROLLBACK TO SAVEPOINT unit")
            self._connection.execute("RELEASE SAVEPOINT unit")


@lru_cache(maxsize=KEYS_AT_HAND)
def _fingerprint(key: bytes) -> str:
    return PublicKey(key).fingerprint
