"""The checker of deals: it takes the books of a real hall, and finds each change that someone made to them."""

import asyncio
import copy
import os
from collections.abc import Callable

import pytest

from moothall.identity import PrivateKey
from moothall.market.ledger import escrow_account
from moothall.store.files import DataDirectory
from tests.store.support import Place
from tests.support.deal_checks import Books, check_books
from tests.support.dealers import Diary, Ring, Told
from tests.support.server import running_hall

STEPS = 40


@pytest.fixture(scope="module")
def dealt(tmp_path_factory: pytest.TempPathFactory) -> tuple[Books, Diary]:
    folder = tmp_path_factory.mktemp("dealt")
    ring = Ring([PrivateKey(os.urandom(32)) for _ in range(4)])

    async def deal(url: str) -> None:
        await ring.come_in(url)
        ring.diary.strike_after(STEPS, ring.stop)
        await ring.deal()
        await ring.go()

    with running_hall(folder, "--no-limits") as hall:
        asyncio.run(deal(hall.url))
    return Books(Place(DataDirectory(folder / "data"), "")), ring.diary


def test_the_books_of_a_hall_are_good(dealt: tuple[Books, Diary]) -> None:
    books, diary = dealt
    assert len(diary.told) >= STEPS
    check_books(books, diary)


def _told(diary: Diary, kind: str) -> Told:
    return next(told for told in diary.told if told.kind == kind)


def lose_a_deal(books: Books, diary: Diary) -> None:
    deal = _told(diary, "PROPOSAL").deal
    del books.deals[deal]
    books.audit = [row for row in books.audit if row.deal != deal]


def lose_a_step(books: Books, diary: Diary) -> None:
    deal = _told(diary, "COMPLETE").deal
    books.deals[deal]["status"] = "accepted"


def double_a_deal(books: Books, diary: Diary) -> None:
    one, other = list(books.deals.values())[:2]
    other["task"] = one["task"]


def double_a_decision(books: Books, diary: Diary) -> None:
    books.audit.append(books.audit[0])


def do_what_was_refused(books: Books, diary: Diary) -> None:
    told = _told(diary, "ACCEPT")
    diary.refused.add((told.deal, told.kind))


def do_what_nobody_asked_for(books: Books, diary: Diary) -> None:
    diary.asked.discard((_told(diary, "ACCEPT").deal, "ACCEPT"))


def keep_half_of_an_entry(books: Books, diary: Diary) -> None:
    books.postings.pop()


def keep_a_stake(books: Books, diary: Diary) -> None:
    deal = _told(diary, "COMPLETE").deal
    books.postings.append((deal, "accept", escrow_account(deal), 5))
    books.postings.append((deal, "accept", "nobody", -5))


def forget_a_settlement(books: Books, diary: Diary) -> None:
    deal = _told(diary, "COMPLETE").deal
    books.postings = [posting for posting in books.postings if posting[0] != deal]


@pytest.mark.parametrize(
    "change",
    [
        lose_a_deal,
        lose_a_step,
        double_a_deal,
        double_a_decision,
        do_what_was_refused,
        do_what_nobody_asked_for,
        keep_half_of_an_entry,
        keep_a_stake,
        forget_a_settlement,
    ],
)
def test_a_change_is_found(dealt: tuple[Books, Diary], change: Callable[[Books, Diary], None]) -> None:
    books, diary = copy.deepcopy(dealt[0]), Diary(set(dealt[1].asked), list(dealt[1].told))
    change(books, diary)
    with pytest.raises(AssertionError):
        check_books(books, diary)
