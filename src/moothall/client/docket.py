"""What an agent knows of the disputes it has a part in."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from moothall.client.book import Book
from moothall.client.ratings import RatingChange
from moothall.wire.agentchat.client import Number, Verdict

TYPICAL_SIZE: Final = 2000  # bytes of one, its texts and lists aside
ID_SIZE: Final = 64
MAX_ENDED: Final = 64  # ended ones kept although no caller holds them

Role = Literal["disputant", "respondent", "arbiter"]

# Nothing leads back, so news that come late can be told from news (agentchat wire 13.1).
PROGRESS: Final[Mapping[str, int]] = {
    "reveal_pending": 0,
    "panel_selection": 1,
    "arbiter_response": 2,
    "evidence": 3,
    "deliberation": 4,
    "resolved": 5,
    "fallback": 5,
}
OVER: Final = PROGRESS["resolved"]


@dataclass(frozen=True, slots=True)
class Vote:
    """How one arbiter voted, and why."""

    arbiter: str  # with @
    verdict: Verdict
    reasoning: str


@dataclass(frozen=True, slots=True)
class ArbiterResult:
    """What judging brought an arbiter: points for voting with the verdict, a loss for not voting at all."""

    arbiter: str  # with @
    verdict: Verdict | None
    reasoning: str | None
    reward: int


@dataclass(frozen=True, slots=True)
class Ruling:
    """How a dispute ended. Without a verdict the deal is open again, and `fallback` says why."""

    verdict: Verdict | None
    votes: tuple[Vote, ...] = ()
    arbiters: tuple[ArbiterResult, ...] = ()
    rating_changes: Mapping[str, RatingChange] = field(default_factory=dict)  # parties' and arbiters', by @id
    stakes_went: str | None = None  # "transferred" or "burned"; None without stakes
    fallback: str | None = None


@dataclass(slots=True, weakref_slot=True, eq=False)
class Docket:
    """What is known of one dispute. Times are the hall's, in milliseconds."""

    id: str
    proposal_id: str
    role: Role = "disputant"
    phase: str = "reveal_pending"
    disputant: str = ""
    respondent: str = ""
    reason: str = ""
    deadline: Number | None = None
    filed_at: Number | None = None
    nonce: str | None = None
    server_nonce: str | None = None
    seed: str | None = None
    panel: tuple[str, ...] = ()
    pool: tuple[str, ...] = ()
    pool_hash: str | None = None
    skipped: tuple[str, ...] = ()
    slot: str | None = None
    verdict: Verdict | None = None
    votes: tuple[Vote, ...] = ()
    arbiters: tuple[ArbiterResult, ...] = ()
    ruling: Ruling | None = None
    submitted: set[str] = field(default_factory=set)
    is_being_read: bool = False  # its file was asked for
    told: set[str] = field(default_factory=set)  # which handlers were called about it
    waiting: "set[asyncio.Future[None]]" = field(default_factory=set)

    @property
    def progress(self) -> int:
        return PROGRESS.get(self.phase, 0)

    @property
    def size(self) -> int:
        texts = sum(len(vote.reasoning) for vote in self.votes) + len(self.reason)
        return TYPICAL_SIZE + texts + ID_SIZE * (len(self.pool) + len(self.skipped))

    @property
    def is_over(self) -> bool:
        return self.progress == OVER


class Dockets(Book[Docket]):
    """One for each dispute."""

    def __init__(self) -> None:
        super().__init__(MAX_ENDED)

    def about(self, proposal_id: str) -> Docket | None:
        """The dispute about this deal that is open, or the latest: each party can have filed one."""
        found = [docket for docket in self.entries() if docket.proposal_id == proposal_id]
        return max(found, key=lambda docket: (not docket.is_over, docket.filed_at or 0), default=None)

    def opened(self, dispute_id: str, proposal_id: str) -> Docket:
        docket = self.get(dispute_id)
        if docket is None:
            docket = Docket(dispute_id, proposal_id)
            self.keep(docket)
        return docket

    def advance(self, docket: Docket, phase: str, deadline: Number | None = None) -> None:
        if PROGRESS.get(phase, -1) < docket.progress:
            return
        is_news = phase != docket.phase
        docket.phase = phase
        if deadline is not None or is_news:
            docket.deadline = deadline
        if is_news:
            self.keep(docket)
            self.wake(docket)

    def close(self, docket: Docket, ruling: Ruling) -> None:
        docket.ruling = ruling
        docket.verdict = ruling.verdict
        self.advance(docket, "fallback" if ruling.verdict is None else "resolved")
        self.wake(docket)

    def wake_all(self) -> None:
        for docket in self.entries():
            self.wake(docket)
