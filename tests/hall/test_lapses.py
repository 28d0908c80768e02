"""How long an unanswered claim is held against an agent and its address."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.hall import lapses
from moothall.hall.lapses import FIRST_PENALTY, LONGEST_PENALTY, Lapses, Precedence


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


def test_only_the_first_lapse_of_a_penalty_is_news() -> None:
    record = Lapses()
    assert record.add("x", None, 0, 0)
    assert not record.add("x", None, 1, 1)
    assert record.add("x", None, 5000, 5000)


def test_the_record_is_bounded_and_forgets_the_oldest_lapse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lapses, "MAX_REMEMBERED", 3)
    record = Lapses()
    for number in range(10):
        record.add(f"x{number}", "198.51.100.1", number, number)
    assert len(record) == 3
    # A crowd of new ids does not push out the address that they all come from.
    assert record.precedence("x0", "198.51.100.1", 10) is Precedence.NEIGHBOUR
    assert record.precedence("x9", None, 10) is Precedence.LAPSED
