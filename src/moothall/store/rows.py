"""What units of work leave behind: collected in memory, then written with one statement per table.

SQLite releases the interpreter's lock around each step of a statement, and a busy event loop may keep it for
milliseconds. A statement per row would pay that price fourteen times for one COMPLETE; a batch of sixty-four
units written table by table pays it about as often as one unit. On PostgreSQL the same saves round trips.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from operator import itemgetter
from typing import Any, Final

import msgspec

from moothall.court.records import Dispute, SignedFile
from moothall.identity import PublicKey
from moothall.identity.keys import AGENT_ID_LENGTH
from moothall.market.conversations import Conversation
from moothall.market.credits import Escrow
from moothall.market.epoch_log import ROW, ClosedEpoch, TopicMessage, epoch_at
from moothall.market.ledger import CREDITS
from moothall.market.records import (
    AuditRow,
    Entry,
    HookEvent,
    Proposal,
    RatingPoint,
    Receipt,
    Registration,
    Standing,
)
from moothall.store.dialect import Connection, Statement, Value
from moothall.store.stored import Stored
from moothall.store.tables import TABLES, Table
from moothall.wire.mesh.envelope import NO_CONVERSATION, Envelope
from moothall.wire.mesh.merkle import leaf

# Rows go out in runs of 64, 32, .. 1, so that there are few statements and all of them stay prepared.
LONGEST_RUN: Final = 64

OPEN: Final = frozenset(("pending", "accepted"))

_encode: Final = msgspec.json.Encoder().encode


class Stale(Exception):
    """A row changed after this unit of work had read it, or was there although it read none."""


# Bytes of a proposal. Most have half of that, but one may fill a frame, and take twenty times as much when decoded.
LARGE: Final = 2048


_MAY_BE_THERE: Final = ("keys", "mesh_log")  # and then the row that is there stays
_IN_ORDER: Final = "mesh_log"  # of arrival, not of a key

Fields = tuple[Value, ...]


class Draft:
    """The changes of one unit of work, or of several in their order.

    `rows` and `added` are what the database does not have yet, by table: rows that replace the one with their key,
    and rows that only come after others. The rest is what lookups find.
    """

    __slots__ = (
        "added",
        "closed_epoch",
        "conversations",
        "disputes",
        "entries",
        "escrows",
        "has_events",
        "has_lists",
        "has_receipts",
        "kept_offers",
        "keys",
        "large",
        "moved",
        "proposals",
        "registrations",
        "relisted",
        "rows",
        "signals",
        "size",
        "standings",
        "usage",
    )

    def __init__(self) -> None:
        self.proposals: dict[str, Stored[Proposal]] = {}
        self.standings: dict[bytes, Stored[Standing]] = {}
        self.disputes: dict[str, Stored[Dispute]] = {}
        self.conversations: dict[bytes, Stored[Conversation]] = {}
        self.escrows: dict[bytes, Stored[Escrow]] = {}
        self.registrations: dict[bytes, Registration | None] = {}
        self.entries: set[tuple[str, str, str]] = set()  # (book, deal, operation)
        self.keys: set[bytes] = set()
        self.closed_epoch: int | None = None  # of the mesh's log
        self.large: set[str] = set()  # proposals that are not worth remembering
        self.kept_offers: dict[bytes, int] = {}  # how many rows of each key's offers remain; the others go
        self.has_receipts = False
        self.has_events = False
        self.has_lists = False  # lists that halls have in common were changed
        self.signals: list[str] = []  # for other processes on a store in a file, once this is committed
        self.size = 0  # bytes to charge: records as often as they were written, cases as they grew
        self.usage: dict[str, tuple[int, int]] = {}  # by account: the day, and bytes to add to what it used
        self.moved: dict[str, int] = {}  # by account of the book `credits`: what to add to its balance
        self.relisted: set[object] = set()  # proposals, standings, conversations whose indexed columns change
        self.rows: defaultdict[str, dict[object, Fields]] = defaultdict(dict)
        self.added: defaultdict[str, list[Fields]] = defaultdict(list)

    @property
    def is_mirrored(self) -> bool:
        """True if the files beside the store show something of this."""
        return bool(self.standings or self.has_receipts or self.has_lists)

    @property
    def unwritten(self) -> bool:
        return bool(self.rows or self.added or self.kept_offers or self.usage or self.moved)

    def absorb(self, later: "Draft") -> None:
        self.proposals.update(later.proposals)
        self.standings.update(later.standings)
        self.disputes.update(later.disputes)
        self.conversations.update(later.conversations)
        self.escrows.update(later.escrows)
        self.registrations.update(later.registrations)
        self.entries |= later.entries
        self.keys |= later.keys
        self.large |= later.large
        self.relisted |= later.relisted
        self.closed_epoch = self.closed_epoch if later.closed_epoch is None else later.closed_epoch
        self.has_receipts |= later.has_receipts
        self.has_events |= later.has_events
        self.has_lists |= later.has_lists
        self.signals += later.signals
        self.size += later.size
        for key, count in later.kept_offers.items():
            self._keep_offers(key, count)
        for account, (day, used) in later.usage.items():
            self.add_usage(account, day, used)
        for account, amount in later.moved.items():
            self.move(account, amount)
        for table, rows in later.rows.items():
            self.rows[table].update(rows)
        for table, added in later.added.items():
            self.added[table] += added
        for key, registration in later.registrations.items():
            if registration is None:
                self.rows["registrations"].pop(key, None)

    def write(self, connection: Connection) -> None:
        """Raises Stale, or the engine's error for a row that may be there only once."""
        statements: list[Statement] = []
        least: list[int] = []
        for table in TABLES:
            for conflict, rows in self._ways(table, connection):
                for run in _runs(rows):
                    values = [value for fields in run for value in fields]
                    statements.append((_insert(connection.dialect.insert, table, conflict, len(run)), values))
                    least.append(0 if table.name in _MAY_BE_THERE else len(run))
        for key, registration in self.registrations.items():
            if registration is None:
                statements.append(("DELETE FROM registrations WHERE key = ?", (key,)))
                least.append(0)
        for key, count in self.kept_offers.items():
            statements.append(("DELETE FROM offers WHERE key = ? AND position >= ?", (key, count)))
            least.append(0)
        changed = connection.execute_all(statements)
        self.kept_offers.clear()
        self.usage.clear()
        self.moved.clear()
        self.relisted.clear()
        self.rows.clear()  # not before: after a collision the repeated write must collide too
        self.added.clear()
        if any(count < wanted for count, wanted in zip(changed, least, strict=True)):
            raise Stale

    def _ways(self, table: Table, connection: Connection) -> Iterator[tuple[str, list[Fields]]]:
        """What to write, and how. Where rows are locked, one statement takes all of them, in their order."""
        rows = self._rows_of(table)
        if not table.unlisted or connection.dialect.locks_rows:
            yield table.conflict, rows
            return
        yield table.conflict, [row for row in rows if row[0] in self.relisted]
        yield table.unlisted, [row for row in rows if row[0] not in self.relisted]

    def _rows_of(self, table: Table) -> list[Fields]:
        if not table.conflict or table.name == _IN_ORDER:
            return self.added[table.name]
        if table.name == "disk_usage":
            return sorted((account, day, added) for account, (day, added) in self.usage.items())
        if table.name == "balances":
            return sorted((account, amount) for account, amount in self.moved.items() if amount)
        # All transactions take locks in the same order, so that they do not deadlock.
        return sorted(self.rows[table.name].values(), key=itemgetter(0))

    # -- one row each --------------------------------------------------------------------------------

    def put_key(self, key: bytes) -> None:
        fingerprint = PublicKey(key).fingerprint
        self.rows["keys"][key] = (key, fingerprint, fingerprint[:AGENT_ID_LENGTH])
        self.keys.add(key)

    def put_proposal(self, proposal: Proposal, before: Stored[Proposal] | None) -> None:
        version = 1 if before is None else before.version + 1
        record = _encode(proposal)
        self.size += len(record)
        if len(record) > LARGE:
            self.large.add(proposal.id)
        listed = _listed(proposal)
        if before is None or listed != _listed(before.record):
            self.relisted.add(proposal.id)
        self.rows["proposals"][proposal.id] = (
            proposal.id,
            proposal.proposer,
            proposal.recipient,
            proposal.status,
            *listed,
            proposal.created_at,
            version,
            record,
        )
        self.proposals[proposal.id] = Stored(version, proposal)

    def put_standing(self, standing: Standing, before: Stored[Standing] | None) -> None:
        version = 1 if before is None else before.version + 1
        rating, transactions = standing.rating, standing.transactions
        if before is None or (rating, transactions) != (before.record.rating, before.record.transactions):
            self.relisted.add(standing.key)
        row = (standing.key, rating, transactions, version, _encode(standing))
        self.rows["standings"][standing.key] = row
        self.standings[standing.key] = Stored(version, standing)

    def put_dispute(self, case: Dispute, before: Stored[Dispute] | None) -> None:
        version = 1 if before is None else before.version + 1
        record = _encode(case)
        # What it grew by: the votes of arbiters must not pay for the parties' evidence.
        self.size += max(0, len(record) - (0 if before is None else len(_encode(before.record))))
        self.rows["disputes"][case.id] = (
            case.id,
            case.proposal_id,
            case.disputant,
            case.phase,
            int(case.is_open),
            case.deadline,
            case.filed_at,
            version,
            listed_case(case),
            record,
        )
        parts = self.rows["case_parts"]
        for key, role, live in parts_of(case):
            parts[case.id, key] = (case.id, key, role, int(live), case.filed_at)
        self.disputes[case.id] = Stored(version, case)

    def put_conversation(self, conversation: Conversation, before: Stored[Conversation] | None) -> None:
        version = 1 if before is None else before.version + 1
        record = _encode(conversation)
        self.size += len(record)
        listed = listed_conversation(conversation)
        if before is None or listed != listed_conversation(before.record):
            self.relisted.add(conversation.id)
        self.rows["conversations"][conversation.id] = (
            conversation.id,
            conversation.requester,
            conversation.provider,
            conversation.proposer,
            conversation.created_at,
            *listed,
            conversation.state,
            version,
            record,
        )
        self.conversations[conversation.id] = Stored(version, conversation)

    def put_case_file(self, file: SignedFile) -> None:
        # Not counted: it repeats what others sent.
        self.added["case_files"].append((file.dispute_id, file.body))

    def put_registration(self, registration: Registration, rating: int) -> None:
        """`rating` is the agent's now. Where there are more offers than a search looks at, it looks at the best."""
        record = _encode(registration)
        self.size += 2 * len(record)
        self.rows["registrations"][registration.key] = (registration.key, registration.registered_at, record)
        self.registrations[registration.key] = registration
        self.put_offers(registration, rating)

    def put_offers(self, registration: Registration, rating: int) -> None:
        key = registration.key
        listed = registration.listed()
        self._keep_offers(key, len(listed))
        for position, (skill, at) in enumerate(listed):
            self.rows["offers"][key, position] = offer_row(key, position, skill, at, rating)

    def remove_registration(self, key: bytes) -> None:
        self.rows["registrations"].pop(key, None)
        self.registrations[key] = None
        self._keep_offers(key, 0)

    def _keep_offers(self, key: bytes, count: int) -> None:
        """The first so many; those after them go, also from what is not written yet."""
        self.kept_offers[key] = count
        offers = self.rows["offers"]
        while offers.pop((key, count), None) is not None:
            count += 1

    def add_usage(self, account: str, day: int, added: int) -> None:
        before = self.usage.get(account)
        self.usage[account] = (day, added + (before[1] if before is not None and before[0] == day else 0))

    def put_bound(self, fingerprint: str, key: bytes) -> None:
        self.rows["imported"][fingerprint] = (fingerprint, key)

    def put_binding(self, agent_id: str, key: bytes, at: int) -> None:
        self.rows["bindings"].setdefault(agent_id, (agent_id, key, at))

    def put_revocation(self, key: bytes, at: int, notice: bytes) -> None:
        self.rows["revocations"][key] = (key, at, notice)

    def put_entry(self, entry: Entry) -> None:
        book, deal, operation, at = entry.book, entry.deal, entry.operation, entry.at
        self.added["postings"] += [
            (book, deal, operation, posting.account, posting.amount, at) for posting in entry.postings
        ]
        self.entries.add((book, deal, operation))
        if book == CREDITS:
            for posting in entry.postings:
                self.move(posting.account, posting.amount)

    def move(self, account: str, amount: int) -> None:
        self.moved[account] = self.moved.get(account, 0) + amount

    def put_audit(self, row: AuditRow) -> None:
        self.size += len(row.data)
        self.added["audit"].append((row.at, row.operation, row.deal, row.actor, row.data))

    def put_receipt(self, receipt: Receipt, proposer: str, recipient: str) -> None:
        self.size += len(receipt.body)
        row = (receipt.proposal_id, proposer, recipient, receipt.at, receipt.body)
        self.added["receipts"].append(row)
        self.has_receipts = True

    def put_point(self, point: RatingPoint) -> None:
        self.added["rating_history"].append((point.key, point.at, point.rating, point.why))

    def put_hook(self, event: HookEvent, listener: str) -> None:
        row = (event.id, listener, event.name, event.deal, event.at, event.body, 0, event.at)
        self.added["hooks"].append(row)
        self.has_events = True

    def put_logged(
        self, envelope: Envelope, raw: bytes, envelope_hash: bytes, *, epoch: int, at: int, belongs: bool
    ) -> None:
        conversation = envelope.conversation_id if belongs else NO_CONVERSATION
        self.size += len(raw) + ROW
        self.added["mesh_log"].append(
            (
                epoch,
                envelope_hash,
                leaf(raw),
                envelope.sender,
                int(envelope.msg_type),
                None if conversation == NO_CONVERSATION else conversation,
                at,
                raw,
            )
        )

    def put_messages(self, messages: Sequence[TopicMessage], first_open: int) -> None:
        """Messages to topics, in their order. Those of an epoch that has ended go into `first_open`."""
        added = self.added["mesh_log"]
        for each in messages:
            self.size += len(each.envelope) + ROW
            epoch = max(epoch_at(each.at), first_open)
            added.append(
                (epoch, each.hash, each.leaf, each.sender, each.msg_type, None, each.at, each.envelope)
            )

    def put_epoch(self, closed: ClosedEpoch) -> None:
        self.added["mesh_epochs"].append((closed.epoch, closed.envelopes, closed.root, closed.record))
        self.closed_epoch = closed.epoch


