import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.client.backoff import Backoff

fractions = st.floats(0, 1, exclude_max=True)


def middle() -> float:
    return 0.5


def test_it_doubles_from_one_second_to_a_minute() -> None:
    backoff = Backoff()
    assert [backoff.delay(attempt, middle) for attempt in range(9)] == [1, 2, 4, 8, 16, 32, 60, 60, 60]


@given(st.integers(0, 10_000), fractions)
def test_every_wait_is_off_by_at_most_a_fifth(attempt: int, chance: float) -> None:
    backoff = Backoff()
    exact = backoff.delay(attempt, middle)
    assert 0.8 * exact <= backoff.delay(attempt, lambda: chance) <= 1.2 * exact


@pytest.mark.parametrize("wrong", [{"first": 0}, {"first": 2, "longest": 1}, {"jitter": 1}, {"steady": -1}])
def test_nonsense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="backoff"):
        Backoff(**wrong)
