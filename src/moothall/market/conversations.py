"""The life of a conversation on the mesh (the specification's state machine; mesh wire 8).

A conversation begins with an offer, and both parties make offers until one accepts the last one of the other.
Then they are bound: what was agreed is put aside, and the provider delivers. The work is approved by the
notary, if there is one, or by the requester; or it is disputed, and the parties negotiate again over the same
terms, with the money still put aside. A notary that rejects the work leaves the conversation where it is: the
provider may deliver again. What is approved is settled, and feedback ends the conversation. There is no way out
of CLOSED, and none back to IDLE, so an id is used once.

FEEDBACK ends the conversation for the agent that sends it: the other party may still send its own. The
conversation itself is CLOSED when both have. A party may rate the notary besides, and the notary rates the
parties, without changing a state.

Some events are not messages. With CANCEL the requester ends a conversation that brought it nothing, or whose
provider has given its CONSENT. At the timeout of the escrow the hall cancels for the requester, or makes the CLAIM
of the provider. A conversation that was CLOSED by REJECT after a DISPUTE may have credits put aside. They go back
or are claimed at the timeout, and it stays CLOSED.

After a DISPUTE, a party of a conversation without a notary may file a court case (COURT_CASE). While the case is
open it holds the conversation: no message, no order and no deadline changes anything. The verdict gives the
credits back to the requester (COURT_REFUND), also if both are at fault, or pays the provider (COURT_AWARD). A
case without a verdict gives the conversation back as it was (COURT_FALLBACK).

Over a network a message may not arrive, and its sender sends it again with a new nonce. So a message that repeats
the last one of the conversation is a resend: it is in order, and changes nothing.

Two halls have two ledgers, and a conversation may cross between them. The hall of the requester is the hall of the
conversation. At the hall of the provider the credits are elsewhere: it keeps to the same states, puts nothing
aside, and takes no court case.

All ways are in TRANSITIONS, for messages that were sent or received alike. What is not there changes nothing. Who
may send which message is in `conversation_rules`.
"""

from collections.abc import Mapping
from typing import Final, Literal

from msgspec import Struct

from moothall.market.credits import Authority

State = Literal["IDLE", "NEGOTIATING", "COMMITTED", "DELIVERED", "RESOLVED", "CLOSED"]
# Messages by their name. A VERDICT of 0x00 is APPROVE, and one of 0x01 DISAPPROVE.
Event = Literal[
    "PROPOSE",
    "COUNTER",
    "ACCEPT",
    "REJECT",
    "DELIVER",
    "NOTARIZE_ASSIGN",
    "APPROVE",
    "DISAPPROVE",
    "DISPUTE",
    "FEEDBACK",
    "CANCEL",
    "CONSENT",
    "CLAIM",
    "COURT_CASE",
    "COURT_FALLBACK",
    "COURT_REFUND",
    "COURT_AWARD",
]

TRANSITIONS: Final[Mapping[tuple[State, Event], State]] = {
    ("IDLE", "PROPOSE"): "NEGOTIATING",
    ("NEGOTIATING", "COUNTER"): "NEGOTIATING",
    ("NEGOTIATING", "ACCEPT"): "COMMITTED",
    ("NEGOTIATING", "REJECT"): "CLOSED",
    ("COMMITTED", "DELIVER"): "DELIVERED",
    ("DELIVERED", "APPROVE"): "RESOLVED",
    ("DELIVERED", "DISPUTE"): "NEGOTIATING",
    ("RESOLVED", "FEEDBACK"): "CLOSED",
    # Not in the diagram, because they lead nowhere else (mesh wire 8).
    ("COMMITTED", "NOTARIZE_ASSIGN"): "COMMITTED",
    ("DELIVERED", "DISAPPROVE"): "DELIVERED",
    ("DELIVERED", "DELIVER"): "DELIVERED",  # after a rejecting verdict
    ("RESOLVED", "APPROVE"): "RESOLVED",  # the same verdict, to the other party
    # No messages: orders of a party, and what the hall does at the timeout.
    ("NEGOTIATING", "CANCEL"): "CLOSED",
    ("COMMITTED", "CANCEL"): "CLOSED",
    ("DELIVERED", "CANCEL"): "CLOSED",
    ("CLOSED", "CANCEL"): "CLOSED",  # credits that a REJECT left put aside
    ("NEGOTIATING", "CONSENT"): "NEGOTIATING",
    ("COMMITTED", "CONSENT"): "COMMITTED",
    ("DELIVERED", "CONSENT"): "DELIVERED",
    ("NEGOTIATING", "CLAIM"): "RESOLVED",
    ("COMMITTED", "CLAIM"): "RESOLVED",
    ("DELIVERED", "CLAIM"): "RESOLVED",
    ("CLOSED", "CLAIM"): "CLOSED",  # the same
    # What the court does, after a DISPUTE.
    ("NEGOTIATING", "COURT_CASE"): "NEGOTIATING",
    ("NEGOTIATING", "COURT_FALLBACK"): "NEGOTIATING",
    ("NEGOTIATING", "COURT_REFUND"): "CLOSED",
    ("NEGOTIATING", "COURT_AWARD"): "RESOLVED",
}
# What is not a message.
ORDERS: Final[frozenset[Event]] = frozenset(
    ("CANCEL", "CONSENT", "CLAIM", "COURT_CASE", "COURT_FALLBACK", "COURT_REFUND", "COURT_AWARD")
)

