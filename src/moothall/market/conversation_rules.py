"""What a message does to a conversation on the mesh: who may send it, with which words (see `conversations`)."""

from collections.abc import Callable, Mapping
from typing import Final, Literal

from msgspec import structs

from moothall.errors import OutOfOrder
from moothall.market.conversations import ORDERS, TRANSITIONS, Conversation, Event, State, Step
from moothall.market.credits import MAX_AMOUNT
from moothall.wire.mesh.envelope import NO_CONVERSATION


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
