"""Credits in a store, on both engines: balances in step with the journal, escrows, and no credit spent twice."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moothall.errors import CreditsRefused, NoCover
from moothall.market import credit_books, credits, ledger
from moothall.market.conversations import Conversation
from moothall.market.credits import EXTERNAL, TREASURY, Authority, Escrow, Posted
from moothall.market.ledger import agent_account
from moothall.market.records import Entry
from moothall.store.books import SqlBooks, StoreBooks
from moothall.store.files import DataDirectory
from moothall.store.opening import prepare
from moothall.store.row_cache import RowCache
from moothall.store.rows import Stale
from moothall.store.transaction import Transaction
from tests.store.support import ALICE, BOB, CAROL, NOW_MS, Place, run

A, B, N = (agent.public.raw for agent in (ALICE, BOB, CAROL))
AT_A, AT_B, AT_N = (agent_account(key) for key in (A, B, N))
TALK: Final = bytes(range(16))


def authority(number: int, sender: bytes = A) -> Authority:
    return Authority(bytes([number]) * 32, sender, 2**64 - number)


def deposit(amount: int, reference: str = "r", key: bytes = A) -> Callable[[StoreBooks], Entry]:
    return lambda books: credit_books.deposit(books, key, amount, reference, now=NOW_MS)


def withdraw(amount: int, reference: str = "w", key: bytes = A) -> Callable[[StoreBooks], Entry]:
    return lambda books: credit_books.withdraw(books, key, amount, reference, now=NOW_MS + 1)


def lock(amount: int, talk: bytes = TALK, now: int = NOW_MS + 2) -> Callable[[StoreBooks], Posted]:
    def work(books: StoreBooks) -> Posted:
        posted = credits.lock(
            talk,
            A,
            B,
            amount,
            balance=books.balance(AT_A),
            now=now,
            authority=authority(1),
            notary=N,
            held=books.escrow(talk),
        )
        books.save_posted(posted)
        return posted

    return work


def settled(books: StoreBooks, how: Callable[[Escrow], Posted], talk: bytes = TALK) -> Posted:
    escrow = books.escrow(talk)
    if escrow is None:
        raise LookupError(talk)
    posted = how(escrow)
    books.save_posted(posted)
    return posted


def approve(books: StoreBooks, talk: bytes = TALK) -> Posted:
    return settled(
        books,
        lambda escrow: credits.approve(escrow, by=A, now=NOW_MS + 3, authority=authority(2)),
        talk,
    )


def cancel(books: StoreBooks, talk: bytes = TALK) -> Posted:
    return settled(
        books,
        lambda escrow: credits.cancel(
            escrow,
            by=A,
            now=NOW_MS + 3,
            authority=authority(3),
            delivered=False,
            rejected=False,
            consented=False,
        ),
        talk,
    )


def converse(place: Place, *talks: bytes) -> None:
    """The rows that escrows belong to."""
    with place.books() as books:
        for talk in talks or (TALK,):
            books.save_conversation(
                Conversation(
                    id=talk,
                    requester=A,
                    provider=B,
                    state="COMMITTED",
                    amount=1000,
                    offered_by=A,
                    max_rounds=2,
                    proposer=A,
                )
            )


def credit_problems(place: Place) -> list[str]:
    return [problem for problem in place.problems() if problem.startswith(("credits", "ledger"))]


def balances(books: StoreBooks, *accounts: str) -> list[int]:
    return [books.balance(account) for account in accounts]


# -- what a unit sees ------------------------------------------------------------------------------------


def test_a_balance_is_seen_in_its_unit_and_after_it(place: Place) -> None:
    with place.books() as books:
        assert books.balance(AT_A) == 0
        deposit(500)(books)
        assert balances(books, AT_A, EXTERNAL) == [500, -500]
        withdraw(200)(books)
        assert books.journal()  # which writes everything first
        assert balances(books, AT_A, EXTERNAL) == [300, -300]
    with place.books() as books:
        assert balances(books, AT_A, EXTERNAL, AT_B) == [300, -300, 0]
    assert credit_problems(place) == []


def test_units_of_one_transaction_see_each_other(place: Place) -> None:
    converse(place)
    with place.connected() as connection:
        prepare(connection, place.directory, place.log)
        transaction = Transaction(connection, RowCache())
        transaction.begin()
        for work in (deposit(5000), lock(1000), approve):
            books = transaction.unit()
            work(books)
            books.keep()
        undone = transaction.unit()
        withdraw(1)(undone)
        undone.undo()
        books = transaction.unit()
        assert balances(books, AT_A, AT_B, AT_N, TREASURY) == [3900, 995, 100, 5]
        transaction.write()
        transaction.commit()
    with place.books() as books:
        assert balances(books, AT_A, AT_B, AT_N, TREASURY) == [3900, 995, 100, 5]
    assert credit_problems(place) == []


def test_an_escrow_comes_back_as_it_was_saved(place: Place) -> None:
    converse(place)
    with place.books() as books:
        assert books.escrow(TALK) is None
        deposit(5000)(books)
        first = lock(1000)(books).escrow
        assert books.escrow(TALK) == first
    with place.books() as books:
        assert books.escrow(TALK) == first
        assert balances(books, AT_A, first.account) == [3900, 1100]
        paid = approve(books).escrow
    with place.books() as books:
        assert books.escrow(TALK) == paid
        assert balances(books, AT_A, AT_B, AT_N, TREASURY, first.account) == [3900, 995, 100, 5, 0]
        assert approve(books).entry is None  # again
        with pytest.raises(CreditsRefused, match="settled before"):
            cancel(books)
    assert place.select("SELECT is_open, version FROM escrows") == [(0, 2)]
    assert credit_problems(place) == []


def test_a_notary_that_is_named_late_is_saved_without_an_entry(place: Place) -> None:
    converse(place)
    escrow = Escrow(conversation_id=TALK, requester=A, provider=B, amount=5, created_at=NOW_MS, timeout=1000)
    with place.books() as books:
        deposit(5)(books)
        books.save_posted(
            credits.lock(TALK, A, B, 5, balance=5, now=NOW_MS, authority=authority(1), timeout=1000)
        )
    with place.books() as books:
        found = books.escrow(TALK)
        assert found == escrow
        books.save_escrow(credits.appoint(found, N))
    with place.books() as books:
        found = books.escrow(TALK)
        assert found is not None
        assert found.notary == N
    assert credit_problems(place) == []


@pytest.mark.parametrize("odd", ["", "\0", "\ud800", "ü" * 300])
def test_an_account_that_no_agent_can_have_holds_nothing(place: Place, odd: str) -> None:
    with place.books() as books:
        assert books.balance(odd) == 0
        assert books.journal(odd) == []
        assert books.posted(odd, "deposit") is None


# -- the journal -----------------------------------------------------------------------------------------


def test_the_journal_names_the_envelope_of_each_entry(place: Place) -> None:
    converse(place)
    with place.books() as books:
        deposit(5000, "bill")(books)
        lock(1000)(books)
        lock(2000)(books)
        approve(books)
    with place.books() as books:
        found = books.journal()
        deals = [(each.entry.deal, each.entry.operation, each.authority) for each in found]
        talk = f"mesh:{TALK.hex()}"
        assert deals == [
            (talk, "approve", authority(2)),
            (talk, "lock", authority(1)),
            (talk, "adjust:1", authority(1)),
            ("reference:bill", "deposit", None),
        ]
        assert all(sum(posting.amount for posting in each.entry.postings) == 0 for each in found)
        assert [each.entry.operation for each in books.journal(TREASURY)] == ["approve"]
        assert [each.entry.operation for each in books.journal(EXTERNAL)] == ["deposit"]
        assert books.posted("reference:bill", "deposit") == found[-1].entry
        assert books.posted("reference:bill", "withdraw") is None


@pytest.mark.parametrize("account", [None, AT_A])
def test_the_journal_is_read_page_by_page(place: Place, account: str | None) -> None:
    with place.books() as books:
        for number in range(20):
            credit_books.deposit(books, A, 1, f"r{number}", now=NOW_MS + number // 3)
    with place.books() as books:
        every = [each.entry for each in books.journal(account)]
        assert len(every) == 20
        assert [entry.at for entry in every] == sorted((entry.at for entry in every), reverse=True)
        paged: list[Entry] = []
        while page := books.journal(account, limit=3, before=paged[-1] if paged else None):
            paged += [each.entry for each in page]
        assert paged == every


# -- at the same time ------------------------------------------------------------------------------------


async def test_a_reference_counts_once_however_often_it_comes(place: Place) -> None:
    async with place.opened() as store:
        await asyncio.gather(*(run(store, deposit(500)) for _ in range(8)))
        assert await run(store, lambda books: books.balance(AT_A)) == 500
        with pytest.raises(CreditsRefused, match="Another deposit has the reference"):
            await run(store, deposit(501))
        with pytest.raises(CreditsRefused, match="Another deposit has the reference"):
            await run(store, deposit(500, key=B))
    assert credit_problems(place) == []


async def test_the_same_credits_are_spent_once(place: Place) -> None:
    async with place.opened() as store, place.opened() as other:
        await run(store, deposit(100))
        halls = (store, other)
        outcomes = await asyncio.gather(
            *(run(halls[number % 2], withdraw(30, f"w{number}")) for number in range(12)),
            return_exceptions=True,
        )
        assert sum(isinstance(outcome, Entry) for outcome in outcomes) == 3
        assert sum(isinstance(outcome, NoCover) for outcome in outcomes) == 9
        assert await run(store, lambda books: books.balance(AT_A)) == 10
    assert credit_problems(place) == []


async def test_an_escrow_is_settled_once_whichever_hall_does_it(place: Place) -> None:
    converse(place)
    async with place.opened() as store, place.opened() as other:
        await run(store, deposit(5000))
        await run(other, lock(1000))
        works = (approve, cancel) * 4
        outcomes = await asyncio.gather(
            *(run((store, other)[number % 2], work) for number, work in enumerate(works)),
            return_exceptions=True,
        )
        posted = [outcome for outcome in outcomes if isinstance(outcome, Posted)]
        assert sum(each.entry is not None for each in posted) == 1
        refused = [outcome for outcome in outcomes if not isinstance(outcome, Posted)]
        assert all(isinstance(each, CreditsRefused) and each.reason == "AlreadySettled" for each in refused)
        assert len({each.escrow.settled for each in posted}) == 1
    assert credit_problems(place) == []


async def test_many_deals_pay_the_treasury_at_once(place: Place) -> None:
    talks = [bytes([number]) * 16 for number in range(1, 17)]
    converse(place, *talks)

    def deal(talk: bytes) -> Callable[[StoreBooks], Any]:
        def work(books: StoreBooks) -> Posted:
            lock(1000, talk)(books)
            return approve(books, talk)

        return work

    async with place.opened() as store:
        await run(store, deposit(100_000))
        await asyncio.gather(*(run(store, deal(talk)) for talk in talks))
        assert await run(store, lambda books: books.balance(TREASURY)) == 16 * 5
    assert credit_problems(place) == []


def test_what_was_spent_meanwhile_is_not_spent_again(postgres: Place) -> None:
    """The balance was read, and another hall was faster: nothing of the unit is written."""
    with postgres.books() as books:
        deposit(100)(books)

    def overtaken() -> None:
        with postgres.books() as books:
            withdraw(80, "slow")(books)
            with postgres.books() as faster:
                withdraw(80, "fast")(faster)

    with pytest.raises(Stale):
        overtaken()
    with postgres.books(careful=True) as books:
        assert books.balance(AT_A) == 20
        with pytest.raises(NoCover):
            withdraw(80, "slow")(books)
    assert credit_problems(postgres) == []


def test_an_entry_below_zero_is_not_written(place: Place) -> None:
    """Even if no rule was asked."""
    with place.books() as books:
        deposit(100)(books)

    def overdraw(books: SqlBooks) -> None:
        books.save_entry(credits.withdraw(A, 101, "w", balance=1000, now=NOW_MS))

    def unit() -> None:
        with place.books() as books:
            overdraw(books)

    with pytest.raises(Stale):
        unit()
    assert place.select("SELECT count(*) FROM postings") == [(2,)]


# -- any order of units ----------------------------------------------------------------------------------

TALKS = [bytes([number]) * 16 for number in (1, 2, 3)]
units = st.one_of(
    st.builds(deposit, st.integers(0, 2000), st.sampled_from("abc")),
    st.builds(withdraw, st.integers(0, 2000), st.sampled_from("abc")),
    st.builds(lock, st.integers(0, 2000), st.sampled_from(TALKS)),
    st.builds(partial, st.just(approve), talk=st.sampled_from(TALKS)),
    st.builds(partial, st.just(cancel), talk=st.sampled_from(TALKS)),
)


@given(st.lists(st.lists(units, max_size=6), max_size=5))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_no_order_of_units_loses_a_credit(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Callable[[StoreBooks], Any]]]
) -> None:
    """Each batch is one transaction. What is refused leaves nothing behind."""
    place = Place(DataDirectory(tmp_path_factory.mktemp("store") / "data"), "")
    converse(place, *TALKS)
    cache = RowCache()
    with place.connected() as connection:
        for batch in batches:
            transaction = Transaction(connection, cache)
            transaction.begin()
            for work in batch:
                books = transaction.unit()
                try:
                    work(books)
                except (CreditsRefused, LookupError):
                    books.undo()
                else:
                    books.keep()
            transaction.write()
            transaction.commit()
    assert credit_problems(place) == []
    with place.books() as books:
        totals = books.totals()
        assert sum(totals.values()) == 0
        assert all(amount >= 0 for holder, amount in totals.items() if holder != EXTERNAL)
        journal = [each.entry for each in books.journal()]
        assert {
            account: amount for account, amount in ledger.balances(journal, "credits").items() if amount
        } == dict(place.select("SELECT account, amount FROM balances WHERE amount <> 0"))
