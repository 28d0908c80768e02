"""Deals in the HTTP API: what LIST_PROPOSALS shows a party, with every signature and what it covers.

Deals of others are counts, unless the operator sets `public_deals`.
"""

from functools import partial
from typing import Annotated, Any

from msgspec import Meta, Struct, field

from moothall.errors import ProposalNotFound
from moothall.hall.api_pages import MAX_LIST, Page, Place, RecordList, RecordQuery, list_records
from moothall.hall.api_routes import Answer, ApiRoute, Query, ReadCost, Row, Stored, Viewer
from moothall.hall.services import Services
from moothall.market.api_books import ApiBooks
from moothall.market.books import Books
from moothall.market.deal_history import SignedStep, signed_steps
from moothall.market.desk import MarketDesk
from moothall.market.records import Proposal, Scalar, Status


class DealQuery(RecordQuery, frozen=True, kw_only=True):
    status: Annotated[Status, Meta(description="Only deals of this status.")] | None = None


class OneDeal(Query, frozen=True, kw_only=True):
    id: Annotated[str, Meta(max_length=256, description="The id of the deal.")]


class DealShown(Struct, kw_only=True):
    """`from` is the proposer and `to` the recipient. `case` is the court case that holds the deal."""

    id: str
    status: Status
    from_: str = field(name="from")
    to: str
    task: str
    amount: Scalar | None
    currency: Scalar | None
    terms: Any
    capability: str | None
    proposer_stake: int
    acceptor_stake: int
    created_at: int
    updated_at: int
    expires: int | None
    completed_at: int | None
    completed_by: str | None
    proof: Scalar | None
    disputed_at: int | None
    disputed_by: str | None
    dispute_reason: str | None
    reject_reason: Scalar | None
    case: str | None


class DealList(RecordList):
    """`counts` are of all deals of the hall, by status. `whose` says which of them `items` are."""

    items: list[DealShown]


class DealAnswer(Answer):
    deal: DealShown
    steps: list[SignedStep]


def routes(desk: MarketDesk) -> tuple[Row, ...]:
    def list_deals(hall: Services, viewer: Viewer, query: DealQuery) -> DealList | Stored:
        """The newest first."""
        return list_records(
            DealList,
            viewer,
            query,
            counts=desk.counts,
            is_public=hall.settings.public_deals,
            read=partial(_read, query),
            show=_shown,
        )

    return (
        ApiRoute(
            "deals",
            list_deals,
            DealQuery,
            DealList,
            "How many deals there are by status, and those that the viewer may see, the newest first.",
            ReadCost(store=500, store_each=20),
        ),
        ApiRoute(
            "deals/{id}",
            show_deal,
            OneDeal,
            DealAnswer,
            "One deal, with every signature and the bytes that it covers.",
            ReadCost(store=300),
        ),
    )


def show_deal(hall: Services, viewer: Viewer, query: OneDeal) -> Stored:
    is_public = hall.settings.public_deals

    def work(books: Books) -> DealAnswer:
        deal = books.proposal(query.id, hold=False)
        if deal is None or not (is_public or viewer.key in (deal.proposer, deal.recipient)):
            raise ProposalNotFound("There is no deal with this id that you may see")
        return DealAnswer(deal=_shown(deal), steps=signed_steps(deal))

    return Stored(work)


def _read(query: DealQuery, books: ApiBooks, party: bytes | None, after: Place | None) -> Page[Proposal]:
    return books.list_deals(party, status=query.status, after=after, limit=query.limit, most=MAX_LIST)


def _shown(deal: Proposal) -> DealShown:
    return DealShown(
        id=deal.id,
        status=deal.status,
        from_=deal.from_,
        to=deal.to,
        task=deal.task,
        amount=deal.amount,
        currency=deal.currency,
        terms=deal.terms,
        capability=deal.capability,
        proposer_stake=deal.proposer_stake,
        acceptor_stake=deal.acceptor_stake,
        created_at=deal.created_at,
        updated_at=deal.updated_at,
        expires=deal.expires,
        completed_at=deal.completed_at,
        completed_by=deal.completed_by,
        proof=deal.completion_proof,
        disputed_at=deal.disputed_at,
        disputed_by=deal.disputed_by,
        dispute_reason=deal.dispute_reason,
        reject_reason=deal.reject_reason,
        case=deal.frozen_by,
    )
