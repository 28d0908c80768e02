"""Answers to what agents of the mesh ask the hall: conversations, reputations, balances (docs/wire-mesh.md).

These run where the books are, inside a transaction. What they return are text frames.
"""

from base64 import b64encode
from typing import Final

from moothall.errors import OutOfOrder
from moothall.hall.mesh.frames import (
    MAX_PAGE,
    MAX_PAGE_BYTES,
    Answer,
    AskBalance,
    AskReputation,
    Balance,
    Conversations,
    ConversationShown,
    ConversationSummary,
    EscrowSummary,
    ListConversations,
    Logged,
    Question,
    Reputation,
    ShowConversation,
)
from moothall.market.conversations import Conversation
from moothall.market.credits import Escrow
from moothall.market.desk_books import DeskBooks
from moothall.market.feedback import vector_at
from moothall.market.ledger import agent_account
from moothall.wire.mesh.envelope import decode
from moothall.wire.mesh.keccak import keccak256

MAX_RECORDS: Final = 1024 * 1024  # bytes of conversations that are read for one list


def answer(books: DeskBooks, key: bytes, question: Question, now: int) -> Answer:
    match question:
        case ListConversations():
            return list_conversations(books, key, question)
        case ShowConversation():
            return show_conversation(books, key, bytes.fromhex(question.conversation_id))
        case AskReputation():
            return reputation(books, key, question, now)
        case AskBalance():
            return balance(books, key)
        case _:
            raise TypeError(f"{type(question).__name__} is not a question")


def list_conversations(books: DeskBooks, key: bytes, question: ListConversations) -> Conversations:
    before = None
    if question.before is not None:
        before = _own(books, key, bytes.fromhex(question.before))
    page = books.conversations_of(
        key, limit=question.limit, open_only=question.open_only, before=before, most=MAX_RECORDS
    )
    has_more = page.truncated or len(page.items) == question.limit
    return Conversations(
        conversations=tuple(summary(each, key) for each in page.items),
        before=page.items[-1].id.hex() if has_more else None,
    )


def show_conversation(books: DeskBooks, key: bytes, conversation_id: bytes) -> ConversationShown:
    return shown(books, _own(books, key, conversation_id), key)


def shown(books: DeskBooks, conversation: Conversation, viewer: bytes | None) -> ConversationShown:
    escrow = books.escrow(conversation.id)
    history = books.latest_logged(conversation.id, limit=MAX_PAGE, most=MAX_PAGE_BYTES)
    return ConversationShown(
        conversation=summary(conversation, viewer),
        offered_by=conversation.offered_by.hex(),
        verdict=conversation.verdict,
        consented=conversation.consented,
        case=conversation.case,
        escrow=None if escrow is None else _escrow(escrow),
        history=tuple(_logged(each.envelope) for each in history.items),
        more=history.truncated,
    )


def reputation(books: DeskBooks, key: bytes, question: AskReputation, now: int) -> Reputation:
    about = key if question.agent_id is None else bytes.fromhex(question.agent_id)
    standing = books.standing(about)
    vector = vector_at(standing, now)
    return Reputation(
        agent_id=about.hex(),
        rating=standing.rating,
        transactions=standing.transactions,
        reliability=vector.reliability,
        cooperation=vector.cooperation,
        notary_accuracy=vector.notary_accuracy,
        total_tasks=vector.total_tasks,
        total_notarized=vector.total_notarized,
        total_disputes=vector.total_disputes,
        last_active_epoch=vector.last_active_epoch,
    )


def balance(books: DeskBooks, key: bytes) -> Balance:
    return Balance(agent_id=key.hex(), balance=books.balance(agent_account(key)))


def summary(conversation: Conversation, viewer: bytes | None) -> ConversationSummary:
    """As a participant sees it: FEEDBACK ends it for the agent that sends it. Others see when it ended for both."""
    return ConversationSummary(
        conversation_id=conversation.id.hex(),
        state=conversation.state if viewer is None else conversation.state_of(viewer),
        requester=conversation.requester.hex(),
        provider=conversation.provider.hex(),
        amount=conversation.amount,
        notary=None if conversation.notary is None else conversation.notary.hex(),
        deadline=conversation.deadline,
        elsewhere=conversation.elsewhere,
        created_at=conversation.created_at,
        updated_at=conversation.updated_at,
    )


def _own(books: DeskBooks, key: bytes, conversation_id: bytes) -> Conversation:
    conversation = books.conversation(conversation_id, hold=False)
    if conversation is None or key not in conversation.participants:
        raise OutOfOrder("You have no conversation of this id")
    return conversation


def _escrow(escrow: Escrow) -> EscrowSummary:
    return EscrowSummary(
        amount=escrow.amount,
        notary_fee=escrow.notary_fee,
        created_at=escrow.created_at,
        timeout=escrow.timeout,
        settled=escrow.settled,
    )


def _logged(raw: bytes) -> Logged:
    envelope = decode(raw)
    return Logged(
        msg_type=envelope.msg_type.name,
        sender=envelope.sender.hex(),
        timestamp=envelope.timestamp,
        hash=keccak256(raw).hex(),
        envelope=b64encode(raw).decode(),
    )
