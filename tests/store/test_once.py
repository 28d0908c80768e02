"""One unit of work without a hall: it is committed, or nothing of it."""

from typing import NoReturn

import pytest

from moothall.market import credits
from moothall.store.books import StoreBooks
from moothall.store.once import look_once, run_once
from moothall.store.units import StoreFailed
from tests.store.support import NOW_MS, Place
from tests.store.test_credits import AT_A, A, deposit


def test_what_it_returns_is_returned_after_the_commit(place: Place) -> None:
    with place.books():
        pass
    with place.connected() as connection:
        entry = run_once(connection, place.url, deposit(5))
        assert run_once(connection, place.url, lambda books: books.balance(AT_A)) == 5
    with place.books() as books:
        assert books.posted(entry.deal, "deposit") == entry


def test_what_fails_leaves_nothing_behind(place: Place) -> None:
    def fail(books: StoreBooks) -> NoReturn:
        deposit(5)(books)
        books.journal()  # which writes
        raise LookupError

    def overdraw(books: StoreBooks) -> None:
        books.save_entry(credits.withdraw(A, 7, "w", balance=7, now=NOW_MS))

    with place.books() as books:
        deposit(6, "first")(books)
    with place.connected() as connection:
        with pytest.raises(LookupError):
            run_once(connection, place.url, fail)
        with pytest.raises(StoreFailed):
            run_once(connection, place.url, overdraw)
        assert run_once(connection, place.url, lambda books: books.balance(AT_A)) == 6


def test_a_look_does_not_hold_up_a_hall(place: Place) -> None:
    with place.books() as books:
        deposit(6)(books)

    def look(books: StoreBooks) -> int:
        before = books.balance(AT_A)
        with place.books() as others:
            deposit(1, "meanwhile")(others)
        assert books.balance(AT_A) == before
        return before

    with place.connected() as connection:
        assert look_once(connection, look) == 6
        assert look_once(connection, lambda books: books.balance(AT_A)) == 7