def offer_row(key: bytes, position: int, skill: dict[str, Any], at: int, rating: int) -> Fields:
    """What a search looks at. A rate or a currency of another type counts as none, as it does in a search."""
    name, rate, currency = skill["capability"], skill.get("rate"), skill.get("currency")
    return (
        key,
        position,
        name.lower(),
        name,
        as_double(rate) if isinstance(rate, int | float) and not isinstance(rate, bool) else None,
        currency.lower() if isinstance(currency, str) else None,
        rating,
        at,
        _encode(skill),
    )


def as_double(number: int | float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _listed(proposal: Proposal) -> tuple[int, int, int | None]:
    """By which lists and deadlines find it: `is_open`, `frozen` and `expires`."""
    return int(proposal.status in OPEN), int(proposal.frozen_by is not None), proposal.expires


def listed_conversation(conversation: Conversation) -> tuple[bytes | None, int, int | None, int | None]:
    """By which lists and deadlines find it: `notary`, `is_open`, `deadline` and `completed_at`."""
    return (
        conversation.notary,
        int(conversation.is_open),
        conversation.deadline,
        conversation.completed_at,
    )


def listed_case(case: Dispute) -> bytes:
    """What a list of cases needs of it. Parties decide how long evidence is, and a list does not show it."""
    return _encode(
        msgspec.structs.replace(
            case,
            pool=(),
            pool_keys=(),
            skipped=(),
            disputant_evidence=None,
            respondent_evidence=None,
            settlement=None,
        )
    )


def parts_of(case: Dispute) -> list[tuple[bytes, str, bool]]:
    """(key, role, live) of the parties and of all arbiters that were ever drawn."""
    parties = ((case.disputant, "disputant", case.is_open), (case.respondent, "respondent", case.is_open))
    arbiters = ((slot.arbiter, "arbiter", case.is_open and slot.status != "declined") for slot in case.slots)
    return [*parties, *arbiters]


def _runs(rows: list[Fields]) -> Iterator[list[Fields]]:
    start = 0
    length = LONGEST_RUN
    while start < len(rows):
        while length > len(rows) - start:
            length //= 2
        yield rows[start : start + length]
        start += length


@cache
def _insert(insert: str, table: Table, conflict: str, rows: int) -> str:
    columns = ", ".join(table.columns)
    marks = ", ".join("?" for _ in table.columns)
    values = ", ".join(f"({marks})" for _ in range(rows))
    return f"{insert} {table.name} ({columns}) VALUES {values}{conflict}"
