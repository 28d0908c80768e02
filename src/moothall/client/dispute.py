"""A dispute as a party or an arbiter sees it: how it stands, what was decided, and the steps to take.

A party has a `Dispute`. An arbiter is asked with an `Assignment` whether it will judge, and shown a `Case` to vote
on.
"""

# ruff: noqa: ASYNC109  # every operation has a timeout, so that no caller waits for ever

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, get_args

from moothall.client.docket import Docket, Role, Ruling
from moothall.client.evidence import Evidence, EvidenceItem
from moothall.client.ratings import moment_or_none
from moothall.errors import UsageError
from moothall.wire.agentchat.client import Verdict

Items = Iterable[EvidenceItem | Mapping[str, Any]]


class Filing:
    """A dispute, and how it stands as far as the agent has heard."""

    __slots__ = ("_docket",)

    def __init__(self, docket: Docket) -> None:
        self._docket = docket

    def docket(self) -> Docket:
        """The record behind this object."""
        return self._docket

    @property
    def dispute_id(self) -> str:
        """Its id, `disp_...`."""
        return self._docket.id

    @property
    def proposal_id(self) -> str:
        """The deal that it is about."""
        return self._docket.proposal_id

    @property
    def role(self) -> Role:
        """The agent's own role: disputant, respondent or arbiter."""
        return self._docket.role

    @property
    def phase(self) -> str:
        """reveal_pending, arbiter_response, evidence, deliberation, resolved or fallback, as last heard."""
        return self._docket.phase

    @property
    def is_over(self) -> bool:
        """True once there is a verdict, or there will be none."""
        return self._docket.is_over

    @property
    def disputant(self) -> str:
        """`@` and an id."""
        return self._docket.disputant

    @property
    def respondent(self) -> str:
        """`@` and an id; empty before the panel was formed, or the hall was asked."""
        return self._docket.respondent

    @property
    def reason(self) -> str:
        """The disputant's; empty where the respondent has only heard of the panel."""
        return self._docket.reason

    @property
    def deadline(self) -> datetime | None:
        """The deadline of the phase, by the hall's clock; None if the hall did not tell it."""
        return moment_or_none(self._docket.deadline)

    @property
    def filed_at(self) -> datetime | None:
        """When it was filed, by the hall's clock, where it was told."""
        return moment_or_none(self._docket.filed_at)

    @property
    def nonce(self) -> str | None:
        """The disputant's secret until it is revealed. Kept, it lets `file_dispute` go on after a crash."""
        return self._docket.nonce

    @property
    def server_nonce(self) -> str | None:
        """The hall's part of the seed, once the hall has shown it."""
        return self._docket.server_nonce

    @property
    def seed(self) -> str | None:
        """What the panel was drawn with: SHA-256 of the proposal's id, the disputant's and the hall's nonce."""
        return self._docket.seed

    @property
    def panel(self) -> tuple[str, ...]:
        """The arbiters as they were drawn; empty before that."""
        return self._docket.panel

    @property
    def pool(self) -> tuple[str, ...]:
        """The agents that the panel was drawn from, so that the draw can be repeated."""
        return self._docket.pool

    @property
    def pool_hash(self) -> str | None:
        """What the hall promised the pool to be, before it showed its nonce; None if it did not say."""
        return self._docket.pool_hash

    @property
    def skipped(self) -> tuple[str, ...]:
        """The agents of the pool that the draw passed over, because they were absent or not eligible any more."""
        return self._docket.skipped

    @property
    def evidence_from(self) -> frozenset[str]:
        """Who has shown evidence, as far as the agent was there to hear it."""
        return frozenset(self._docket.submitted)

    @property
    def slot(self) -> str | None:
        """How an arbiter's own place stands: pending, accepted, declined, voted, replaced or forfeited."""
        return self._docket.slot

    @property
    def verdict(self) -> Verdict | None:
        """ "disputant", "respondent" or "mutual"; None until it is decided."""
        return self._docket.verdict

    @property
    def ruling(self) -> Ruling | None:
        """None until it is over."""
        return self._docket.ruling

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Filing) and other.dispute_id == self.dispute_id

    def __hash__(self) -> int:
        return hash(self._docket.id)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.dispute_id} {self.phase} {self.reason!r}>"


