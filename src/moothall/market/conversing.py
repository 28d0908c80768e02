"""One unit of work per step of a conversation of the mesh: fetch the records, have the step decided, write it down.

These run where the books are, inside a transaction; whatever they raise undoes it. The state of the conversation,
what is put aside for it and what agents think of each other change together or not at all.

The hall plays the requester's node. So it locks the credits at ACCEPT, approves a delivery after the review time,
and settles what is left at the timeout. It is also the node that assigns the notary. If the requester is abroad, on
the network of peers, its own node does all of that: the credits are elsewhere.
"""

from typing import Final, Literal, TypeVar

from msgspec import Struct, structs

from moothall.errors import NoCover, OutOfOrder, RateLimited
from moothall.market import credits, feedback, notaries
from moothall.market.conversation_rules import decide, is_resend
from moothall.market.conversations import Conversation, Step
from moothall.market.credits import DEFAULT_TIMEOUT, Authority, Escrow
from moothall.market.ledger import agent_account
from moothall.market.mesh_books import MeshBooks
from moothall.market.quotas import COUNTED_FOR, require_within
from moothall.market.rating_rules import RatingRules
from moothall.market.rules import Quotas
from moothall.wire.mesh.envelope import NO_CONVERSATION

# An envelope is refused by its time when it is older. Twice the tolerance would do, if halls had one clock.
REPLAY_WINDOW: Final = 2 * 60 * 1000  # ms
# Envelopes of one conversation within that time, before more work or offers are refused
MAX_RECENT: Final = 64
# Resends are refused earlier: or a party could leave the other one no room for its DELIVER.
MAX_RECENT_FOR_RESENDS: Final = 32
_HASH_BYTES: Final = 8

Known = TypeVar("Known")


class MeshRules(Struct, kw_only=True, frozen=True):
    """The choices an operator has about conversations. Times are milliseconds."""

    review: int = 60_000  # from a DELIVER without a notary to its approval
    approval: Literal["automatic", "manual"] = "automatic"
    escrow_timeout: int = DEFAULT_TIMEOUT
    # "required": an ACCEPT that the balance of the requester does not cover is refused. "optional": the deal goes
    # on with what is put aside already, which may be nothing. Then FEEDBACK of the requester approves the delivery
    # too, as programs do that were written for nodes without escrow.
    cover: Literal["required", "optional"] = "required"
    ratings: RatingRules = RatingRules()
    quotas: Quotas = Quotas()


class Dealt(Struct, frozen=True, gc=False):
    """What became of a step. `assigned` is the notary that the hall has chosen with it: the hall sends it a
    NOTARIZE_ASSIGN, and tells both parties. `fee` is what the requester put aside for it."""

    conversation: Conversation
    changed: bool  # the state is another one than before
    assigned: bytes | None = None
    fee: int = 0
    resent: bool = False  # it repeats the last message, and changes nothing


# -- messages ----------------------------------------------------------------------------------------------


def take(
    books: MeshBooks,
    step: Step,
    authority: Authority,
    *,
    now: int,
    rules: MeshRules,
    abroad: bytes | None = None,
) -> Dealt:
    """Take a message of a conversation. `authority` is its envelope. `abroad` is the agent that other peers reach,
    if the message came from the network or goes there.

    Raises OutOfOrder, CreditsRefused (NoCover if the requester cannot pay) or RateLimited; then nothing changes.
    """
    before = books.conversation(step.conversation_id)
    recent = _recent(before, step, authority, now)
    if before is not None and is_resend(before, step):
        same = structs.replace(before, recent=recent)
        books.save_conversation(same)
        return Dealt(same, changed=False, resent=True)
    approved = before
    if before is not None and rules.cover == "optional" and _approves_by_feedback(before, step):
        approved = structs.replace(before, state="RESOLVED")
    after = structs.replace(decide(approved, step), updated_at=now, recent=recent)
    if before is None:
        after = structs.replace(after, elsewhere=after.requester == abroad)
        return _opened(books, after, authority, now, rules)
    feedback.note_activity(books, step.sender, now)
    assigned, fee = None, 0
    match step.event:
        case "COUNTER":
            after = structs.replace(after, offer=authority, terms=authority)
        case "ACCEPT":
            after, assigned, fee = _accepted(books, after, step, authority, now, rules)
        case "NOTARIZE_ASSIGN":
            _require_rightful(books, before, step, now)
            after = _appointed(books, after)
        case "DELIVER":
            after = structs.replace(after, delivery=authority, review_at=_review_at(after, now, rules))
        case "DISAPPROVE":
            after = structs.replace(after, judgement=authority)
        case "DISPUTE":
            feedback.note_dispute(books, step.sender, now)
            after = structs.replace(after, offer=authority, review_at=None)
        case "FEEDBACK":
            after = feedback.apply(books, after, step, authority, now, rules.ratings)
        case _:
            pass
    return _kept(books, before, _settled(books, before, after, step, authority, now), assigned, fee)


