"""Conversations of the mesh that are in court: how a case begins and ends for them.

The court judges deals. So a party that files a case about a conversation gets a copy of it as an accepted deal.
The deal has the name that the conversation has in the ledger. Its signatures are those of the two envelopes that
agree on the amount: the PROPOSE or COUNTER of one party is the PROPOSAL, and the ACCEPT of the other one is the
ACCEPT. They are over the signing bytes of the envelopes, which the deal holds. It has no stakes: the credits are
in the escrow.

From the commitment on the case holds the conversation. Its time stands still. A verdict settles the escrow, in
the unit of work that closes the case:

    the requester wins     the credits go back, CLOSED
    the provider wins      it is paid as after an approval, RESOLVED
    both are at fault      the credits go back: no approval was given, CLOSED

The entry in the ledger names the verdict: the Keccak-256 of the text that the hall signs under the file of the
case (`identity.seals`), the key of the hall, and the nonce 0. Without a verdict the conversation goes on where it
was, with the time that was left, and the copy has expired.

The caller saves the conversations that these functions return, with the other changes of its decision.
"""

from base64 import b64encode
from collections.abc import Callable
from typing import Any, Final, Literal, Protocol

from msgspec import structs

from moothall.errors import InvalidProposal, OutOfOrder, ProposalNotFound
from moothall.market import credits
from moothall.market.books import MAX_READ, Page
from moothall.market.bounds import MAX_TASK
from moothall.market.conversation_rules import decide
from moothall.market.conversations import Conversation, Event, Step
from moothall.market.credits import Authority, Escrow, Posted
from moothall.market.epoch_log import Logged
from moothall.market.mesh import step_of
from moothall.market.records import Proposal
from moothall.wire.mesh.envelope import Envelope, decode, signing_bytes
from moothall.wire.mesh.faults import PayloadParseError
from moothall.wire.mesh.offers import Propose

CURRENCY: Final = "credits"

Winner = Literal["requester", "provider"]


class CourtBooks(Protocol):
    """A part of a unit of work."""

    def conversation(self, conversation_id: bytes, *, hold: bool = True) -> Conversation | None: ...

    def escrow(self, conversation_id: bytes) -> Escrow | None: ...

    def logged(
        self, conversation_id: bytes, *, after: int = 0, limit: int = 100, most: int = MAX_READ
    ) -> Page[Logged]: ...

    def logged_envelope(self, envelope_hash: bytes) -> bytes | None: ...

    def remove_bids(self, conversation_id: bytes, before: int | None = None) -> None: ...

    def save_escrow(self, escrow: Escrow) -> None: ...

    def save_posted(self, posted: Posted) -> None: ...


# -- a case is filed ---------------------------------------------------------------------------------------


def hold(books: CourtBooks, conversation_id: bytes, by: bytes, case: str, *, now: int) -> Conversation:
    """The conversation, held by this case from now on. Raises ProposalNotFound or InvalidProposal."""
    before = books.conversation(conversation_id)
    if before is None or by not in before.parties:
        raise ProposalNotFound("You have no conversation of this id")
    if before.deadline is not None and now >= before.deadline:
        raise InvalidProposal("The timeout of this conversation has passed")
    step = Step(event="COURT_CASE", conversation_id=conversation_id, sender=by, case=case)
    try:
        after = decide(before, step)
    except OutOfOrder as error:
        raise InvalidProposal(str(error)) from None
    return structs.replace(after, case_from=now, updated_at=now)


