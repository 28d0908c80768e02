"""What workers have spent, on both engines."""

from moothall.hall.spending import Report, Sums, settle
from moothall.store.spending import DAYS_KEPT, spending_problems
from moothall.wire.agentchat.client import MAX_TOKENS
from tests.store.support import ALICE, BOB, Place

A, B = ALICE.public.raw, BOB.public.raw


def test_sums_and_last_reports_are_kept(place: Place) -> None:
    with place.books() as books:
        assert books.last_reports([A, B]) == {}
        assert settle(books, [(A, Report("s1", 70)), (B, Report("", 5))], 10) == Sums(10, {A: 70, B: 5}, 75)
    with place.books() as books:
        assert books.last_reports([A, B]) == {A: Report("s1", 70), B: Report("", 5)}
        assert settle(books, [(A, Report("s1", 100)), (A, Report("s2", 1))], 10) == Sums(10, {A: 101}, 106)
        assert settle(books, [(A, Report("s2", 1))], 10) == Sums(10, {A: 101}, 106)  # nothing new
        assert settle(books, [(A, Report("s2", 1))], 11) == Sums(11, {}, 0)
        assert settle(books, [(A, Report("s2", 4))], 11) == Sums(11, {A: 3}, 3)
    with place.books() as books:
        assert books.spent(10, [A, b"unknown"]) == Sums(10, {A: 101}, 106)
        assert books.most_spent(10, 1) == ([(A, 101)], 2)
        assert books.most_spent(9, 5) == ([], 0)


def test_sums_stop_at_their_bound(place: Place) -> None:
    with place.books() as books:
        for session in ("s1", "s2", "s3"):
            most = Report(session, MAX_TOKENS)
            assert settle(books, [(A, most), (B, most)], 1) == Sums(
                1, {A: MAX_TOKENS, B: MAX_TOKENS}, MAX_TOKENS
            )
    with place.connected() as connection:
        assert list(spending_problems(connection)) == []


def test_a_month_is_kept(place: Place) -> None:
    with place.books() as books:
        for day in (100, 101, 100 + DAYS_KEPT, 101 + DAYS_KEPT):
            settle(books, [(A, Report("s", day))], day)
    assert place.select("SELECT day FROM spending ORDER BY day") == [(101,), (131,), (132,)]
    assert place.select("SELECT day FROM spending_days ORDER BY day") == [(101,), (131,), (132,)]
    assert place.select("SELECT session, spent FROM spending_reports") == [("s", 132)]


def test_keys_that_have_spent_nothing_in_a_month_are_forgotten(place: Place) -> None:
    with place.books() as books:
        settle(books, [(A, Report("s", 5)), (B, Report("s", 5))], 100)
        settle(books, [(B, Report("s", 7))], 101)
        settle(books, [(B, Report("s", 8))], 101 + DAYS_KEPT)
        assert books.last_reports([A, B]) == {B: Report("s", 8)}


def test_many_keys_at_once(place: Place) -> None:
    keys = [number.to_bytes(32) for number in range(1, 301)]
    with place.books() as books:
        sums = settle(books, [(key, Report("", number)) for number, key in enumerate(keys)], 1)
        assert sums.total == sum(range(300))
        assert len(books.last_reports(keys)) == 300
        assert len(books.spent(1, keys).by_key) == 299


def test_a_day_that_does_not_add_up_is_a_problem(place: Place) -> None:
    with place.books() as books:
        settle(books, [(A, Report("", 5))], 20_000)
        books.spend(20_000, {}, {})
    with place.connected() as connection:
        connection.execute("UPDATE spending_days SET tokens = 7")
    with place.connected() as connection:
        (problem,) = spending_problems(connection)
    assert problem == "spending on 2024-10-04: the keys have 5 tokens, the day has 7"
