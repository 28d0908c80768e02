"""The reputation vector: averages that drop the fraction towards zero, and decay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from moothall.market.reputation_vector import ReputationVector, active, decayed, disputed, in_epoch, rated

scores = st.lists(st.integers(-100, 100), max_size=40)
NEW = ReputationVector()


def after(*scores: int, as_notary: bool = False) -> ReputationVector:
    vector = NEW
    for score in scores:
        vector = rated(vector, score, as_notary=as_notary)
    return vector


def test_feedback_about_a_party_moves_two_numbers() -> None:
    assert after(80) == ReputationVector(reliability=80_000, cooperation=80_000, total_tasks=1)
    assert after(80, 81, 81).reliability == 80_666


def test_feedback_about_a_notary_moves_the_third() -> None:
    assert after(-100, as_notary=True) == ReputationVector(notary_accuracy=-100_000, total_notarized=1)


@pytest.mark.parametrize(
    ("given", "reliability"),
    [((-1, -1, 0), -666), ((1, 1, 0), 666), ((-100, 100), 0), ((0, 0, -1), -333)],
)
def test_division_goes_towards_zero(given: tuple[int, ...], reliability: int) -> None:
    """Python's own would give -667 and -334."""
    assert after(*given).reliability == reliability


@given(scores)
def test_the_average_stays_near_the_true_one(given: list[int]) -> None:
    vector = after(*given)
    assert vector.total_tasks == len(given)
    assert vector.reliability == vector.cooperation
    if given:
        true = sum(given) * 1000 / len(given)
        assert abs(vector.reliability - true) <= len(given)


@given(scores)
def test_good_and_bad_are_counted_alike(given: list[int]) -> None:
    assert after(*given).reliability == -after(*(-score for score in given)).reliability


VECTOR = ReputationVector(
    reliability=80_000, cooperation=-80_000, notary_accuracy=99, total_tasks=3, last_active_epoch=100
)


@pytest.mark.parametrize(
    ("epoch", "before", "times"),
    [(101, 100, 0), (106, 105, 0), (107, 106, 1), (108, 107, 1), (108, 106, 2), (108, 100, 2), (100, 99, 0)],
)
def test_an_agent_that_is_idle_for_more_than_six_epochs_decays(epoch: int, before: int, times: int) -> None:
    expected = VECTOR
    for _ in range(times):
        expected = structs.replace(
            expected,
            reliability=int(expected.reliability * 95 / 100),
            cooperation=int(expected.cooperation * 95 / 100),
            notary_accuracy=int(expected.notary_accuracy * 95 / 100),
        )
    assert decayed(VECTOR, epoch, before=before) == expected


@given(st.integers(0, 60), st.integers(1, 60))
def test_epochs_decay_one_by_one_or_all_at_once(start: int, length: int) -> None:
    first = 100 + start
    step_by_step = VECTOR
    for epoch in range(first + 1, first + length + 1):
        step_by_step = decayed(step_by_step, epoch, before=epoch - 1)
    assert decayed(VECTOR, first + length, before=first) == step_by_step


def test_all_decays_to_nothing_however_long_it_was() -> None:
    gone = decayed(VECTOR, 10**9, before=0)
    assert (gone.reliability, gone.cooperation, gone.notary_accuracy, gone.total_tasks) == (0, 0, 0, 3)


# -- decay that is made up for later ---------------------------------------------------------------------------

histories = st.lists(st.tuples(st.integers(0, 12), st.booleans(), st.integers(-100, 100)), max_size=12)


@given(histories, st.integers(0, 30))
def test_lazy_decay_is_decay_at_every_epoch(history: list[tuple[int, bool, int]], rest: int) -> None:
    """One node advances epoch by epoch, the other looks only when something happens."""
    epoch = 100
    eager = lazy = active(NEW, epoch)
    for idle, acts, score in history:
        for each in range(epoch + 1, epoch + idle + 1):
            eager = decayed(eager, each, before=each - 1)
        epoch += idle
        lazy = in_epoch(lazy, epoch)
        if acts:
            eager = structs.replace(eager, last_active_epoch=epoch)
            lazy = active(lazy, epoch)
        eager, lazy = (rated(vector, score, as_notary=False) for vector in (eager, lazy))
    for each in range(epoch + 1, epoch + rest + 1):
        eager = decayed(eager, each, before=each - 1)
    assert in_epoch(lazy, epoch + rest) == structs.replace(eager, epoch=epoch + rest)


def test_time_does_not_go_back() -> None:
    vector = active(NEW, 100)
    assert in_epoch(vector, 99) is vector
    assert active(vector, 99).last_active_epoch == 100


def test_a_dispute_is_only_counted() -> None:
    assert disputed(NEW) == ReputationVector(total_disputes=1)