def copy_of(books: CourtBooks, conversation: Conversation, address: Callable[[bytes], str]) -> Proposal:
    """The conversation as a deal that both have accepted. `address` gives the "@id" of a key.

    Raises InvalidProposal if the log does not have the envelopes that the court needs.
    """
    opening = books.logged(conversation.id, limit=1).items
    hashes = conversation.agreed or ()
    envelopes = [raw for each in hashes if (raw := books.logged_envelope(each)) is not None]
    if not opening or len(envelopes) < 2:
        raise InvalidProposal(
            "The court needs the envelopes of this conversation, and the log of this hall does not have them"
            " (`mesh_log`)"
        )
    offer, accept = (decode(raw) for raw in envelopes)
    requester, provider = address(conversation.requester), address(conversation.provider)
    amount = step_of(accept).amount
    return Proposal(
        id=credits.deal_name(conversation.id),
        proposer=offer.sender,
        recipient=accept.sender,
        from_=address(offer.sender),
        to=address(accept.sender),
        task=_task(requester, provider, decode(opening[0].envelope), offer),
        amount=credits.shown(amount) if amount else None,
        currency=CURRENCY if amount else None,
        terms=_terms(conversation),
        status="accepted",
        created_at=conversation.created_at,
        updated_at=conversation.updated_at,
        sig=_sig(offer),
        response_sig=_sig(accept),
        signed_texts={"PROPOSAL": signing_bytes(offer), "ACCEPT": signing_bytes(accept)},
    )


def _task(requester: str, provider: str, opening: Envelope, offer: Envelope) -> str:
    """What the arbiters read: who is who, and what the parties wrote in the first and in the last offer."""
    texts = [_message(opening)]
    if offer != opening:
        texts.append(_message(offer))
    said = " / ".join(text for text in texts if text)
    return f"{requester} is the requester, {provider} the provider: {said}"[:MAX_TASK]


def _message(offer: Envelope) -> str:
    try:
        return Propose.decode(offer.payload).message
    except PayloadParseError:
        return ""


def _terms(conversation: Conversation) -> dict[str, Any]:
    """For the file of the case: the hall signs it."""
    return {
        "conversation_id": conversation.id.hex(),
        "requester": conversation.requester.hex(),
        "provider": conversation.provider.hex(),
        "delivery": None if conversation.delivery is None else conversation.delivery.envelope.hex(),
    }


def _sig(envelope: Envelope) -> str:
    return b64encode(envelope.signature).decode()


# -- a case ends -------------------------------------------------------------------------------------------


def give_back(books: CourtBooks, conversation_id: bytes, case: str, *, now: int) -> Conversation:
    """There is no verdict. The time that the case took is added to the timeout."""
    before = _held(books, conversation_id)
    after = _decided(before, "COURT_FALLBACK", before.requester, case, now)
    if after.timeout_at is not None:
        escrow = _known_escrow(books, after)
        longer = credits.extend(escrow, now - after.case_from)
        after = structs.replace(after, timeout_at=longer.ends_at)
        books.save_escrow(longer)
    return after


def settle(
    books: CourtBooks,
    conversation_id: bytes,
    case: str,
    winner: Winner | None,
    authority: Authority,
    *,
    now: int,
) -> Conversation:
    """There is a verdict. `winner` is None if both are at fault. `authority` is the verdict."""
    before = _held(books, conversation_id)
    if winner == "provider":
        after = _decided(before, "COURT_AWARD", before.provider, case, now)
    else:
        after = _decided(before, "COURT_REFUND", before.requester, case, now)
    if before.held:
        escrow = _known_escrow(books, before)
        by = escrow.requester  # in whose place the court decides
        if winner == "provider":
            posted = credits.approve(escrow, by=by, now=now, authority=authority)
        else:
            posted = credits.cancel(
                escrow, by=by, now=now, authority=authority, delivered=True, rejected=True, consented=False
            )
        books.save_posted(posted)
    if after.has_bids:
        books.remove_bids(after.id)
    return structs.replace(after, has_bids=False, timeout_at=None)


def _decided(before: Conversation, event: Event, sender: bytes, case: str, now: int) -> Conversation:
    step = Step(event=event, conversation_id=before.id, sender=sender, case=case)
    return structs.replace(decide(before, step), updated_at=now)


def _held(books: CourtBooks, conversation_id: bytes) -> Conversation:
    conversation = books.conversation(conversation_id)
    if conversation is None:
        raise LookupError(f"a case is about conversation {conversation_id.hex()}, which is not in the books")
    return conversation


def _known_escrow(books: CourtBooks, conversation: Conversation) -> Escrow:
    escrow = books.escrow(conversation.id)
    if escrow is None:
        raise LookupError(f"conversation {conversation.id.hex()} has credits put aside, and no escrow")
    return escrow
