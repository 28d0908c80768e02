"""What an agent knows of its deals and disputes: what stays, what is forgotten, and who is told."""

import asyncio
import gc
from dataclasses import dataclass, field

import pytest

from moothall.client import book
from moothall.client.book import Book
from moothall.errors import ConnectionLost, NotConnected

MAX_ENDED = 2


@dataclass(slots=True, weakref_slot=True, eq=False)
class Page:
    id: str
    is_over: bool = False
    size: int = 10
    waiting: set[asyncio.Future[None]] = field(default_factory=set)


def kept(pages: Book[Page], *ids: str, is_over: bool = False) -> None:
    for each in ids:
        pages.keep(Page(each, is_over))


def known(pages: Book[Page], *ids: str) -> list[str]:
    gc.collect()
    return [each for each in ids if each in pages]


def test_open_ones_stay_within_reason_and_others_as_long_as_somebody_holds_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(book, "MAX_OPEN", 3)
    pages: Book[Page] = Book(MAX_ENDED)
    held = Page("1")
    pages.keep(held)
    kept(pages, "2", "3", "4", "5")
    assert list(pages.open) == ["3", "4", "5"]
    assert known(pages, "1", "2", "3") == ["1", "3"]
    assert pages.get("1") is held


def test_the_latest_that_ended_are_still_known() -> None:
    pages: Book[Page] = Book(MAX_ENDED)
    kept(pages, "1", "2", "3", is_over=True)
    assert not pages.open
    assert known(pages, "1", "2", "3") == ["2", "3"]


def test_one_that_ends_is_open_no_longer() -> None:
    pages: Book[Page] = Book(MAX_ENDED)
    page = Page("1")
    pages.keep(page)
    page.is_over = True
    pages.keep(page)
    del page
    assert not pages.open
    assert known(pages, "1") == ["1"]


async def test_whoever_waits_hears_the_news_and_whoever_does_not_want_to_wait_longer_hears_of_none() -> None:
    pages: Book[Page] = Book(MAX_ENDED)
    page = Page("1")
    pages.keep(page)
    assert not await pages.news_of(page, 0.0)
    waiting = [asyncio.create_task(pages.news_of(page)) for _ in range(2)]
    await asyncio.sleep(0)
    pages.wake(page)
    assert await asyncio.gather(*waiting) == [True, True]
    assert not page.waiting


async def test_waiting_ends_when_the_agent_leaves_and_can_begin_anew() -> None:
    pages: Book[Page] = Book(MAX_ENDED)
    page = Page("1")
    pages.keep(page)
    waiting = asyncio.create_task(pages.news_of(page))
    await asyncio.sleep(0)
    pages.end(OSError("the cable is out"))
    with pytest.raises(ConnectionLost, match="cable is out"):
        await waiting
    with pytest.raises(NotConnected, match="what becomes of 1"):
        await pages.news_of(page)
    pages.begin()
    assert not await pages.news_of(page, 0.0)


def test_a_book_is_bounded_in_bytes_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(book, "MAX_BYTES", 100)
    pages: Book[Page] = Book(MAX_ENDED)
    for number in range(20):
        pages.keep(Page(str(number), size=30))
    assert list(pages.open) == ["17", "18", "19"]
    assert known(pages, *map(str, range(20))) == ["17", "18", "19"]
    assert [record.message.count("proposals()") for record in caplog.records] == [1]
    pages.keep(Page("large", size=1000))
    assert list(pages.open) == ["large"]


def test_an_entry_that_grew_or_ended_gives_its_room_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book, "MAX_BYTES", 100)
    pages: Book[Page] = Book(MAX_ENDED)
    page = Page("1", size=50)
    pages.keep(page)
    page.size = 80
    pages.keep(page)
    page.is_over = True
    pages.keep(page)
    kept(pages, *(f"open {number}" for number in range(10)))
    assert len(pages.open) == 10
    kept(pages, "2", "3", is_over=True)
    assert known(pages, "1", "2", "3") == ["1", "2", "3"]
    del page
    assert known(pages, "1", "2", "3") == ["2", "3"]
