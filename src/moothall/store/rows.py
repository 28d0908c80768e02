"""What units of work leave behind: collected in memory, then written with one statement per table.

SQLite releases the interpreter's lock around each step of a statement, and a busy event loop may keep it for
milliseconds. A statement per row would pay that price fourteen times for one COMPLETE; a batch of sixty-four
units written table by table pays it about as often as one unit. On PostgreSQL the same saves round trips.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from operator import itemgetter
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

from moothall.court.records import Dispute
from moothall.identity import PublicKey
from moothall.identity.keys import AGENT_ID_LENGTH
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

# Rows go out in runs of 64, 32, .. 1, so that there are few statements and all of them stay prepared.
LONGEST_RUN: Final = 64

OPEN: Final = frozenset(("pending", "accepted"))

_encode: Final = msgspec.json.Encoder().encode

Record = TypeVar("Record")


class Stale(Exception):
    """A row changed after this unit of work had read it, or was there although it read none."""


# Bytes of a proposal. Most have half of that, but one may fill a frame, and take twenty times as much when decoded.
LARGE: Final = 2048


class Stored(msgspec.Struct, Generic[Record], frozen=True, gc=False):
    version: int  # 0: there is no such row
    record: Record


class Table(NamedTuple):
    name: str
    columns: tuple[str, ...]
    conflict: str = ""


def _newer(table: str, key: str, *columns: str) -> str:
    """Replace the row, unless somebody else wrote it since it was read: then the count of rows tells."""
    changes = ", ".join(f"{column} = excluded.{column}" for column in (*columns, "version", "record"))
    return f" ON CONFLICT ({key}) DO UPDATE SET {changes} WHERE {table}.version < excluded.version"


# In the order of writing, where there is one. Audit numbers follow the order of the changes on PostgreSQL too:
# whoever drew a number before somebody else's change of the same row was committed fails, and draws anew.
TABLES: Final = (
    Table("keys", ("key", "fingerprint", "short"), " ON CONFLICT (key) DO NOTHING"),
    Table(
        "proposals",
        (
            "id",
            "proposer",
            "recipient",
            "status",
            "is_open",
            "frozen",
            "expires",
            "created_at",
            "version",
            "record",
        ),
        _newer("proposals", "id", "status", "is_open", "frozen", "expires"),
    ),
    Table(
        "disputes",
        ("id", "proposal_id", "phase", "is_open", "deadline", "filed_at", "version", "record"),
        _newer("disputes", "id", "phase", "is_open", "deadline"),
    ),
    Table(
        "case_parts",
        ("dispute_id", "key", "role", "live", "filed_at"),
        " ON CONFLICT (dispute_id, key) DO UPDATE SET live = excluded.live",
    ),
    Table(
        "standings",
        ("key", "rating", "transactions", "version", "record"),
        _newer("standings", "key", "rating", "transactions"),
    ),
    Table(
        "registrations",
        ("key", "registered_at", "record"),
        " ON CONFLICT (key) DO UPDATE SET registered_at = excluded.registered_at, record = excluded.record",
    ),
    Table(
        "imported",
        ("fingerprint", "bound_to"),
        " ON CONFLICT (fingerprint) DO UPDATE SET bound_to = excluded.bound_to",
    ),
    Table("postings", ("deal", "operation", "account", "amount", "at")),
    Table("audit", ("at", "operation", "deal", "actor", "data")),
    Table("receipts", ("proposal_id", "proposer", "recipient", "at", "body")),
    Table("rating_history", ("key", "at", "rating", "why")),
    Table("hooks", ("id", "listener", "name", "deal", "at", "body", "attempts", "next_attempt")),
)

Fields = tuple[Value, ...]


class Draft:
    """The changes of one unit of work, or of several in their order.

    `rows` and `added` are what the database does not have yet, by table: rows that replace the one with their key,
    and rows that only come after others. The rest is what lookups find.
    """

    __slots__ = (
        "added",
        "disputes",
        "entries",
        "has_events",
        "has_receipts",
        "keys",
        "large",
        "proposals",
        "registrations",
        "rows",
        "standings",
    )

    def __init__(self) -> None:
        self.proposals: dict[str, Stored[Proposal]] = {}
        self.standings: dict[bytes, Stored[Standing]] = {}
        self.disputes: dict[str, Stored[Dispute]] = {}
        self.registrations: dict[bytes, Registration | None] = {}
        self.entries: set[tuple[str, str]] = set()
        self.keys: set[bytes] = set()
        self.large: set[str] = set()  # proposals that are not worth remembering
        self.has_receipts = False
        self.has_events = False
        self.rows: defaultdict[str, dict[object, Fields]] = defaultdict(dict)
        self.added: defaultdict[str, list[Fields]] = defaultdict(list)

    @property
    def unwritten(self) -> bool:
        return bool(self.rows or self.added)

    def absorb(self, later: "Draft") -> None:
        self.proposals.update(later.proposals)
        self.standings.update(later.standings)
        self.disputes.update(later.disputes)
        self.registrations.update(later.registrations)
        self.entries |= later.entries
        self.keys |= later.keys
        self.large |= later.large
        self.has_receipts |= later.has_receipts
        self.has_events |= later.has_events
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
            for run in _runs(self._rows_of(table)):
                statements.append((_insert(table, len(run)), [value for fields in run for value in fields]))
                least.append(0 if table.name == "keys" else len(run))
        for key, registration in self.registrations.items():
            if registration is None:
                statements.append(("DELETE FROM registrations WHERE key = ?", (key,)))
                least.append(0)
        changed = connection.execute_all(statements)
        self.rows.clear()  # not before: whoever comes next must stumble over the same rows
        self.added.clear()
        if any(count < wanted for count, wanted in zip(changed, least, strict=True)):
            raise Stale

    def _rows_of(self, table: Table) -> list[Fields]:
        if not table.conflict:
            return self.added[table.name]
        # Everybody takes locks in the same order, so that nobody waits in a circle.
        return sorted(self.rows[table.name].values(), key=itemgetter(0))

    # -- one row each --------------------------------------------------------------------------------

    def put_key(self, key: bytes) -> None:
        fingerprint = PublicKey(key).fingerprint
        self.rows["keys"][key] = (key, fingerprint, fingerprint[:AGENT_ID_LENGTH])
        self.keys.add(key)

    def put_proposal(self, proposal: Proposal, version: int) -> None:
        record = _encode(proposal)
        if len(record) > LARGE:
            self.large.add(proposal.id)
        self.rows["proposals"][proposal.id] = (
            proposal.id,
            proposal.proposer,
            proposal.recipient,
            proposal.status,
            int(proposal.status in OPEN),
            int(proposal.frozen_by is not None),
            proposal.expires,
            proposal.created_at,
            version,
            record,
        )
        self.proposals[proposal.id] = Stored(version, proposal)

    def put_standing(self, standing: Standing, version: int) -> None:
        row = (standing.key, standing.rating, standing.transactions, version, _encode(standing))
        self.rows["standings"][standing.key] = row
        self.standings[standing.key] = Stored(version, standing)

    def put_dispute(self, case: Dispute, version: int) -> None:
        self.rows["disputes"][case.id] = (
            case.id,
            case.proposal_id,
            case.phase,
            int(case.is_open),
            case.deadline,
            case.filed_at,
            version,
            _encode(case),
        )
        parts = self.rows["case_parts"]
        for key, role, live in parts_of(case):
            parts[case.id, key] = (case.id, key, role, int(live), case.filed_at)
        self.disputes[case.id] = Stored(version, case)

    def put_registration(self, registration: Registration) -> None:
        row = (registration.key, registration.registered_at, _encode(registration))
        self.rows["registrations"][registration.key] = row
        self.registrations[registration.key] = registration

    def remove_registration(self, key: bytes) -> None:
        self.rows["registrations"].pop(key, None)
        self.registrations[key] = None

    def put_bound(self, fingerprint: str, key: bytes) -> None:
        self.rows["imported"][fingerprint] = (fingerprint, key)

    def put_entry(self, entry: Entry) -> None:
        deal, operation, at = entry.deal, entry.operation, entry.at
        self.added["postings"] += [
            (deal, operation, posting.account, posting.amount, at) for posting in entry.postings
        ]
        self.entries.add((deal, operation))

    def put_audit(self, row: AuditRow) -> None:
        self.added["audit"].append((row.at, row.operation, row.deal, row.actor, row.data))

    def put_receipt(self, receipt: Receipt, proposer: str, recipient: str) -> None:
        row = (receipt.proposal_id, proposer, recipient, receipt.at, receipt.body)
        self.added["receipts"].append(row)
        self.has_receipts = True

    def put_point(self, point: RatingPoint) -> None:
        self.added["rating_history"].append((point.key, point.at, point.rating, point.why))

    def put_hook(self, event: HookEvent, listener: str) -> None:
        row = (event.id, listener, event.name, event.deal, event.at, event.body, 0, event.at)
        self.added["hooks"].append(row)
        self.has_events = True


def parts_of(case: Dispute) -> list[tuple[bytes, str, bool]]:
    """(key, role, live) of everybody who ever had a part in the case."""
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
def _insert(table: Table, rows: int) -> str:
    columns = ", ".join(table.columns)
    marks = ", ".join("?" for _ in table.columns)
    values = ", ".join(f"({marks})" for _ in range(rows))
    return f"INSERT INTO {table.name} ({columns}) VALUES {values}{table.conflict}"  # noqa: S608  # our own names
