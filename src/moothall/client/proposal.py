"""A deal as an agent sees it: its terms, how it stands, and the steps to take."""

# ruff: noqa: ASYNC109  # every operation has a timeout, so that no caller waits for ever

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

import msgspec

from moothall.client.dispute import Dispute
from moothall.client.ratings import RatingChange, moment_or_none, rating_changes, stakes_went
from moothall.wire.agentchat.client import Number
from moothall.wire.agentchat.market import Status

NO_TERMS: Final = b"null"
TYPICAL_SIZE: Final = 2000  # bytes of a deal, its texts aside

# Nothing leads back, so news that come late can be told from news (agentchat wire 11.1).
PROGRESS: Final[Mapping[Status, int]] = {
    "pending": 0,
    "accepted": 1,
    "rejected": 2,
    "completed": 2,
    "disputed": 2,
    "expired": 2,
}


@dataclass(slots=True, weakref_slot=True, eq=False)
class Facts:
    """What is known of one deal. Times are the hall's, in milliseconds."""

    id: str
    proposer: str
    recipient: str
    is_mine: bool
    is_known: bool = False  # its terms were heard, not only that it exists
    status: Status = "pending"
    task: str = ""
    amount: Any = None
    currency: Any = None
    payment_code: Any = None
    terms: bytes = NO_TERMS  # as JSON: what others write may be many times larger as objects
    capability: str | None = None
    expires: Number | None = None
    created_at: Number | None = None
    updated_at: Number | None = None
    stake: int = 0
    acceptor_stake: int = 0
    acceptor_payment_code: Any = None
    reason: Any = None
    proof: Any = None
    ended_by: str | None = None
    frozen_by: str | None = None
    rating_changes: dict[str, dict[str, Any]] = field(default_factory=dict)
    due: float | None = None  # by the event loop's clock: when to ask what became of it
    waiting: "set[asyncio.Future[None]]" = field(default_factory=set)

    @property
    def is_over(self) -> bool:
        return PROGRESS[self.status] == 2

    @property
    def size(self) -> int:
        texts = (self.task, self.reason, self.proof, self.payment_code, self.acceptor_payment_code)
        return TYPICAL_SIZE + len(self.terms) + sum(4 * len(text) for text in texts if isinstance(text, str))


def packed(terms: Any) -> bytes:
    if terms is None:
        return NO_TERMS
    try:
        return msgspec.json.encode(terms)
    except UnicodeEncodeError:
        return json.dumps(terms).encode()


def unpacked(terms: bytes) -> Any:
    try:
        return msgspec.json.decode(terms)
    except msgspec.DecodeError:
        return json.loads(terms)  # a lone surrogate


class Deal:
    """The terms of a deal, and how it stands as far as the agent has heard."""

    __slots__ = ("_facts",)

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def facts(self) -> Facts:
        """The record behind this object."""
        return self._facts

    @property
    def id(self) -> str:
        """Its id, `prop_...`."""
        return self._facts.id

    @property
    def status(self) -> Status:
        """pending, accepted, rejected, completed, disputed or expired."""
        return self._facts.status

    @property
    def is_over(self) -> bool:
        """True if it is neither pending nor accepted: nothing will change any more."""
        return self._facts.is_over

    @property
    def is_mine(self) -> bool:
        """True if the agent made the offer; otherwise it was made to the agent."""
        return self._facts.is_mine

    @property
    def proposer(self) -> str:
        """`@` and an id."""
        return self._facts.proposer

    @property
    def recipient(self) -> str:
        """`@` and an id."""
        return self._facts.recipient

    @property
    def parties(self) -> tuple[str, str]:
        """Proposer and recipient."""
        return (self._facts.proposer, self._facts.recipient)

    @property
    def partner(self) -> str:
        """The other party."""
        return self._facts.recipient if self._facts.is_mine else self._facts.proposer

    @property
    def task(self) -> str:
        """Empty where the hall does not tell, which a reference server does for deals of an earlier visit."""
        return self._facts.task

    @property
    def amount(self) -> Any:
        """The price, as the proposer wrote it."""
        return self._facts.amount

    @property
    def currency(self) -> Any:
        """The currency of the price."""
        return self._facts.currency

    @property
    def payment_code(self) -> Any:
        """The payment code of the proposer."""
        return self._facts.payment_code

    @property
    def acceptor_payment_code(self) -> Any:
        """The payment code of the acceptor."""
        return self._facts.acceptor_payment_code

    @property
    def terms(self) -> Any:
        """The terms of the deal. No signature covers them (agentchat wire 8)."""
        return unpacked(self._facts.terms)

    @property
    def capability(self) -> str | None:
        """The skill that it is about, if the proposer named one."""
        return self._facts.capability

    @property
    def expires(self) -> datetime | None:
        """When it expires, by the hall's clock."""
        return moment_or_none(self._facts.expires)

    @property
    def created_at(self) -> datetime | None:
        """When the hall took it, by the hall's clock."""
        return moment_or_none(self._facts.created_at)

    @property
    def updated_at(self) -> datetime | None:
        """When its status changed last, by the hall's clock."""
        return moment_or_none(self._facts.updated_at)

    @property
    def stake(self) -> int:
        """What the proposer puts at stake, in rating points."""
        return self._facts.stake

    @property
    def acceptor_stake(self) -> int:
        """What the acceptor puts at stake, in rating points."""
        return self._facts.acceptor_stake

    @property
    def reason(self) -> Any:
        """Why it was rejected or disputed."""
        return self._facts.reason

    @property
    def proof(self) -> Any:
        """The proof that was given with COMPLETE."""
        return self._facts.proof

    @property
    def ended_by(self) -> str | None:
        """Who rejected, completed or disputed it; None if it expired."""
        return self._facts.ended_by

    @property
    def frozen_by(self) -> str | None:
        """The dispute that holds it, as last heard: until the court has decided, no party can end it."""
        return self._facts.frozen_by

    @property
    def rating_changes(self) -> dict[str, RatingChange]:
        """What its end did to both ratings, by `@id`. Empty when the agent was not there to hear it."""
        return rating_changes(self._facts.rating_changes)

    @property
    def stakes_went(self) -> str | None:
        """ "returned", "transferred" or "burned"; None while open, without stakes, or when not heard."""
        return stakes_went(self._facts.rating_changes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Deal) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self._facts.id)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.status} {self.task!r}>"


