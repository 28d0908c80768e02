"""Cases in the HTTP API: what LIST_CASES and GET_CASE show parties and arbiters.

Cases of others are counts, unless the operator sets `public_cases`. Then all see the file of every case. While it
is open, strangers see it without the evidence: an arbiter that declined must not find it there.
"""

from functools import partial
from typing import Annotated

from msgspec import Meta, Raw, Struct

from moothall.court import clerk
from moothall.court.api_books import CourtApiBooks
from moothall.court.casefile import Case
from moothall.court.desk import CourtDesk
from moothall.court.phases import Phase
from moothall.court.records import Dispute, Part, SlotStatus, Verdict
from moothall.errors import DisputeNotFound, DisputeNotParty
from moothall.hall.api_pages import MAX_LIST, Page, Place, RecordList, RecordQuery, list_records
from moothall.hall.api_routes import ApiRoute, Query, ReadCost, Row, Stored, Viewer
from moothall.hall.services import Services


class CaseQuery(RecordQuery, frozen=True, kw_only=True):
    phase: Annotated[Phase, Meta(description="Only cases in this phase.")] | None = None


class OneCase(Query, frozen=True, kw_only=True):
    id: Annotated[str, Meta(max_length=256, description="The id of the case.")]


class CaseShown(Struct, kw_only=True):
    """`role` is what the viewer is in the case, and `slot` its seat on the panel."""

    id: str
    deal: str
    phase: Phase
    disputant: str
    respondent: str
    reason: str
    arbiters: list[str]
    role: Part
    slot: SlotStatus | None
    filed_at: int
    deadline: int | None
    closed_at: int | None
    verdict: Verdict | None


class CaseList(RecordList):
    """`counts` are of all cases of the hall, by phase. `whose` says which of them `items` are."""

    items: list[CaseShown]


def routes(desk: CourtDesk) -> tuple[Row, ...]:
    def list_cases(hall: Services, viewer: Viewer, query: CaseQuery) -> CaseList | Stored:
        """The newest first."""
        return list_records(
            CaseList,
            viewer,
            query,
            counts=desk.counts,
            is_public=hall.settings.public_cases,
            read=partial(_read, query),
            show=partial(_shown, viewer.key),
        )

    return (
        ApiRoute(
            "cases",
            list_cases,
            CaseQuery,
            CaseList,
            "How many cases there are by phase, and those that the viewer may see, the newest first.",
            ReadCost(store=500, store_each=20),
        ),
        ApiRoute(
            "cases/{id}",
            show_case,
            OneCase,
            Case,
            "The file of one case, as `moothall court verify` takes it.",
            ReadCost(store=1500),
        ),
    )


def show_case(hall: Services, viewer: Viewer, query: OneCase) -> Stored:
    is_public = hall.settings.public_cases

    def work(books: CourtApiBooks) -> Raw:
        try:
            return clerk.get_case(books, query.id, None, viewer.key, is_public=is_public)
        except DisputeNotParty:
            raise DisputeNotFound("There is no such dispute") from None

    return Stored(work)


def _read(
    query: CaseQuery, books: CourtApiBooks, part_of: bytes | None, after: Place | None
) -> Page[Dispute]:
    return books.list_cases(part_of, phase=query.phase, after=after, limit=query.limit, most=MAX_LIST)


def _shown(viewer: bytes | None, case: Dispute) -> CaseShown:
    number = None if viewer is None else case.slot_of(viewer)
    return CaseShown(
        id=case.id,
        deal=case.proposal_id,
        phase=case.phase,
        disputant=case.disputant_address,
        respondent=case.respondent_address,
        reason=case.reason,
        arbiters=[slot.address for slot in case.slots],
        role="stranger" if viewer is None else case.part_of(viewer),
        slot=None if number is None else case.slots[number].status,
        filed_at=case.filed_at,
        deadline=case.deadline,
        closed_at=case.closed_at,
        verdict=case.verdict,
    )
