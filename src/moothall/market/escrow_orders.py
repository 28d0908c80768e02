"""Orders about payments: the requester puts credits aside after the ACCEPT, and approves (mesh wire 10.3).

A node locks the credits at ACCEPT if its ledger has them. If it has not, the conversation goes on without cover,
and the requester may put the credits aside later. This runs inside a transaction, like a step (`conversing`).
"""

from typing import Final

from msgspec import structs

from moothall.errors import CreditsRefused
from moothall.market import credits
from moothall.market.conversations import Conversation, State
from moothall.market.credits import Authority, Escrow
from moothall.market.ledger import agent_account
from moothall.market.mesh_books import MeshBooks

_LOCKABLE: Final[tuple[State, ...]] = ("COMMITTED", "DELIVERED")


def put_aside(
    books: MeshBooks,
    conversation_id: bytes,
    requester: bytes,
    provider: bytes,
    amount: int,
    *,
    now: int,
    notary: bytes | None = None,
    notary_fee: int | None = None,
    timeout: int = 0,
) -> Escrow:
    """The escrow of the conversation. An order that is repeated changes nothing.

    `notary_fee` None is the default fee, and `timeout` 0 the default one, in milliseconds. Raises CreditsRefused:
    its `reason` is a name of mesh wire 10.2 where there is one for it.
    """
    if amount <= 0:
        raise CreditsRefused("An escrow holds more than nothing", "ZeroAmount")
    conversation = _known(books, conversation_id, requester, provider)
    if notary is not None and notary != conversation.notary:
        raise CreditsRefused(
            "This agent is not the notary of the conversation. Ask for one with NOTARIZE_BID before ACCEPT",
            "Unauthorized",
        )
    escrow = books.escrow(conversation_id)
    if escrow is not None:
        return _same(escrow, amount)
    if conversation.state not in _LOCKABLE or conversation.case is not None:
        raise CreditsRefused(
            f"The conversation is {conversation.state}. Credits are put aside after ACCEPT and before the approval",
            "Unauthorized",
        )
    if amount != conversation.amount:
        raise CreditsRefused(f"The parties agreed on {conversation.amount}, and this is {amount}")
    posted = credits.lock(
        conversation_id,
        requester,
        provider,
        amount,
        balance=books.balance(agent_account(requester)),
        now=now,
        authority=_word_of(requester, conversation),
        notary=conversation.notary,
        notary_fee=notary_fee,
        timeout=timeout,
    )
    books.save_posted(posted)
    after = structs.replace(conversation, held=amount, timeout_at=posted.escrow.ends_at, updated_at=now)
    books.save_conversation(after)
    return posted.escrow


def payable(
    books: MeshBooks,
    conversation_id: bytes,
    requester: bytes,
    provider: bytes,
    by: bytes,
    notary: bytes | None = None,
) -> Escrow:
    """The escrow that this agent may approve. One that was approved before is returned as it is.

    Raises CreditsRefused.
    """
    conversation = _known(books, conversation_id, requester, provider)
    escrow = books.escrow(conversation_id)
    if escrow is None:
        raise CreditsRefused(
            "Nothing is put aside for this conversation. Lock the payment first, or approve with a VERDICT",
            "Unauthorized",
        )
    if by not in (requester, escrow.notary) or (notary is not None and notary != escrow.notary):
        raise CreditsRefused("The requester or the assigned notary approves the payment", "Unauthorized")
    if escrow.settled not in (None, "approve"):
        raise CreditsRefused(f"The escrow was settled before ({escrow.settled})", "AlreadySettled")
    if escrow.settled is None and conversation.state != "DELIVERED":
        raise CreditsRefused(
            f"The conversation is {conversation.state}. A payment is approved after DELIVER", "Unauthorized"
        )
    return escrow


def _known(books: MeshBooks, conversation_id: bytes, requester: bytes, provider: bytes) -> Conversation:
    """The conversation of these two. Raises CreditsRefused."""
    conversation = books.conversation(conversation_id)
    if conversation is None or conversation.parties != (requester, provider):
        raise CreditsRefused("There is no conversation of this id with these parties", "Unauthorized")
    return conversation


def _same(escrow: Escrow, amount: int) -> Escrow:
    if escrow.settled is not None:
        raise CreditsRefused(f"The escrow was settled before ({escrow.settled})", "AlreadySettled")
    if escrow.amount != amount:
        raise CreditsRefused(f"{escrow.amount} is put aside already, and this is {amount}")
    return escrow


def _word_of(requester: bytes, conversation: Conversation) -> Authority:
    """The envelope of the requester that names the amount."""
    for authority in (conversation.acceptance, conversation.terms, conversation.offer):
        if authority is not None and authority.sender == requester:
            return authority
    raise CreditsRefused("The requester has not agreed to this amount", "Unauthorized")