def _approves_by_feedback(conversation: Conversation, step: Step) -> bool:
    """The requester rates work for which nothing was put aside, and which no notary judges."""
    return (
        step.event == "FEEDBACK"
        and step.sender == conversation.requester
        and conversation.state == "DELIVERED"
        and conversation.notary is None
        and not conversation.held
    )


def _recent(
    conversation: Conversation | None, step: Step, authority: Authority, now: int
) -> tuple[tuple[int, bytes], ...]:
    """The latest envelopes, with this one. Each is taken once, also after a restart, and if another hall on the
    same store was sent it before: a window of nonces is one hall's, and in memory.

    Every cycle of the table has a COUNTER or a DELIVER in it. Only these and resends are refused if there are too
    many: a party must be able to answer, and to DISPUTE in time.
    """
    mark = authority.envelope[:_HASH_BYTES]
    known = () if conversation is None else conversation.recent
    if any(mark == each for _, each in known):
        raise OutOfOrder("This envelope was taken before")
    latest = [(at, each) for at, each in known if at > now - REPLAY_WINDOW]
    resent = is_resend(conversation, step)
    most = MAX_RECENT_FOR_RESENDS if resent else MAX_RECENT
    if len(latest) >= most and (resent or step.event in ("COUNTER", "DELIVER")):
        raise RateLimited("There were too many envelopes in this conversation lately. Wait a minute")
    return (*latest, (now, mark))


def _opened(
    books: MeshBooks, conversation: Conversation, authority: Authority, now: int, rules: MeshRules
) -> Dealt:
    quotas = rules.quotas
    most = max(quotas.open_proposals, quotas.open_per_pair)
    if most:
        other = conversation.other(conversation.proposer)
        found = books.open_conversations(conversation.proposer, other, now - COUNTED_FOR, most)
        require_within(found, quotas, "conversations")
    feedback.note_activity(books, conversation.proposer, now)
    return _kept(books, None, structs.replace(conversation, created_at=now, offer=authority, terms=authority))


def _accepted(
    books: MeshBooks, conversation: Conversation, step: Step, authority: Authority, now: int, rules: MeshRules
) -> tuple[Conversation, bytes | None, int]:
    """The conversation, the notary that was assigned, and its fee."""
    assigned = _choose(books, conversation, step.sender, now)
    after = structs.replace(
        conversation,
        acceptance=authority,
        agreed=_agreement(conversation, authority),
        notary=conversation.notary if assigned is None else assigned,
    )
    if not after.held:
        return after, assigned, 0
    held = books.escrow(after.id)
    own = authority if step.sender == after.requester else _known(after.offer)
    try:
        posted = credits.lock(
            after.id,
            after.requester,
            after.provider,
            after.held,
            balance=books.balance(agent_account(after.requester)),
            now=now,
            authority=own,
            notary=after.notary,
            timeout=rules.escrow_timeout,
            held=held,
        )
    except NoCover:
        if rules.cover == "required":
            raise
        return _uncovered(books, after, held, assigned), assigned, 0
    books.save_posted(posted)
    after = structs.replace(after, timeout_at=posted.escrow.ends_at)
    if assigned is not None and held is not None:
        return _appointed(books, after), assigned, 0
    return after, assigned, posted.escrow.notary_fee if assigned else 0


