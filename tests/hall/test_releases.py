"""How long an agent may keep others waiting and then not answer."""

from hypothesis import given
from hypothesis import strategies as st

from moothall.hall.releases import (
    ADDRESS_FACTOR,
    ALLOWANCE,
    ANSWER_EARNS,
    LEAST_COST,
    MAX_REMEMBERED,
    REFILL,
    Allowances,
)

HOME = "198.51.100.1"


def test_a_quick_release_costs_something_and_a_slow_one_its_time() -> None:
    quick, slow = Allowances(), Allowances()
    assert sum(quick.charge("#a", "x", None, 0.001, 0) for _ in range(100)) == ALLOWANCE / LEAST_COST
    assert sum(slow.charge("#a", "x", None, 20, 0) for _ in range(100)) == ALLOWANCE / 20


def test_the_allowance_refills() -> None:
    allowances = Allowances()
    assert allowances.charge("#a", "x", None, ALLOWANCE, 0)
    assert not allowances.charge("#a", "x", None, 10, 10 / REFILL - 1)
    assert allowances.charge("#a", "y", None, ALLOWANCE, 0)
    assert allowances.charge("#a", "y", None, 10, 10 / REFILL)


def test_an_agent_that_answers_one_claim_in_ten_never_runs_out() -> None:
    allowances = Allowances()
    for _ in range(100):
        for _ in range(int(ANSWER_EARNS / LEAST_COST)):
            assert allowances.charge("#a", "x", HOME, 0, 0)
        allowances.earn("#a", "x", HOME, 0)
    assert len(allowances) == 0


def test_new_ids_of_one_address_share_its_allowance() -> None:
    allowances = Allowances()
    covered = [allowances.charge("#a", f"x{number}", HOME, 30, 0) for number in range(20)]
    assert covered == [True] * int(ALLOWANCE * ADDRESS_FACTOR / 30) + [False] * 12
    assert allowances.charge("#a", "elsewhere", "203.0.113.9", 30, 0)


def test_answers_in_one_channel_do_not_pay_for_silence_in_another() -> None:
    allowances = Allowances()
    assert allowances.charge("#full", "x", HOME, ALLOWANCE, 0)
    for _ in range(100):
        allowances.charge("#empty", "x", HOME, 0, 0)
        allowances.earn("#empty", "x", HOME, 0)
    assert not allowances.charge("#full", "x", HOME, 1, 0)


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 45)), max_size=50))
def test_no_more_than_a_tenth_of_the_time_is_covered_in_the_long_run(
    steps: list[tuple[float, float]],
) -> None:
    allowances = Allowances()
    now = held_in_all = 0.0
    for pause, held in steps:
        now += pause + held
        if allowances.charge("#a", "x", None, held, now):
            held_in_all += held
    assert held_in_all <= ALLOWANCE + REFILL * now + 1e-6


def test_the_record_is_bounded() -> None:
    allowances = Allowances()
    for number in range(MAX_REMEMBERED + 10):
        allowances.charge("#a", f"x{number}", HOME, 1, 0)
        assert len(allowances) <= MAX_REMEMBERED


def test_releases_in_many_channels_do_not_push_out_what_their_own_address_spent() -> None:
    allowances = Allowances()
    assert allowances.charge("#full", "x", HOME, ADDRESS_FACTOR * ALLOWANCE, 0) is False
    for number in range(MAX_REMEMBERED - 2):
        allowances.charge(f"#empty{number}", f"x{number}", HOME, 1, 0)
        assert len(allowances) <= MAX_REMEMBERED
    assert not allowances.charge("#full", "newcomer", HOME, 1, 0)


def test_the_channels_of_one_name_are_bounded_too() -> None:
    allowances = Allowances()
    for number in range(MAX_REMEMBERED + 10):
        allowances.charge(f"#{number}", "x", None, 1, 0)
        assert len(allowances) <= MAX_REMEMBERED
    assert allowances.charge(f"#{MAX_REMEMBERED + 9}", "x", None, ALLOWANCE, 0) is False
