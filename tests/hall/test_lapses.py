"""How long an unanswered claim is held against an agent and its address."""

from hypothesis import given
from hypothesis import strategies as st

from moothall.hall.lapses import FIRST_PENALTY, LONGEST_PENALTY, MAX_REMEMBERED, Lapses, Precedence


@given(st.lists(st.floats(0, 10_000), min_size=1, max_size=20))
def test_a_penalty_begins_at_once_and_is_never_longer_than_an_hour(pauses: list[float]) -> None:
    record = Lapses()
    now = 0.0
    for pause in pauses:
        now += pause
        record.add("x", "198.51.100.1", now, now)
        assert record.precedence("x", None, now) is Precedence.LAPSED
        assert record.precedence("new", "198.51.100.1", now + FIRST_PENALTY - 1) is Precedence.NEIGHBOUR
        assert record.precedence("x", "198.51.100.1", now + LONGEST_PENALTY) is Precedence.FULL


def test_an_agent_that_never_learns_is_held_back_for_an_hour_each_time() -> None:
    record = Lapses()
    for now in range(5000):
        record.add("x", "198.51.100.1", now, now)
    assert record.precedence("x", None, 4999 + LONGEST_PENALTY - 1) is Precedence.LAPSED
    assert record.precedence("x", "198.51.100.1", 4999 + LONGEST_PENALTY) is Precedence.FULL


def test_only_the_first_lapse_of_a_penalty_is_news() -> None:
    record = Lapses()
    assert record.add("x", None, 0, 0)
    assert not record.add("x", None, 1, 1)
    assert record.add("x", None, 5000, 5000)


def test_the_record_is_bounded_and_forgets_the_oldest_lapse() -> None:
    record = Lapses()
    for number in range(MAX_REMEMBERED + 10):
        record.add(f"x{number}", "198.51.100.1", 0, 0)
    assert len(record) == MAX_REMEMBERED
    # A crowd of new ids does not push out the address that they all come from.
    assert record.precedence("x10", "198.51.100.1", 10) is Precedence.NEIGHBOUR
    assert record.precedence("x11", None, 10) is Precedence.LAPSED