def _uncovered(
    books: MeshBooks, conversation: Conversation, held: Escrow | None, assigned: bytes | None
) -> Conversation:
    """The parties agreed on more than the requester has, and the rules allow that. An escrow stays as it is."""
    after = structs.replace(conversation, held=0 if held is None else held.amount)
    return after if assigned is None else _appointed(books, after)


def _agreement(conversation: Conversation, acceptance: Authority) -> tuple[bytes, bytes] | None:
    """The two envelopes that agree on the amount, one of each party. A party that accepts its own last amount,
    after a DISPUTE of the other one, agrees to what both signed before."""
    terms = conversation.terms
    if terms is None or terms.sender == acceptance.sender:
        return conversation.agreed
    return terms.envelope, acceptance.envelope


def _review_at(conversation: Conversation, now: int, rules: MeshRules) -> int | None:
    if conversation.elsewhere:
        return (
            now + rules.escrow_timeout
        )  # the hall of the requester has settled it by then, and need not say so
    if conversation.notary is not None or rules.approval == "manual":
        return None
    return now + rules.review


# -- notaries ----------------------------------------------------------------------------------------------


def bid(books: MeshBooks, conversation_id: bytes, bidder: bytes, *, offers: bool, now: int) -> Dealt | None:
    """Note an offer to be a notary, or the wish of a party for one. None: it concerns no conversation that needs a
    notary, or the party has asked before. Offers for any conversation are kept too."""
    if conversation_id == NO_CONVERSATION:
        if offers:
            books.remove_bids(NO_CONVERSATION, now - notaries.STANDING_OFFER)
            _add_bid(books, NO_CONVERSATION, bidder, now)
        return None
    before = books.conversation(conversation_id)
    if before is None or before.notary is not None or before.state not in notaries.OPEN_TO_BIDS:
        return None
    if before.elsewhere:
        return None
    is_party = bidder in before.parties
    if offers == is_party:
        return None
    if is_party:
        if bidder in before.asked:
            return None
        return _kept(books, before, structs.replace(before, asked=(*before.asked, bidder)))
    _add_bid(books, conversation_id, bidder, now)
    return (
        Dealt(before, False)
        if before.has_bids
        else _kept(books, before, structs.replace(before, has_bids=True))
    )


def _add_bid(books: MeshBooks, conversation_id: bytes, bidder: bytes, now: int) -> None:
    """The first so many count. An offer that is repeated is renewed."""
    pool = books.bids(conversation_id, 0, notaries.MAX_POOL)
    if bidder in pool or len(pool) < notaries.MAX_POOL:
        books.add_bid(conversation_id, bidder, now)


def _choose(books: MeshBooks, conversation: Conversation, by: bytes, now: int) -> bytes | None:
    if not notaries.is_wanted(conversation, by):
        return None
    own = books.bids(conversation.id, 0, notaries.MAX_POOL) if conversation.has_bids else []
    since = now - notaries.STANDING_OFFER
    return notaries.chosen(conversation, own, books.bids(NO_CONVERSATION, since, notaries.MAX_POOL))


def _require_rightful(books: MeshBooks, conversation: Conversation, step: Step, now: int) -> None:
    if not notaries.is_wanted(conversation, step.sender):
        raise OutOfOrder("No party asked for a notary (NOTARIZE_BID 0x00), or the requester does not agree")
    rightful = _choose(books, conversation, step.sender, now)
    if rightful != step.about:
        raise OutOfOrder(
            "No agent has offered to be the notary" if rightful is None else f"The notary is {rightful.hex()}"
        )


def _appointed(books: MeshBooks, conversation: Conversation) -> Conversation:
    """The escrow, if there is one, learns its notary."""
    escrow = books.escrow(conversation.id) if conversation.held else None
    if escrow is not None and conversation.notary is not None:
        books.save_escrow(credits.appoint(escrow, conversation.notary))
    return conversation


# -- orders of the parties, and deadlines ------------------------------------------------------------------


