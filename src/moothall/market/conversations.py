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

All ways are in TRANSITIONS, for messages that were sent or received alike. What is not there changes nothing.
"""

from collections.abc import Callable, Mapping
from typing import Final, Literal

from msgspec import Struct, structs

from moothall.errors import OutOfOrder
from moothall.market.credits import MAX_AMOUNT, Authority
from moothall.wire.mesh.envelope import NO_CONVERSATION

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
    terms: Authority | None = (
        None  # the last offer that names an amount: a DISPUTE is an offer, and names none
    )
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


def decide(conversation: Conversation | None, step: Step) -> Conversation:
    """The conversation after this message. None is one that does not exist: IDLE. A resend changes nothing.

    Raises OutOfOrder if the state does not allow the message, or a rule does not.
    """
    if conversation is None:
        return structs.replace(_open(step), last=step.mark)
    if is_resend(conversation, step):
        return conversation
    after = _decide(conversation, step)
    return structs.replace(after, last=step.mark) if step.mark else after


def is_resend(conversation: Conversation | None, step: Step) -> bool:
    """True if the message repeats the last one of the conversation."""
    return conversation is not None and bool(step.mark) and step.mark == conversation.last


def _decide(conversation: Conversation, step: Step) -> Conversation:
    if step.sender not in conversation.participants:
        raise OutOfOrder(
            "Only the two parties and the assigned notary speak in this conversation."
            " A notary is assigned with ACCEPT, if a party asked for one (NOTARIZE_BID 0x00)"
            " and the requester agrees"
        )
    if conversation.case is not None and step.case != conversation.case:
        raise OutOfOrder(
            f"The court case {conversation.case} holds this conversation. Wait for its end; it goes on as before if"
            " there is no verdict"
        )
    if step.event == "FEEDBACK":
        return _rate(conversation, step)
    state = _next(conversation.state, step.event)
    return structs.replace(_RULES[step.event](conversation, step), state=state)


def _next(state: State, event: Event) -> State:
    following = TRANSITIONS.get((state, event))
    if following is None:
        raise OutOfOrder(f"{event} is out of order: the conversation is {state}. {_allowed(state)}")
    return following


def _allowed(state: State) -> str:
    """What may come now; not the second half of a verdict."""
    events = [
        event
        for known, event in TRANSITIONS
        if known == state and event not in ORDERS and (state, event) != ("RESOLVED", "APPROVE")
    ]
    if not events:
        return "Start a new conversation, with another id"
    return f"It allows {', '.join(events)}"


def _open(step: Step) -> Conversation:
    state = _next("IDLE", step.event)
    if step.recipient is None or step.recipient == step.sender:
        raise OutOfOrder("A PROPOSE goes to another agent")
    if step.conversation_id == NO_CONVERSATION:
        raise OutOfOrder("A PROPOSE names its conversation: choose an id that was never used")
    _check_amount(step)
    requester, provider = step.sender, step.recipient
    if step.offers_work:
        requester, provider = provider, requester
    return Conversation(
        id=step.conversation_id,
        requester=requester,
        provider=provider,
        state=state,
        amount=step.amount,
        offered_by=step.sender,
        max_rounds=step.max_rounds,
        proposer=step.sender,
    )


# -- who may do what, and with which words --------------------------------------------------------------


def _counter(conversation: Conversation, step: Step) -> Conversation:
    _between_parties(conversation, step)
    _check_amount(step)
    rounds = (
        conversation.requester_rounds
        if step.sender == conversation.requester
        else conversation.provider_rounds
    )
    most = conversation.max_rounds
    if rounds >= most or not 1 <= step.round <= most:
        raise OutOfOrder(f"Each side counters at most {most} times here. ACCEPT or REJECT the last offer")
    changed = structs.replace(conversation, amount=step.amount, offered_by=step.sender)
    if step.sender == conversation.requester:
        return structs.replace(changed, requester_rounds=rounds + 1)
    return structs.replace(changed, provider_rounds=rounds + 1)


def _accept(conversation: Conversation, step: Step) -> Conversation:
    _answer(conversation, step)
    if step.amount != conversation.amount:
        raise OutOfOrder(
            f"The last offer was {conversation.amount}, and ACCEPT says {step.amount}."
            " Accept that amount, or COUNTER"
        )
    if conversation.held and not step.amount:
        raise OutOfOrder("Credits are put aside. To work for nothing, the provider consents to a cancel")
    held = 0 if conversation.elsewhere else step.amount
    return structs.replace(conversation, held=held, consented=False)


def _reject(conversation: Conversation, step: Step) -> Conversation:
    """After a DISPUTE, a provider that rejects gives back what is put aside. A requester
    that rejects gets it back only where it may cancel."""
    _answer(conversation, step)
    if step.sender == conversation.provider or conversation.can_be_cancelled:
        return structs.replace(conversation, held=0)
    return conversation


def _answer(conversation: Conversation, step: Step) -> Conversation:
    _between_parties(conversation, step)
    if step.sender == conversation.offered_by:
        raise OutOfOrder(
            f"{step.event} is for the party that did not make the last offer. Wait for its answer"
        )
    return conversation


def _deliver(conversation: Conversation, step: Step) -> Conversation:
    if step.sender != conversation.provider:
        raise OutOfOrder("Only the provider delivers")
    _between_parties(conversation, step)
    if conversation.state == "DELIVERED" and conversation.verdict != "reject":
        raise OutOfOrder("The work was delivered. Wait for the verdict")
    return structs.replace(
        conversation, verdict=None, told=(), deliveries=conversation.deliveries + 1, consented=False
    )


def _assign(conversation: Conversation, step: Step) -> Conversation:
    if conversation.notary is not None:
        raise OutOfOrder("This conversation has a notary")
    if step.about is None or step.recipient != step.about or step.about in conversation.parties:
        raise OutOfOrder("A NOTARIZE_ASSIGN goes to the notary that it names, which is neither party")
    return structs.replace(conversation, notary=step.about)


def _approve(conversation: Conversation, step: Step) -> Conversation:
    if step.sender == conversation.notary:
        return structs.replace(_verdict(conversation, step, "approve"), held=0)
    if step.sender != conversation.requester or conversation.state != "DELIVERED":
        raise OutOfOrder("A delivery is approved once, by the assigned notary or by the requester")
    _between_parties(conversation, step)
    _names_parties(conversation, step)
    return structs.replace(conversation, held=0)


def _disapprove(conversation: Conversation, step: Step) -> Conversation:
    if step.sender != conversation.notary:
        raise OutOfOrder("Only the assigned notary rejects a delivery. A party sends DISPUTE")
    judged = _verdict(conversation, step, "reject")
    return structs.replace(judged, rejected=conversation.deliveries)


def _verdict(conversation: Conversation, step: Step, verdict: Literal["approve", "reject"]) -> Conversation:
    """A notary tells both parties, one envelope each. The second one changes nothing."""
    _names_parties(conversation, step)
    if step.recipient not in conversation.parties:
        raise OutOfOrder("A VERDICT goes to a party of the conversation")
    if conversation.state == "RESOLVED" and conversation.verdict != verdict:
        raise OutOfOrder("The requester has approved the delivery itself")
    told = conversation.told if conversation.verdict == verdict else ()
    if step.recipient in told:
        raise OutOfOrder("This party has the verdict")
    return structs.replace(conversation, verdict=verdict, told=(*told, step.recipient))


def _dispute(conversation: Conversation, step: Step) -> Conversation:
    """The last terms are on the table again, as an offer of the party that disputes; both count their rounds
    anew."""
    if step.sender not in conversation.parties:
        raise OutOfOrder("Only a party disputes")
    if step.recipient not in (conversation.notary, conversation.other(step.sender)) or step.recipient is None:
        raise OutOfOrder("A DISPUTE goes to the assigned notary or to the other party")
    return structs.replace(
        conversation,
        offered_by=step.sender,
        requester_rounds=0,
        provider_rounds=0,
        verdict=None,
        told=(),
    )


def _cancel(conversation: Conversation, step: Step) -> Conversation:
    if step.sender != conversation.requester:
        raise OutOfOrder("Only the requester cancels. The provider consents to it")
    if conversation.state == "CLOSED" and not conversation.held:
        raise OutOfOrder(f"CANCEL is out of order: the conversation is CLOSED. {_allowed('CLOSED')}")
    allowed = conversation.is_refunded_at_timeout if step.timed_out else conversation.can_be_cancelled
    if not allowed:
        raise OutOfOrder("The work was delivered. The provider must consent to a cancel; or send DISPUTE")
    return structs.replace(conversation, held=0)


def _consent(conversation: Conversation, step: Step) -> Conversation:
    if step.sender != conversation.provider:
        raise OutOfOrder("Only the provider consents to a cancel")
    return structs.replace(conversation, consented=True)


def _claim(conversation: Conversation, step: Step) -> Conversation:
    if step.sender != conversation.provider:
        raise OutOfOrder("Only the provider claims what is put aside")
    if not conversation.held or conversation.is_refunded_at_timeout:
        raise OutOfOrder("There is nothing to claim: no credits are put aside for work that was not rejected")
    return structs.replace(conversation, held=0)


def _court_case(conversation: Conversation, step: Step) -> Conversation:
    if conversation.elsewhere:
        raise OutOfOrder(
            "The credits of this conversation are at another hall. File the case at the requester's"
        )
    if conversation.notary is not None:
        raise OutOfOrder("The notary judges this conversation: the court takes those without one")
    if step.sender not in conversation.parties or not conversation.deliveries or step.case is None:
        raise OutOfOrder(
            "A party may file a court case about a delivery that was disputed. Send a DISPUTE first"
        )
    if conversation.case is not None:
        raise OutOfOrder(f"The court case {conversation.case} is open")
    return structs.replace(conversation, case=step.case)


def _court_end(conversation: Conversation, step: Step) -> Conversation:
    if conversation.case is None:
        raise OutOfOrder("There is no open court case about this conversation")
    if step.event == "COURT_FALLBACK":
        return structs.replace(conversation, case=None)
    return structs.replace(conversation, case=None, judged=True, held=0)


_RULES: Final[Mapping[Event, Callable[[Conversation, Step], Conversation]]] = {
    "COUNTER": _counter,
    "ACCEPT": _accept,
    "REJECT": _reject,
    "DELIVER": _deliver,
    "NOTARIZE_ASSIGN": _assign,
    "APPROVE": _approve,
    "DISAPPROVE": _disapprove,
    "DISPUTE": _dispute,
    "CANCEL": _cancel,
    "CONSENT": _consent,
    "CLAIM": _claim,
    "COURT_CASE": _court_case,
    "COURT_FALLBACK": _court_end,
    "COURT_REFUND": _court_end,
    "COURT_AWARD": _court_end,
}


def _rate(conversation: Conversation, step: Step) -> Conversation:
    """FEEDBACK on another participant, once for each (mesh wire 3.4)."""
    if not conversation.ratings and not _is_resolved_elsewhere(conversation, step):
        _next(conversation.state, "FEEDBACK")  # with ratings it was resolved, whatever the state is by now
    if step.about == step.sender or step.about not in conversation.participants:
        raise OutOfOrder("FEEDBACK is about another participant of the conversation")
    if step.about_notary != (step.about == conversation.notary):
        raise OutOfOrder("The role in FEEDBACK is not that of the agent it rates")
    rating = (step.sender, step.about)
    if rating in conversation.ratings:
        raise OutOfOrder("You have rated this agent in this conversation")
    ratings = (*conversation.ratings, rating)
    senders = {sender for sender, _ in ratings}
    ended = senders.issuperset(conversation.parties)
    return structs.replace(conversation, ratings=ratings, state="CLOSED" if ended else "RESOLVED")


def _is_resolved_elsewhere(conversation: Conversation, step: Step) -> bool:
    """The hall of the requester may approve a delivery without a message. It takes FEEDBACK only after that."""
    is_open = conversation.elsewhere and conversation.state == "DELIVERED"
    return is_open and step.sender == conversation.requester


def _between_parties(conversation: Conversation, step: Step) -> None:
    if step.sender not in conversation.parties or step.recipient != conversation.other(step.sender):
        raise OutOfOrder(f"{step.event} goes from one party to the other")


def _names_parties(conversation: Conversation, step: Step) -> None:
    if step.parties != conversation.parties:
        raise OutOfOrder("The VERDICT names other parties than this conversation has")


def _check_amount(step: Step) -> None:
    if not 0 <= step.amount <= MAX_AMOUNT:
        raise OutOfOrder(f"An offer is from 0 to {MAX_AMOUNT} millionths")