OPEN: Final[frozenset[State]] = frozenset(("NEGOTIATING", "COMMITTED", "DELIVERED"))


class Step(Struct, kw_only=True, frozen=True, gc=False):
    """A message of a conversation, or an order; whatever wire it came by. Its signature is checked."""

    event: Event
    conversation_id: bytes
    sender: bytes
    recipient: bytes | None = None  # FEEDBACK has none
    amount: int = 0  # of PROPOSE, COUNTER and ACCEPT
    max_rounds: int = 2  # of PROPOSE
    offers_work: bool = False  # of PROPOSE: its sender is the provider
    round: int = 1  # of COUNTER
    parties: tuple[bytes, bytes] | None = None  # of a VERDICT: the requester and the provider it names
    about: bytes | None = None  # the notary that is assigned, or the agent that FEEDBACK rates
    about_notary: bool = False  # of FEEDBACK: it rates the notary's work
    score: int = 0  # of FEEDBACK, from -100 to 100
    positive: bool = False  # of FEEDBACK: its outcome
    timed_out: bool = False  # of CANCEL: by the hall, at the timeout of the escrow
    case: str | None = None  # of what the court does: the id of the case
    mark: bytes = b""  # of a message: two with the same sender, type, recipient and payload have the same


class Conversation(Struct, kw_only=True, frozen=True, gc=False):
    """What is known of a conversation. Nothing changes one in place."""

    id: bytes
    requester: bytes
    provider: bytes
    state: State
    amount: int  # of the last offer
    offered_by: bytes
    max_rounds: int
    requester_rounds: int = 0
    provider_rounds: int = 0
    notary: bytes | None = None
    verdict: Literal["approve", "reject"] | None = None  # the notary's, on the last delivery
    told: tuple[bytes, ...] = ()  # the parties that have this verdict
    ratings: tuple[tuple[bytes, bytes], ...] = ()  # which agent rated which
    deliveries: int = 0
    rejected: int = 0  # the last delivery that the notary rejected, counted from 1
    asked: tuple[bytes, ...] = ()  # the parties that asked for a notary
    has_bids: bool = False  # agents have offered to be its notary
    consented: bool = False  # the provider agrees to a CANCEL
    held: int = 0  # millionths put aside, without a fee: 0 before ACCEPT and after the settlement
    case: str | None = None  # the open court case that holds this conversation
    judged: bool = False  # a verdict of the court has ended it
    elsewhere: bool = False  # its credits are on the ledger of another hall
    last: bytes = b""  # the mark of the last message
    # Moments in milliseconds, and the envelopes that later postings name. The hall keeps them; `decide` does not.
    proposer: bytes = b""
    created_at: int = 0
    updated_at: int = 0
    review_at: int | None = None  # when the last delivery is approved, if the requester says nothing
    timeout_at: int | None = None  # when what is put aside is claimed or goes back
    recent: tuple[
        tuple[int, bytes], ...
    ] = ()  # envelopes that could be replayed: when they came, and their hashes
    completed_at: int | None = None  # when it counted as a completed deal of the two parties
    case_from: int = 0  # when the case was filed
    offer: Authority | None = None
    # The last offer that names an amount: a DISPUTE is an offer, and names none
    terms: Authority | None = None
    agreed: tuple[bytes, bytes] | None = None  # hashes of the offer that was accepted, and of its ACCEPT
    acceptance: Authority | None = None
    delivery: Authority | None = None
    judgement: Authority | None = None

    @property
    def parties(self) -> tuple[bytes, bytes]:
        return self.requester, self.provider

    @property
    def participants(self) -> tuple[bytes, ...]:
        return self.parties if self.notary is None else (*self.parties, self.notary)

    @property
    def signers(self) -> set[bytes]:
        """Participants that have signed an envelope of this conversation. A recipient may be any 32 bytes."""
        shown = (self.acceptance, self.delivery, self.judgement)
        return {self.offered_by, *(authority.sender for authority in shown if authority is not None)}

    @property
    def is_open(self) -> bool:
        """Something is still to happen besides FEEDBACK: an answer, work, a verdict, or a settlement."""
        return self.state in OPEN or self.held > 0

    @property
    def deadline(self) -> int | None:
        """When the hall acts next. A case that is open holds up the time."""
        if self.case is not None:
            return None
        moments = [moment for moment in (self.review_at, self.timeout_at) if moment is not None]
        return min(moments) if moments else None

    @property
    def can_be_cancelled(self) -> bool:
        """Nothing was delivered that the notary did not reject, or the provider agrees."""
        return self.deliveries == self.rejected or self.consented

    @property
    def is_refunded_at_timeout(self) -> bool:
        """A rejecting verdict blocks the claim, also of a later delivery that no notary has judged."""
        return not self.deliveries or self.rejected > 0

    def other(self, party: bytes) -> bytes:
        return self.provider if party == self.requester else self.requester

    def state_of(self, agent: bytes) -> State:
        """The state as this agent sees it: its own FEEDBACK ends the conversation for it."""
        if self.state == "RESOLVED" and any(sender == agent for sender, _ in self.ratings):
            return "CLOSED"
        return self.state