def cancel(books: MeshBooks, conversation_id: bytes, by: bytes, authority: Authority, *, now: int) -> Dealt:
    """The requester ends the conversation, and gets back what is put aside. `authority` is its signed order.

    Raises OutOfOrder if work was delivered that was not rejected, and the provider did not consent; CreditsRefused
    after the timeout.
    """
    return _ordered(books, Step(event="CANCEL", conversation_id=conversation_id, sender=by), authority, now)


def consent(books: MeshBooks, conversation_id: bytes, by: bytes, authority: Authority, *, now: int) -> Dealt:
    """The provider allows the requester to cancel, until it delivers again. Raises OutOfOrder."""
    return _ordered(books, Step(event="CONSENT", conversation_id=conversation_id, sender=by), authority, now)


def _ordered(books: MeshBooks, step: Step, authority: Authority, now: int) -> Dealt:
    before = books.conversation(step.conversation_id)
    if before is None:
        raise OutOfOrder("There is no conversation of this id")
    after = structs.replace(decide(before, step), updated_at=now)
    return _kept(books, before, _settled(books, before, after, step, authority, now))


def lapse(books: MeshBooks, conversation_id: bytes, *, now: int) -> Dealt | None:
    """Act upon a deadline that `books.due_conversations` named. None if it no longer holds.

    The review time is over: the delivery is approved. The timeout has passed: the provider claims, or the requester
    gets its credits back if nothing was delivered or the notary rejected the delivery.
    """
    before = books.conversation(conversation_id)
    if before is None or before.deadline is None or now < before.deadline:
        return None
    step, authority = _due(before)
    after = structs.replace(decide(before, step), updated_at=now)
    return _kept(books, before, _settled(books, before, after, step, authority, now))


def _due(conversation: Conversation) -> tuple[Step, Authority]:
    """What the deadline brings, and the envelope that it follows from."""
    talk, requester, provider = conversation.id, conversation.requester, conversation.provider
    if conversation.review_at == conversation.deadline:
        approval = Step(
            event="APPROVE",
            conversation_id=talk,
            sender=requester,
            recipient=provider,
            parties=conversation.parties,
        )
        return approval, _known(conversation.delivery)
    if not conversation.is_refunded_at_timeout:
        return Step(event="CLAIM", conversation_id=talk, sender=provider), _known(conversation.delivery)
    refund = Step(event="CANCEL", conversation_id=talk, sender=requester, timed_out=True)
    return refund, _known(conversation.judgement if conversation.rejected else conversation.acceptance)


# -- what every step ends with -------------------------------------------------------------------------------


def _settled(
    books: MeshBooks,
    before: Conversation,
    after: Conversation,
    step: Step,
    authority: Authority,
    now: int,
) -> Conversation:
    """Pay out what is no longer put aside."""
    if after.state in ("RESOLVED", "CLOSED"):
        after = structs.replace(after, review_at=None)
    if not before.held or after.held:
        return after
    escrow = _known(books.escrow(after.id))
    match step.event:
        case "APPROVE":
            posted = credits.approve(escrow, by=step.sender, now=now, authority=authority)
        case "CLAIM":
            posted = credits.claim(
                escrow, by=step.sender, now=now, authority=authority, delivered=True, rejected=False
            )
        case _:  # CANCEL, or a REJECT, with which the provider consents
            rejected = before.rejected if step.timed_out else before.rejected == before.deliveries
            posted = credits.cancel(
                escrow,
                by=after.requester,
                now=now,
                authority=authority,
                delivered=before.deliveries > 0,
                rejected=bool(rejected),
                consented=before.consented or step.sender == after.provider,
            )
    books.save_posted(posted)
    return structs.replace(after, timeout_at=None)


def _kept(
    books: MeshBooks,
    before: Conversation | None,
    after: Conversation,
    assigned: bytes | None = None,
    fee: int = 0,
) -> Dealt:
    if after.has_bids and (after.notary is not None or after.state not in notaries.OPEN_TO_BIDS):
        books.remove_bids(after.id)
        after = structs.replace(after, has_bids=False)
    books.save_conversation(after)
    return Dealt(after, before is None or before.state != after.state, assigned, fee)


def _known(record: Known | None) -> Known:
    """For what the state of the conversation says is there."""
    if record is None:
        raise ValueError("the conversation refers to an envelope or an escrow that is not there")
    return record
