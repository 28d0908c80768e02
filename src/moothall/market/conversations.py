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

All ways are in TRANSITIONS, for messages that were sent or received alike. What is not there changes nothing.
"""

from collections.abc import Callable, Mapping
from typing import Final, Literal

from msgspec import Struct, structs

from moothall.errors import OutOfOrder
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
}

MAX_AMOUNT: Final = 2**63 - 1  # millionths; every store can hold it


class Step(Struct, kw_only=True, frozen=True, gc=False):
    """A message of a conversation, whatever wire it came by. Its signature is checked."""

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

    @property
    def parties(self) -> tuple[bytes, bytes]:
        return self.requester, self.provider

    @property
    def participants(self) -> tuple[bytes, ...]:
        return self.parties if self.notary is None else (*self.parties, self.notary)

    def other(self, party: bytes) -> bytes:
        return self.provider if party == self.requester else self.requester

    def state_of(self, agent: bytes) -> State:
        """The state as this agent sees it: its own FEEDBACK ends the conversation for it."""
        if self.state == "RESOLVED" and any(sender == agent for sender, _ in self.ratings):
            return "CLOSED"
        return self.state


def decide(conversation: Conversation | None, step: Step) -> Conversation:
    """The conversation after this message. None is one that does not exist: IDLE.

    Raises OutOfOrder if the state does not allow the message, or a rule does not.
    """
    if conversation is None:
        return _open(step)
    if step.sender not in conversation.participants:
        raise OutOfOrder("Only the two parties and the assigned notary speak in this conversation")
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
    events = [event for known, event in TRANSITIONS if known == state]
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
    return structs.replace(conversation, verdict=None, told=())


def _assign(conversation: Conversation, step: Step) -> Conversation:
    if conversation.notary is not None:
        raise OutOfOrder("This conversation has a notary")
    if step.about is None or step.recipient != step.about or step.about in conversation.parties:
        raise OutOfOrder("A NOTARIZE_ASSIGN goes to the notary that it names, which is neither party")
    return structs.replace(conversation, notary=step.about)


def _approve(conversation: Conversation, step: Step) -> Conversation:
    if step.sender == conversation.notary:
        return _verdict(conversation, step, "approve")
    if step.sender != conversation.requester or conversation.state != "DELIVERED":
        raise OutOfOrder("A delivery is approved once, by the assigned notary or by the requester")
    _between_parties(conversation, step)
    _names_parties(conversation, step)
    return conversation


def _disapprove(conversation: Conversation, step: Step) -> Conversation:
    if step.sender != conversation.notary:
        raise OutOfOrder("Only the assigned notary rejects a delivery. A party sends DISPUTE")
    return _verdict(conversation, step, "reject")


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


_RULES: Final[Mapping[Event, Callable[[Conversation, Step], Conversation]]] = {
    "COUNTER": _counter,
    "ACCEPT": _accept,
    "REJECT": _answer,
    "DELIVER": _deliver,
    "NOTARIZE_ASSIGN": _assign,
    "APPROVE": _approve,
    "DISAPPROVE": _disapprove,
    "DISPUTE": _dispute,
}


def _rate(conversation: Conversation, step: Step) -> Conversation:
    """FEEDBACK on another participant, once for each (mesh wire 3.4)."""
    if not conversation.ratings:  # else it was resolved, whatever the state is by now
        _next(conversation.state, "FEEDBACK")
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


def _between_parties(conversation: Conversation, step: Step) -> None:
    if step.sender not in conversation.parties or step.recipient != conversation.other(step.sender):
        raise OutOfOrder(f"{step.event} goes from one party to the other")


def _names_parties(conversation: Conversation, step: Step) -> None:
    if step.parties != conversation.parties:
        raise OutOfOrder("The VERDICT names other parties than this conversation has")


def _check_amount(step: Step) -> None:
    if not 0 <= step.amount <= MAX_AMOUNT:
        raise OutOfOrder(f"An offer is from 0 to {MAX_AMOUNT} millionths")