class Advocate(Protocol):
    """The agent that has a part in a dispute, as far as its disputes, assignments and cases need it."""

    async def reveal(self, proposal_id: str, nonce: str, patience: float | None) -> object: ...

    async def submit_when_open(
        self, docket: Docket, items: Items, statement: str, patience: float | None
    ) -> None: ...

    async def outcome(self, docket: Docket, patience: float | None) -> Ruling: ...

    async def case_file(self, case_id: str, patience: float | None) -> dict[str, Any]: ...

    async def accept(self, dispute_id: str, patience: float | None) -> None: ...

    async def decline(self, dispute_id: str, reason: str | None, patience: float | None) -> None: ...

    async def vote(self, dispute_id: str, verdict: str, reasoning: str, patience: float | None) -> None: ...


class Dispute(Filing):
    """A dispute one has a part in. Its steps also raise what every operation of an Agent raises."""

    __slots__ = ("_advocate",)

    def __init__(self, docket: Docket, advocate: Advocate) -> None:
        super().__init__(docket)
        self._advocate = advocate

    async def reveal(self, *, timeout: float | None = None) -> None:
        """Show the nonce, after `file_dispute(..., reveal=False)`: the panel is drawn.

        Raises UsageError when the nonce is not known here, and what `Agent.reveal_dispute` raises.
        """
        if self.nonce is None:
            raise UsageError("the nonce of this dispute is not known here: agent.reveal_dispute takes it")
        await self._advocate.reveal(self.proposal_id, self.nonce, timeout)

    async def submit(self, items: Items, statement: str = "", *, timeout: float | None = None) -> None:
        """Show the arbiters what happened; once only. Waits until all three have accepted.

        `items` are EvidenceItems, or dicts with any fields, at most ten; they are signed, the `statement` is
        not. Raises DisputeNotParty, DisputeInvalidPhase, DisputeDeadlinePassed when it is too late or was done
        before, and UsageError for what cannot be written as JSON.
        """
        await self._advocate.submit_when_open(self._docket, items, statement, timeout)

    async def outcome(self, timeout: float | None = None) -> Ruling:
        """Wait for the verdict, or for the news that there will be none, through reconnects, and return the
        Ruling.

        Raises ReplyTimeout when `timeout` seconds pass before.
        """
        return await self._advocate.outcome(self._docket, timeout)

    async def case(self, *, timeout: float | None = None) -> dict[str, Any]:
        """Return the whole file of the case: what `moothall court export` writes and `moothall court verify`
        checks.

        Raises DisputeNotFound, or DisputeNotParty.
        """
        return await self._advocate.case_file(self.dispute_id, timeout)


@dataclass(frozen=True, slots=True)
class Assignment:
    """The agent was drawn as an arbiter. Until the deadline it accepts, or declines and is replaced."""

    dispute_id: str
    proposal_id: str
    disputant: str  # with @
    respondent: str  # with @
    reason: str
    deadline: datetime  # by the hall's clock
    is_replacement: bool
    _advocate: Advocate = field(repr=False, compare=False)

    @property
    def parties(self) -> tuple[str, str]:
        """Disputant and respondent."""
        return (self.disputant, self.respondent)

    async def accept(self, *, timeout: float | None = None) -> None:
        """Be an arbiter of this case. Raises what `Agent.accept_case` raises."""
        await self._advocate.accept(self.dispute_id, timeout)

    async def decline(self, reason: str | None = None, *, timeout: float | None = None) -> None:
        """Let another arbiter be drawn; `reason` is for the file. Raises what `Agent.accept_case` raises."""
        await self._advocate.decline(self.dispute_id, reason, timeout)


@dataclass(frozen=True, slots=True)
class Case:
    """What an arbiter votes on. What the parties wrote is their word: their signatures are under the items only."""

    dispute_id: str
    proposal: Mapping[str, Any]  # id, from, to, task, amount, currency; empty if the hall has lost it
    disputant: str  # with @
    respondent: str  # with @
    disputant_evidence: Evidence | None  # None: it showed nothing
    respondent_evidence: Evidence | None
    vote_deadline: datetime  # by the hall's clock
    _advocate: Advocate = field(repr=False, compare=False)

    async def vote(self, verdict: str, reasoning: str = "", *, timeout: float | None = None) -> None:
        """Vote for the "disputant", the "respondent", or "mutual" fault.

        `verdict` is one of these words, `reasoning` is for all to read. Raises what `Agent.vote` raises.
        """
        await self._advocate.vote(self.dispute_id, verdict, reasoning, timeout)


def checked_verdict(verdict: object) -> Verdict:
    for known in get_args(Verdict):
        if verdict == known:
            return known  # type: ignore[no-any-return]  # get_args is not typed
    raise UsageError(f"a vote is for the disputant, the respondent or mutual, not {verdict!r}")
