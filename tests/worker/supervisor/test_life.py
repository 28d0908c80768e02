"""The life of a supervised agent, with a made-up clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.worker.supervisor.life import (
    GOOD_RUN,
    GRACE,
    LONGEST_WAIT,
    QUICK,
    SHORTEST_WAIT,
    TRANSITIONS,
    Life,
    Order,
    Phase,
    Status,
)

SHORT = 1.0


def run_of(life: Life, now: float, seconds: float, code: int = 1, reason: str | None = None) -> Life:
    """Start the runner, and let it end after so long."""
    life, order = life.tick(now, stop=False)
    assert order is Order.START
    return life.ended(now + seconds, code, reason)


def waits(*runs: float, code: int = 1) -> list[float]:
    """How long the supervisor waits after runs of these lengths."""
    life, now, found = Life(), 0.0, []
    for seconds in runs:
        life = run_of(life, now, seconds, code)
        assert life.due is not None
        found.append(life.due - (now + seconds))
        now = life.due
        life, order = life.tick(now, stop=False)
        assert (life.phase, order) == (Phase.LOOKING, None)
    return found


@pytest.mark.parametrize("code", [0, 1, 143], ids=["clean", "crash", "terminated"])
def test_each_wait_is_twice_the_last_up_to_five_minutes(code: int) -> None:
    assert waits(*[SHORT] * 9, code=code) == [5, 10, 20, 40, 80, 160, 300, 300, 300]


def test_a_run_of_more_than_five_minutes_makes_the_wait_the_shortest() -> None:
    assert waits(1, 1, 1, GOOD_RUN + 0.1, 1, 1) == [5, 10, 20, 5, 10, 20]


def test_a_run_of_five_minutes_is_not_long_enough() -> None:
    assert waits(1, GOOD_RUN, 1) == [5, 10, 20]


@given(st.lists(st.floats(0, 10_000), max_size=30))
def test_waits_have_bounds(runs: list[float]) -> None:
    assert all(SHORTEST_WAIT - 0.001 <= wait <= LONGEST_WAIT + 0.001 for wait in waits(*runs))


def test_the_row_of_waits_goes_on_after_a_restart_of_the_supervisor() -> None:
    life = run_of(Life(restart_count=3, backoff=20.0), 0, SHORT)
    assert (life.backoff, life.restart_count) == (40, 4)


@pytest.mark.parametrize(
    ("code", "reason", "status", "error"),
    [
        (0, None, Status.STARTING, ""),
        (1, None, Status.CRASHED, "exit_code=1"),
        (137, None, Status.CRASHED, "exit_code=137"),
        (1, "rate-sends", Status.KILLED, "niki_reason=rate-sends"),
        (0, "timeout", Status.KILLED, "niki_reason=timeout"),
    ],
)
def test_an_end_leads_to_a_wait_and_its_status(
    code: int, reason: str | None, status: Status, error: str
) -> None:
    life = run_of(Life(), 0, SHORT, code, reason)
    assert (life.phase, life.status, life.last_error) == (Phase.WAITING, status, error)
    assert life.guard_reason == reason


def test_what_cannot_be_repaired_is_final() -> None:
    life = run_of(Life(), 0, SHORT, 2, "budget")
    assert (life.is_over, life.status, life.last_error) == (True, Status.FATAL, "exit_code=2")
    assert (life.guard_reason, life.exit_code) == ("budget", 0)


def test_it_never_gives_up_by_default() -> None:
    life = Life(restart_count=1000, backoff=300.0)
    assert not run_of(life, 0, SHORT).is_over


def test_it_gives_up_after_quick_failures_if_it_should() -> None:
    life, now = Life(give_up_after=2), 0.0
    for _ in range(2):
        life = run_of(life, now, QUICK)
        assert life.due is not None
        now = life.due
        life, _ = life.tick(now, stop=False)
    life = run_of(life, now, QUICK)
    assert (life.is_over, life.status, life.last_error) == (True, Status.FAILED, "too_many_crashes")
    assert life.exit_code == 1


def test_a_failure_that_took_longer_is_not_a_quick_one() -> None:
    assert not run_of(Life(give_up_after=2, restart_count=5), 0, QUICK + 1).is_over


def test_a_runner_that_cannot_be_started_is_a_failure_with_a_reason() -> None:
    life, _ = Life().tick(0, stop=False)
    life = life.not_started(0, "no memory")
    assert (life.phase, life.status, life.last_error) == (Phase.WAITING, Status.CRASHED, "no memory")


# -- stopping -------------------------------------------------------------------------------------------


def test_a_stop_before_a_run() -> None:
    life, order = Life().tick(0, stop=True)
    assert (life.is_over, life.status, order, life.exit_code) == (True, Status.STOPPED, None, 0)


def test_a_stop_during_a_run_is_first_asked_for_and_then_forced() -> None:
    life, _ = Life().tick(0, stop=False)
    life, order = life.tick(10, stop=True)
    assert (order, life.due) == (Order.TERMINATE, 10 + GRACE)
    assert life.tick(10 + GRACE - 0.1, stop=True) == (life, None)
    life, order = life.tick(10 + GRACE, stop=True)
    assert order is Order.KILL
    assert life.tick(1000, stop=True) == (life, None)
    life = life.ended(1001, 137, None)
    assert (life.is_over, life.status, life.last_error) == (True, Status.STOPPED, "")


@pytest.mark.parametrize("code", [0, 1, 2, 143])
def test_a_run_that_ends_after_a_stop_is_not_counted(code: int) -> None:
    life, _ = Life(restart_count=2, backoff=10.0).tick(0, stop=False)
    life, _ = life.tick(1, stop=True)
    life = life.ended(2, code, None)
    assert (life.status, life.restart_count, life.backoff) == (Status.STOPPED, 2, 10)


def test_a_stop_after_a_run() -> None:
    life, order = run_of(Life(), 0, SHORT).tick(2, stop=True)
    assert (life.is_over, life.status, order) == (True, Status.STOPPED, None)


def test_a_user_can_end_the_wait_and_nothing_else() -> None:
    waiting = run_of(Life(), 0, SHORT)
    woken, order = waiting.woken(2).tick(2, stop=False)
    assert (woken.phase, order, woken.backoff) == (Phase.LOOKING, None, waiting.backoff)
    running, _ = woken.tick(2, stop=False)
    assert running.woken(3) == running
    ended, _ = waiting.tick(2, stop=True)
    assert ended.woken(3) == ended


@pytest.mark.parametrize("stop", [True, False])
def test_an_end_is_an_end(stop: bool) -> None:
    life, _ = Life().tick(0, stop=True)
    assert life.tick(10_000, stop=stop) == (life, None)


def test_the_table_has_no_way_out_of_the_end() -> None:
    assert not [event for phase, event in TRANSITIONS if phase is Phase.ENDED]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("pass"), st.floats(0, 400)),
        st.tuples(st.just("end"), st.sampled_from([0, 1, 2, 143])),
        st.tuples(st.just("stop"), st.just(0)),
    ),
    max_size=60,
)


@given(steps)
def test_whatever_happens_there_is_one_runner_and_a_stop_is_final(happened: list[tuple[str, float]]) -> None:
    life, now, is_stopped, is_running, orders = Life(), 0.0, False, False, list[Order]()
    for what, value in happened:
        if what == "stop":
            is_stopped = True
        elif what == "pass":
            now += value
        elif is_running:
            life, is_running = life.ended(now, int(value), None), False
            orders.clear()
        for _ in range(5):  # until nothing is left to do
            after, order = life.tick(now, stop=is_stopped)
            if order is Order.START:
                assert not is_running
                assert not is_stopped
                is_running = True
            elif order is not None:
                assert is_stopped
                assert is_running
                orders.append(order)
            if after == life:
                break
            life = after
        else:
            raise AssertionError("it does not come to rest")
        assert orders in ([], [Order.TERMINATE], [Order.TERMINATE, Order.KILL])
        assert is_running == (life.phase in (Phase.RUNNING, Phase.STOPPING, Phase.KILLING))
        assert not (is_stopped and not is_running) or life.is_over
        assert life.is_over or life.due is not None or is_running
