"""The court's books in memory. What is kept is kept as JSON, as a database would."""

from collections import Counter
from collections.abc import Collection, Mapping

import msgspec

from moothall.court.books import Books, Filing, Page
from moothall.court.panel import Experience
from moothall.court.records import CourtChange, Dispute, Part, SignedFile
from moothall.identity import PublicKey
from moothall.market import books as market
from moothall.market.conversations import Conversation
from moothall.market.credits import Escrow, Posted
from moothall.market.epoch_log import Logged
from moothall.market.records import AuditRow, Standing
from tests.market.support import MemoryBooks as MarketBooks

decode = msgspec.json.Decoder(Dispute).decode


class MemoryBooks(MarketBooks, Books):
    def __init__(self) -> None:
        super().__init__()
        self.records: dict[str, bytes] = {}
        self.by_deal: dict[str, list[str]] = {}  # the newest first
        self.files: dict[str, bytes] = {}
        self.connected_elsewhere: list[tuple[bytes, str]] = []

    @property
    def cases(self) -> list[Dispute]:
        return [decode(record) for record in self.records.values()]

    def case(self, dispute_id: str, *, hold: bool = True) -> Dispute | None:
        record = self.records.get(dispute_id)
        return None if record is None else decode(record)

    def cases_about(self, proposal_id: str) -> list[Dispute]:
        return [decode(self.records[each]) for each in self.by_deal.get(proposal_id, ())]

    def filings(self, proposal_id: str) -> list[Filing]:
        return [Filing(case.id, case.disputant) for case in self.cases_about(proposal_id)]

    def part(self, dispute_id: str, key: bytes) -> Part | None:
        case = self.case(dispute_id)
        return None if case is None else case.part_of(key)

    def cases_of(self, key: bytes, *, limit: int = 100, open_only: bool = False) -> Page:
        found = [
            case
            for case in reversed(self.cases)
            if (key in case.parties or case.slot_of(key) is not None) and (case.is_open or not open_only)
        ]
        return Page(found[:limit])

    def due_cases(self, now: int, limit: int = 100) -> list[str]:
        due = [case for case in self.cases if case.deadline is not None and case.deadline <= now]
        return [case.id for case in sorted(due, key=lambda case: case.deadline or 0)][:limit]

    def next_case_deadline(self) -> int | None:
        return min((case.deadline for case in self.cases if case.deadline is not None), default=None)

    # -- conversations of the mesh: there are none -------------------------------------------------

    def conversation(self, conversation_id: bytes, *, hold: bool = True) -> None:
        return None

    def escrow(self, conversation_id: bytes) -> None:
        return None

    def logged(
        self, conversation_id: bytes, *, after: int = 0, limit: int = 100, most: int = 0
    ) -> market.Page[Logged]:
        return market.Page([])

    def logged_envelope(self, envelope_hash: bytes) -> None:
        return None

    def remove_bids(self, conversation_id: bytes, before: int | None = None) -> None:
        raise NotImplementedError

    def save_escrow(self, escrow: Escrow) -> None:
        raise NotImplementedError

    def save_posted(self, posted: Posted) -> None:
        raise NotImplementedError

    # -- arbiters ----------------------------------------------------------------------------------

    def seats(self) -> list[tuple[bytes, str]]:
        return [
            (slot.arbiter, case.id)
            for case in self.cases
            if case.is_open
            for slot in case.slots
            if slot.status != "declined"
        ]

    def seats_of(self, keys: Collection[bytes]) -> list[tuple[bytes, str]]:
        return [seat for seat in self.seats() if seat[0] in keys]

    def elsewhere(self) -> list[tuple[bytes, str]]:
        return self.connected_elsewhere

    def panels(self, keys: Collection[bytes]) -> Mapping[bytes, int]:
        return Counter(key for key, _ in self.seats() if key in keys)

    def qualified(self, keys: Collection[bytes], rating: int, transactions: int) -> list[Standing]:
        standings = [self.stands.get(key) or Standing(key=key) for key in keys]
        return [each for each in standings if each.rating >= rating and each.transactions >= transactions]

    def experience(self, keys: Collection[bytes]) -> Mapping[bytes, Experience]:
        done = [deal for deal in self.deals.values() if deal.status == "completed"]
        return {
            key: Experience(
                len(
                    {*(deal.recipient for deal in done if deal.proposer == key)}
                    | {deal.proposer for deal in done if deal.recipient == key}
                ),
                next((point.at for point in self.points if point.key == key), None),
            )
            for key in keys
        }

    def find_key(self, agent_id: str) -> bytes | None:
        rated = (PublicKey(key) for key in self.stands)
        found = next((key.raw for key in rated if agent_id in (key.agent_id(8), key.agent_id(16))), None)
        return super().find_key(agent_id) if found is None else found

    def signed_file(self, dispute_id: str) -> bytes | None:
        return self.files.get(dispute_id)

    def cases_by_phase(self) -> dict[str, int]:
        return Counter(case.phase for case in self.cases)

    def save(self, *changes: CourtChange) -> None:
        assert sum(isinstance(change, AuditRow) for change in changes) == 1
        self.saved = sum(len(msgspec.json.encode(change)) for change in changes)
        for change in changes:
            if isinstance(change, Dispute):
                if change.id not in self.records:
                    others = self.cases_about(change.proposal_id)
                    assert not any(other.counts_for(change.disputant) for other in others)
                    self.by_deal.setdefault(change.proposal_id, []).insert(0, change.id)
                self.records[change.id] = msgspec.json.encode(change)
            elif isinstance(change, SignedFile):
                assert change.dispute_id not in self.files, "a case is closed once"
                self.files[change.dispute_id] = change.body
            elif not isinstance(change, Conversation):
                self._save(change)
