"""Conversations and credits of the mesh in the HTTP API: what an agent that proved its key can ask the hall.

Conversations of others are counts, unless the operator sets `public_deals`. The ledger is shown to operators; an
agent sees its own entries.
"""

from functools import partial
from typing import Annotated

from msgspec import Meta, Struct

from moothall.errors import InvalidMessage, ProposalNotFound
from moothall.hall.api_pages import (
    MAX_LIST,
    Page,
    Place,
    RecordList,
    RecordQuery,
    Whose,
    cut,
    list_records,
)
from moothall.hall.api_routes import (
    Answer,
    ApiRoute,
    Audience,
    Listing,
    Paged,
    Query,
    ReadCost,
    Row,
    Stored,
    Viewer,
)
from moothall.hall.mesh.frames import ConversationSummary, EscrowSummary, Logged
from moothall.hall.services import Services
from moothall.market import mesh_answers
from moothall.market.api_books import MeshApiBooks
from moothall.market.conversations import Conversation, State
from moothall.market.credit_books import JournalEntry
from moothall.market.ledger import agent_account
from moothall.market.mesh_desk import MeshDesk
from moothall.market.records import Posting


class ConversationQuery(RecordQuery, frozen=True, kw_only=True):
    state: Annotated[State, Meta(description="Only conversations in this state.")] | None = None


class OneConversation(Query, frozen=True, kw_only=True):
    id: Annotated[str, Meta(pattern="^[0-9a-f]{32}$", description="The id of the conversation, in hex.")]


class LedgerQuery(Paged, frozen=True, kw_only=True):
    whose: (
        Annotated[Whose, Meta(description="Entries of the viewer, or all, which only operators see.")] | None
    ) = None


class ConversationList(RecordList):
    """`counts` are of all conversations of the hall, by state. `whose` says which of them `items` are."""

    items: list[ConversationSummary]


class ConversationAnswer(Answer):
    """`history` are its latest envelopes, oldest first; `more` says that there are older ones."""

    conversation: ConversationSummary
    offered_by: str
    verdict: str | None
    consented: bool
    case: str | None
    escrow: EscrowSummary | None
    history: list[Logged]
    more: bool


class LedgerEntry(Struct, kw_only=True):
    """`envelope` is the hash of the one that authorised it; the operator's entries have none."""

    deal: str
    operation: str
    at: int
    postings: list[Posting]
    envelope: str | None


class Ledger(Listing):
    """Amounts are millionths. `balance` is the viewer's own; `totals` are shown to operators."""

    whose: Whose
    balance: int | None
    totals: dict[str, int] | None
    items: list[LedgerEntry]


def routes(desk: MeshDesk) -> tuple[Row, ...]:
    def list_conversations(
        hall: Services, viewer: Viewer, query: ConversationQuery
    ) -> ConversationList | Stored:
        """The newest first."""
        return list_records(
            ConversationList,
            viewer,
            query,
            counts=desk.counts,
            is_public=hall.settings.public_deals,
            read=partial(_read, query),
            show=lambda conversation: mesh_answers.summary(conversation, viewer.key),
        )

    return (
        ApiRoute(
            "mesh/conversations",
            list_conversations,
            ConversationQuery,
            ConversationList,
            "How many conversations there are by state, and those that the viewer may see, the newest first.",
            ReadCost(store=500, store_each=20),
        ),
        ApiRoute(
            "mesh/conversations/{id}",
            show_conversation,
            OneConversation,
            ConversationAnswer,
            "One conversation, with its escrow and its envelopes.",
            ReadCost(store=1000),
        ),
        ApiRoute(
            "mesh/ledger",
            show_ledger,
            LedgerQuery,
            Ledger,
            "Entries of the ledger of credits, the newest first.",
            ReadCost(store=500, store_each=30),
            audience=Audience.AGENTS,
        ),
    )


def _read(
    query: ConversationQuery, books: MeshApiBooks, party: bytes | None, after: Place | None
) -> Page[Conversation]:
    return books.list_conversations(party, state=query.state, after=after, limit=query.limit, most=MAX_LIST)


def show_conversation(hall: Services, viewer: Viewer, query: OneConversation) -> Stored:
    is_public, conversation_id = hall.settings.public_deals, bytes.fromhex(query.id)

    def work(books: MeshApiBooks) -> ConversationAnswer:
        conversation = books.conversation(conversation_id, hold=False)
        if conversation is None or not (is_public or viewer.key in conversation.participants):
            raise ProposalNotFound("There is no conversation with this id that you may see")
        return _answer(books, conversation, viewer.key)

    return Stored(work)


def _answer(books: MeshApiBooks, conversation: Conversation, viewer: bytes | None) -> ConversationAnswer:
    shown = mesh_answers.shown(books, conversation, viewer)
    return ConversationAnswer(
        conversation=shown.conversation,
        offered_by=shown.offered_by,
        verdict=shown.verdict,
        consented=shown.consented,
        case=shown.case,
        escrow=shown.escrow,
        history=list(shown.history),
        more=shown.more,
    )


def show_ledger(hall: Services, viewer: Viewer, query: LedgerQuery) -> Stored:
    whose: Whose = query.whose or ("all" if viewer.is_operator else "mine")
    if whose == "all" and not viewer.is_operator:
        raise InvalidMessage("`whose`: only operators see all entries")
    if whose == "mine" and viewer.key is None:
        raise InvalidMessage("`whose`: an operator without a token has no entries of its own")
    account = None if viewer.key is None or whose == "all" else agent_account(viewer.key)
    place = _read_entry(query.after)

    def work(books: MeshApiBooks) -> Ledger:
        before = None if place is None else books.posted(*place)
        if place is not None and before is None:
            raise InvalidMessage("`after` names no entry; it must be the `next` of an answer from this route")
        found = books.journal(account, limit=query.limit + 1, before=before)
        page, more = cut(found, query.limit, _place)
        return Ledger(
            whose=whose,
            balance=None if account is None else books.balance(account),
            totals=books.totals() if account is None else None,
            items=[_entry(each) for each in page],
            next=more,
        )

    return Stored(work)


def _entry(listed: JournalEntry) -> LedgerEntry:
    entry, authority = listed.entry, listed.authority
    return LedgerEntry(
        deal=entry.deal,
        operation=entry.operation,
        at=entry.at,
        postings=list(entry.postings),
        envelope=None if authority is None else authority.envelope.hex(),
    )


def _place(listed: JournalEntry) -> str:
    return f"{listed.entry.operation}-{listed.entry.deal}"


def _read_entry(after: str | None) -> tuple[str, str] | None:
    """The deal and the operation of the last entry of a page."""
    if after is None:
        return None
    operation, _, deal = after.partition("-")
    return deal, operation
