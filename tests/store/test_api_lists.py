"""Lists by time for the API, on both engines: filters, pages, and how many rows a list looks at."""

from collections.abc import Callable
from typing import Any

import pytest

from moothall.court.records import Dispute
from moothall.errors import InvalidMessage
from moothall.hall.api_pages import Page
from moothall.hall.api_pages import Place as Cursor
from moothall.market.conversations import Conversation
from moothall.market.records import RatingPoint
from moothall.store import api_lists
from moothall.store.books import SqlBooks
from tests.store.support import ALICE, BOB, CAROL, NOW_MS, Place
from tests.store.test_books import audit, offer

ALICES, BOBS, CAROLS = (agent.public.raw for agent in (ALICE, BOB, CAROL))
MOST = 1 << 20

Read = Callable[[SqlBooks, Cursor | None], Page[Any]]


def walked(place: Place, read: Read) -> list[Any]:
    """All pages of a list, each in a unit of its own. It must come to an end."""
    found: list[Any] = []
    after: Cursor | None = None
    for _ in range(50):
        with place.books() as books:
            page = read(books, after)
        found += page.items
        if page.next is None:
            return found
        after = page.next
    raise AssertionError("the list does not end")


def deals(party: bytes | None, status: Any = None, limit: int = 2, most: int = MOST) -> Read:
    return lambda books, after: books.list_deals(party, status=status, after=after, limit=limit, most=most)


def numbers(listed: list[Any]) -> list[int]:
    return [int(each.id.rpartition("_")[2]) for each in listed]


def test_deals_are_listed_newest_first_by_party_and_status(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    statuses = ["completed", "pending", "accepted", "rejected", "completed", "expired", "completed"]
    parties = [(ALICES, BOBS), (BOBS, ALICES), (BOBS, CAROLS)]
    with place.books() as books:
        for number, status in enumerate(statuses):
            proposer, recipient = parties[number % 3]
            deal = offer(number, proposer=proposer, recipient=recipient, status=status)
            books.save(deal, audit(deal.id))
    assert numbers(walked(place, deals(None))) == [6, 5, 4, 3, 2, 1, 0]
    assert numbers(walked(place, deals(None, "completed", limit=1))) == [6, 4, 0]
    assert numbers(walked(place, deals(ALICES))) == [6, 4, 3, 1, 0]
    assert numbers(walked(place, deals(CAROLS))) == [5, 2]
    assert numbers(walked(place, deals(ALICES, "completed", limit=1))) == [6, 4, 0]
    assert numbers(walked(place, deals(None, most=1, limit=100))) == [6, 5, 4, 3, 2, 1, 0]
    monkeypatch.setattr(api_lists, "MAX_SCANNED", 2)
    assert numbers(walked(place, deals(ALICES, "completed", limit=2))) == [6, 4, 0]
    with place.books() as books:
        page = books.list_deals(ALICES, status="rejected", after=None, limit=2, most=MOST)
        assert (page.items, page.next is None) == ([], False)


def dispute(number: int, by: bytes, against: bytes, phase: Any) -> Dispute:
    return Dispute(
        id=f"disp_{number}",
        proposal_id=f"prop_{number}",
        disputant=by,
        respondent=against,
        disputant_address="@a",
        respondent_address="@b",
        reason="late",
        commitment="c",
        intent_sig="s",
        server_nonce="n",
        phase=phase,
        deadline=None,
        filed_at=NOW_MS + number // 2,
    )


def test_cases_are_listed_newest_first_by_part_and_phase(place: Place) -> None:
    phases = ["resolved", "evidence", "fallback", "resolved", "reveal_pending"]
    with place.books() as books:
        for number, phase in enumerate(phases):
            by, against = ((ALICES, BOBS), (BOBS, CAROLS))[number % 2]
            deal = offer(number, proposer=by, recipient=against, status="accepted")
            books.save(deal, dispute(number, by, against, phase), audit(deal.id))

    def cases(key: bytes | None, phase: Any = None) -> list[int]:
        return numbers(
            walked(
                place,
                lambda books, after: books.list_cases(key, phase=phase, after=after, limit=2, most=MOST),
            )
        )

    assert cases(None) == [4, 3, 2, 1, 0]
    assert cases(None, "resolved") == [3, 0]
    assert cases(ALICES) == [4, 2, 0]
    assert cases(CAROLS, "resolved") == [3]


def test_conversations_are_listed_newest_first_by_party_and_state(place: Place) -> None:
    states: list[Any] = ["CLOSED", "NEGOTIATING", "COMMITTED", "CLOSED", "RESOLVED"]
    with place.books() as books:
        for number, state in enumerate(states):
            requester, provider = ((ALICES, BOBS), (BOBS, CAROLS))[number % 2]
            books.save_conversation(
                Conversation(
                    id=bytes([number]) * 16,
                    requester=requester,
                    provider=provider,
                    state=state,
                    amount=1,
                    offered_by=requester,
                    max_rounds=2,
                    created_at=NOW_MS + number // 2,
                    updated_at=NOW_MS,
                )
            )

    def talks(key: bytes | None, state: Any = None) -> list[int]:
        found = walked(
            place,
            lambda books, after: books.list_conversations(key, state=state, after=after, limit=2, most=MOST),
        )
        return [conversation.id[0] for conversation in found]

    assert talks(None) == [4, 3, 2, 1, 0]
    assert talks(None, "CLOSED") == [3, 0]
    assert talks(ALICES) == [4, 2, 0]
    assert talks(CAROLS, "CLOSED") == [3]
    with place.books() as books, pytest.raises(InvalidMessage, match="`after`"):
        books.list_conversations(None, state=None, after=Cursor(1, "odd"), limit=2, most=MOST)


def test_steps_of_a_rating_go_on_where_they_ended(place: Place) -> None:
    with place.books() as books:
        points = [RatingPoint(key=ALICES, at=number, rating=1200 + number, why="w") for number in range(5)]
        books.save(*points, RatingPoint(key=BOBS, at=9, rating=1300, why="w"), audit("x"))
    with place.books() as books:
        first = books.rating_steps(ALICES, before=None, limit=3)
        then = books.rating_steps(ALICES, before=first[-1].number, limit=3)
    assert [step.rating for step in (*first, *then)] == [1204, 1203, 1202, 1201, 1200]
