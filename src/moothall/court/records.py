"""What the court keeps: one Dispute per case, with everything that was said and decided in it.

Decisions make new ones; nothing changes one in place. Times are whole milliseconds since the Unix epoch, and a
`key` is the 32 raw bytes of an Ed25519 public key, as in the market's records.
"""

from typing import Any, Literal

from msgspec import Struct, structs

from moothall.court.panel import PANEL_SIZE, Why
from moothall.court.phases import OPEN, Phase
from moothall.market.conversations import Conversation
from moothall.market.movement import Transfer
from moothall.market.records import Change, EscrowResult, Scalar

Verdict = Literal["disputant", "respondent", "mutual"]
SlotStatus = Literal["pending", "accepted", "declined", "forfeited", "voted"]
Part = Literal["disputant", "respondent", "arbiter", "stranger"]


class Vote(Struct, kw_only=True, frozen=True):
    number: int  # the first vote of a case is 0
    verdict: Verdict
    reasoning: str
    sig: str
    at: int


class Slot(Struct, kw_only=True, frozen=True):
    """A seat on the panel, and the arbiter it was offered to. A replacement has a slot of its own."""

    arbiter: bytes
    address: str
    status: SlotStatus = "pending"
    assigned_at: int
    # What a replacement was drawn from, in old cases (`draw_replacement`)
    pool: tuple[str, ...] | None = None
    accepted_at: int | None = None
    accept_sig: str | None = None
    declined_at: int | None = None
    decline_reason: Scalar | None = None
    decline_sig: str | None = None
    vote: Vote | None = None


class Skipped(Struct, kw_only=True, frozen=True):
    """An agent of the pool that was passed over."""

    address: str
    why: Why
    at: int


class Submission(Struct, kw_only=True, frozen=True):
    """One party's evidence. `items` as they were sent and signed; `hashes` one each, in their order."""

    items: tuple[dict[str, Any], ...]
    hashes: tuple[str, ...]
    statement: str
    sig: str
    at: int


class Settled(Struct, kw_only=True, frozen=True):
    """What a verdict did to one agent. `earned` is aside from stakes, and before the floor."""

    address: str
    rating_before: int
    rating_after: int
    earned: int
    staked: int = 0
    awarded: int = 0
    withheld: int = 0  # by the rules against farming


class Settlement(Struct, kw_only=True, frozen=True):
    """Disputant, respondent, then the arbiters that voted or forfeited, in the order of their slots."""

    shares: tuple[Settled, ...]
    stakes: EscrowResult
    transfer: Transfer | None = None  # what the winner got of the loser's points; None: there was no winner


class Dispute(Struct, kw_only=True, frozen=True):
    """`pool`, sorted, is what the seed shuffles, and `pool_keys` are the keys of these agents, in the same order.
    Both are taken when the case is filed. In a case that was filed before halls did so, `pool_hash` is None."""

    id: str
    proposal_id: str
    disputant: bytes
    respondent: bytes
    disputant_address: str
    respondent_address: str
    reason: str
    commitment: str
    intent_sig: str
    server_nonce: str
    phase: Phase = "reveal_pending"
    deadline: int | None  # of the phase; None when the case is closed
    filed_at: int
    nonce: str | None = None
    reveal_sig: str | None = None
    revealed_at: int | None = None
    seed: str | None = None
    pool: tuple[str, ...] = ()
    pool_keys: tuple[bytes, ...] = ()
    pool_hash: str | None = None
    slots: tuple[Slot, ...] = ()
    skipped: tuple[Skipped, ...] = ()  # in the order of the walk
    disputant_evidence: Submission | None = None
    respondent_evidence: Submission | None = None
    evidence_from: int | None = None  # when the panel was seated
    deliberation_from: int | None = None
    closed_at: int | None = None
    fallback_reason: str | None = None
    verdict: Verdict | None = None
    settlement: Settlement | None = None

    @property
    def is_open(self) -> bool:
        return self.phase in OPEN

    @property
    def parties(self) -> tuple[bytes, bytes]:
        return self.disputant, self.respondent

    @property
    def is_unrevealed(self) -> bool:
        """True if the case fell back because the disputant did not reveal its nonce."""
        return self.phase == "fallback" and self.nonce is None

    def counts_for(self, key: bytes) -> bool:
        """This party cannot file another about the same deal. One that was not revealed is the filer's loss alone:
        else the party at fault could use up the other's right."""
        return key == self.disputant or not self.is_unrevealed

    def part_of(self, key: bytes) -> Part:
        if key == self.disputant:
            return "disputant"
        if key == self.respondent:
            return "respondent"
        return "stranger" if self.slot_of(key) is None else "arbiter"

    def slot_of(self, key: bytes) -> int | None:
        """The number of this agent's slot. An agent has one slot in a case at most."""
        return next((number for number, slot in enumerate(self.slots) if slot.arbiter == key), None)

    def with_slot(self, number: int, slot: Slot) -> "Dispute":
        return structs.replace(self, slots=(*self.slots[:number], slot, *self.slots[number + 1 :]))

    def is_replacement(self, number: int) -> bool:
        """True if the arbiter in this slot replaces one that declined."""
        return number >= PANEL_SIZE


class SignedFile(Struct, kw_only=True, frozen=True):
    """The file of a case that was closed, as JSON, with the hall's signature. It never changes."""

    dispute_id: str
    body: bytes


CourtChange = Change | Dispute | SignedFile | Conversation
