"""Appointments: kept in order, cancelled without a trace, announced to the alarm."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from moothall.hall.agenda import Agenda, Appointment


class Alarm:
    """Remembers the latest word."""

    def __init__(self) -> None:
        self.due: float | None = None
        self.rung = 0

    def __call__(self, due: float) -> None:
        self.due = due
        self.rung += 1


def test_appointments_are_kept_in_order_of_time_and_then_of_making() -> None:
    agenda, kept = Agenda(Alarm()), list[str]()
    for due, name in ((3, "c"), (1, "a1"), (2, "b"), (1, "a2")):
        agenda.at(due, lambda name=name: kept.append(name))  # type: ignore[misc]  # mypy has no name for this
    agenda.run(2)
    assert kept == ["a1", "a2", "b"]
    agenda.run(2.9)
    assert kept == ["a1", "a2", "b"]
    agenda.run(3)
    assert kept == ["a1", "a2", "b", "c"]
    assert len(agenda) == 0


def test_the_alarm_is_told_when_the_next_one_comes_earlier_and_not_otherwise() -> None:
    alarm = Alarm()
    agenda = Agenda(alarm)
    for due, told in ((10, 1), (20, 1), (5, 2), (7, 2), (5, 2)):
        agenda.at(due, lambda: None)
        assert (alarm.due, alarm.rung) == (min(10, due) if told == 1 else 5, told)
    agenda.run(5)
    assert (alarm.due, alarm.rung) == (7, 3)


def test_an_alarm_that_rings_early_is_set_again() -> None:
    alarm = Alarm()
    agenda = Agenda(alarm)
    agenda.at(10, lambda: None)
    agenda.run(9.999)
    assert (alarm.due, alarm.rung) == (10, 2)
    assert len(agenda) == 1


def test_what_is_cancelled_is_not_kept() -> None:
    agenda, kept = Agenda(Alarm()), list[int]()
    appointment = agenda.at(1, lambda: kept.append(1))
    agenda.cancel(appointment)
    agenda.cancel(appointment)
    assert appointment.cancelled
    assert len(agenda) == 0
    agenda.run(1)
    assert kept == []


def test_cancelling_what_was_kept_changes_nothing() -> None:
    agenda = Agenda(Alarm())
    appointment = agenda.at(1, lambda: None)
    agenda.run(1)
    agenda.at(2, lambda: None)
    agenda.cancel(appointment)
    assert len(agenda) == 1


def test_an_appointment_may_make_and_cancel_others() -> None:
    agenda, kept = Agenda(Alarm()), list[str]()
    later = agenda.at(1, lambda: kept.append("cancelled"))

    def busy() -> None:
        kept.append("busy")
        agenda.cancel(later)
        agenda.at(1, lambda: kept.append("at once"))
        agenda.at(2, lambda: kept.append("later"))

    agenda.at(0.5, busy)
    agenda.run(1)
    assert kept == ["busy", "at once"]
    agenda.run(2)
    assert kept == ["busy", "at once", "later"]


def test_a_run_tells_the_alarm_once_however_many_appointments_it_makes() -> None:
    alarm = Alarm()
    agenda = Agenda(alarm)

    def make_more() -> None:
        agenda.at(1, lambda: None)
        agenda.at(7, lambda: None)

    for _ in range(5):
        agenda.at(1, make_more)
    before = alarm.rung
    agenda.run(1)
    assert (alarm.due, alarm.rung) == (7, before + 1)


def test_a_bug_in_one_appointment_costs_only_that_one() -> None:
    alarm, kept = Alarm(), list[str]()
    agenda = Agenda(alarm)
    agenda.at(1, lambda: [][0])
    agenda.at(1, lambda: kept.append("same time"))
    agenda.at(2, lambda: kept.append("later"))
    with pytest.raises(IndexError):
        agenda.run(1)
    assert alarm.due == 1
    agenda.run(2)
    assert kept == ["same time", "later"]


def test_cancelled_appointments_are_thrown_out_when_they_are_the_majority() -> None:
    """Most challenges are answered at once; their time-outs must not pile up for 30 seconds."""
    agenda = Agenda(Alarm())
    for number in range(100_000):
        agenda.cancel(agenda.at(number, lambda: None))
    assert len(agenda) == 0
    assert len(agenda._heap) <= 1100


class Diary(RuleBasedStateMachine):
    """An agenda against a list that is searched from end to end."""

    def __init__(self) -> None:
        super().__init__()
        self.alarm = Alarm()
        self.agenda = Agenda(self.alarm)
        self.now = 0.0
        self.kept: list[int] = []
        self.expected: list[int] = []
        self.open: dict[int, tuple[float, Appointment]] = {}

    @rule(wait=st.floats(0, 10))
    def make(self, wait: float) -> None:
        number = len(self.kept) + len(self.open) + 1000 * len(self.expected)
        while number in self.open:
            number += 1
        due = self.now + wait
        self.open[number] = (due, self.agenda.at(due, lambda: self.kept.append(number)))

    @rule(which=st.integers(0, 20))
    def cancel(self, which: int) -> None:
        if self.open:
            number = sorted(self.open)[which % len(self.open)]
            _, appointment = self.open.pop(number)
            self.agenda.cancel(appointment)

    @rule(seconds=st.floats(0, 10))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        due = [number for number, (due, _) in self.open.items() if due <= self.now]
        self.expected += sorted(due, key=lambda number: self.open[number][0])
        for number in due:
            del self.open[number]
        self.agenda.run(self.now)

    @invariant()
    def everything_due_was_kept_in_order_and_nothing_else(self) -> None:
        assert self.kept == self.expected
        assert len(self.agenda) == len(self.open)

    @invariant()
    def the_alarm_rings_in_time(self) -> None:
        if self.open:
            assert self.alarm.due is not None
            assert self.alarm.due <= min(due for due, _ in self.open.values())


TestDiary = Diary.TestCase
