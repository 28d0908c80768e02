"""Every entry sums to zero, or there is no entry; so each book does."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.market import ledger
from moothall.market.records import Book, Entry, Posting
from tests.identity.vectors import ALICE

amounts = st.integers(-(10**6), 10**6)
movements = st.lists(st.tuples(st.sampled_from(("a", "b", "c", "burn")), amounts))
books = st.sampled_from(get_args(Book))


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    """Of few deals and operations, so that some of them come twice."""
    moves = draw(movements)
    balanced = [*moves, ("mint", -sum(amount for _, amount in moves))]
    deal, operation = draw(st.sampled_from(("x", "y"))), draw(st.sampled_from(("lock", "settle")))
    return ledger.entry(draw(books), deal, operation, draw(st.integers(0, 9)), balanced)


@given(movements)
def test_an_entry_is_balanced_and_says_each_account_once(moves: list[tuple[str, int]]) -> None:
    balanced = [*moves, ("mint", -sum(amount for _, amount in moves))]
    made = ledger.entry("elo", "deal", "settle", 5, balanced)
    assert sum(posting.amount for posting in made.postings) == 0
    accounts = [posting.account for posting in made.postings]
    assert len(accounts) == len(set(accounts))
    assert all(posting.amount for posting in made.postings)
    for posting in made.postings:
        assert posting.amount == sum(amount for account, amount in balanced if account == posting.account)


@given(movements.filter(lambda moves: sum(amount for _, amount in moves) != 0))
def test_what_does_not_balance_is_no_entry(moves: list[tuple[str, int]]) -> None:
    with pytest.raises(ValueError, match="sum to zero"):
        ledger.entry("elo", "deal", "settle", 5, moves)


def test_an_opening_is_minted_once_per_agent() -> None:
    first = ledger.opening(ALICE.public.raw, 1200, 5)
    again = ledger.opening(ALICE.public.raw, 1300, 9)
    account = ledger.agent_account(ALICE.public.raw)
    assert account == f"agent:{ALICE.public.raw.hex()}"
    assert (first.deal, first.operation) == (again.deal, again.operation) == (account, "opening")
    assert ledger.balances([first, again], "elo") == {"mint": -1200, account: 1200}
    assert ledger.balances([first, again], "credits") == {}


def test_balances_add_up_over_deals() -> None:
    one = Entry(
        book="credits", deal="x", operation="lock", postings=(Posting("a", -5), Posting("b", 5)), at=1
    )
    two = Entry(
        book="credits", deal="x", operation="release", postings=(Posting("a", 3), Posting("b", -3)), at=2
    )
    assert ledger.balances([one, two, one], "credits") == {"a": -2, "b": 2}


@given(st.lists(entries()), books)
def test_each_book_sums_to_zero_after_any_sequence(sequence: list[Entry], book: Book) -> None:
    found = ledger.balances(sequence, book)
    assert sum(found.values()) == 0
    # What happens in the other book changes nothing in this one.
    assert found == ledger.balances([each for each in sequence if each.book == book], book)
