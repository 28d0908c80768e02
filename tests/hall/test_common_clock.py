"""A clock that follows another one: only when the two differ by more than asking can explain."""

import pytest

from moothall.hall.common_clock import TOLERANCE, CommonClock
from tests.support.world import Clock, LogBook


def made() -> tuple[Clock, CommonClock, LogBook]:
    machine, log = Clock(), LogBook()
    return machine, CommonClock(machine, log), log


@pytest.mark.parametrize("off", [600.0, -600.0])
def test_a_machine_whose_clock_is_off_has_the_time_of_the_database(off: float) -> None:
    machine, clock, log = made()
    truth = machine.time() - off
    clock.compare(clock.time(), truth)
    assert clock.time() == pytest.approx(truth)
    assert log.find("clock_off")[-1]["seconds"] == off
    machine.move_to(5)
    assert clock.time() == pytest.approx(truth + 5)
    clock.compare(clock.time(), truth + 5)
    assert len(log.find("clock_off")) == 1


def test_a_slow_answer_moves_no_clock() -> None:
    """The database may have looked at its clock at any moment of the 30 seconds."""
    machine, clock, log = made()
    asked_at = clock.time()
    machine.move_to(30)
    for seconds in (-TOLERANCE, 0, 15, 30, 30 + TOLERANCE):
        clock.compare(asked_at, asked_at + seconds)
    assert clock.time() == machine.time()
    assert log.find("clock_off") == []


def test_timers_do_not_notice() -> None:
    machine, clock, _ = made()
    clock.compare(clock.time(), clock.time() + 600)
    assert clock.monotonic() == machine.monotonic()