class Dealer(Protocol):
    """The agent that is a party, as far as its proposals need it."""

    async def accept(
        self, proposal_id: str, stake: int | None, payment_code: str | None, patience: float | None
    ) -> object: ...

    async def reject(self, proposal_id: str, reason: str | None, patience: float | None) -> object: ...

    async def complete(self, proposal_id: str, proof: str | None, patience: float | None) -> object: ...

    async def dispute(self, proposal_id: str, reason: str, patience: float | None) -> object: ...

    async def file_dispute(
        self, proposal_id: str, reason: str, nonce: str | None, patience: float | None
    ) -> Dispute: ...

    async def outcome(self, facts: Facts, patience: float | None) -> Status: ...


class Proposal(Deal):
    """A deal one can act on. Each step waits for the hall's word, and raises what every operation of an Agent
    raises.

    A step that the deal's status does not allow raises InvalidProposal; one by another agent than a party
    NotProposalParty, and one after the deadline ProposalExpired.
    """

    __slots__ = ("_dealer",)

    def __init__(self, facts: Facts, dealer: Dealer) -> None:
        super().__init__(facts)
        self._dealer = dealer

    async def accept(
        self, *, stake: int | None = None, payment_code: str | None = None, timeout: float | None = None
    ) -> None:
        """Take the offer.

        `stake` points of one's own rating are put aside until the deal is over, like the proposer's;
        `payment_code` says where to pay. Raises InsufficientReputation when either party has too few points,
        InvalidProposal, NotProposalParty, or ProposalExpired.
        """
        await self._dealer.accept(self.id, stake, payment_code, timeout)

    async def reject(self, reason: str | None = None, *, timeout: float | None = None) -> None:
        """Decline the offer, with a `reason` if one likes. Raises InvalidProposal, NotProposalParty, or
        ProposalExpired.
        """
        await self._dealer.reject(self.id, reason, timeout)

    async def complete(self, proof: str | None = None, *, timeout: float | None = None) -> None:
        """The work is done: both gain rating, and the stakes go back.

        `proof` is what shows it. Raises InvalidProposal, NotProposalParty, ProposalExpired, or RateLimited when
        the hall finds the deal too young.
        """
        await self._dealer.complete(self.id, proof, timeout)

    async def dispute(self, reason: str, *, timeout: float | None = None) -> None:
        """The other party is at fault: it loses rating, and its stake.

        `reason` says why. Raises InvalidProposal, NotProposalParty, or ProposalExpired.
        """
        await self._dealer.dispute(self.id, reason, timeout)

    async def file_dispute(
        self, reason: str, *, nonce: str | None = None, timeout: float | None = None
    ) -> Dispute:
        """Go to court: three arbiters, chosen by lot, decide who is at fault. The deal waits for them.

        `reason` is for them and the other party to read. The lot is drawn from the hall's nonce and one of the
        agent's own, which is committed to first and revealed afterwards. An agent that keeps a `nonce` and calls
        this again with it goes on where it was left. Returns the Dispute. Raises DisputeAlreadyExists,
        DisputeNotParty, InvalidProposal, or ProposalNotFound.
        """
        return await self._dealer.file_dispute(self.id, reason, nonce, timeout)

    async def outcome(self, timeout: float | None = None) -> Status:
        """Wait until it is completed, disputed, rejected or expired, through reconnects, and return that status.

        Raises ReplyTimeout when `timeout` seconds pass before.
        """
        return await self._dealer.outcome(self._facts, timeout)


@dataclass(frozen=True, slots=True)
class DealChange:
    """A deal of the agent's became something else. `proposal.status` may be further on by now."""

    proposal: Proposal
    status: Status
    by: str | None  # who did it, with @; None: the clock
