"""Deadlines kept in a store, with a made-up clock: each is acted upon once, and what fails is tried again."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.hall.deadlines import AT_ONCE, LOOK_SECONDS, RETRY_SECONDS, Deadlines
from moothall.hall.outside import Result
from moothall.hall.services import Services
from tests.support.world import World


class Calendar:
    """What is due when, as a store would know it."""

    def __init__(self) -> None:
        self.due: dict[str, int] = {}
        self.damaged: set[str] = set()  # these cannot be decided
        self.held: set[str] = set()  # somebody else has these in hand
        self.is_broken = False

    def find(self, now: int) -> tuple[list[str], int | None]:
        found = sorted((at, each) for each, at in self.due.items() if at <= now and each not in self.held)
        return [each for _, each in found[:AT_ONCE]], min(self.due.values(), default=None)

    def lapse(self, each: str) -> str | None:
        if each in self.damaged:
            raise LookupError(each)
        return each if self.due.pop(each, None) is not None else None


class CalendarStore:
    def __init__(self, calendar: Calendar) -> None:
        self._calendar = calendar
        self.units = 0

    def submit(
        self,
        work: Callable[[Calendar], Result],
        done: Callable[[Result], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self.units += 1
        if self._calendar.is_broken:
            failed(OSError(5, "Input/output error"))
            return
        try:
            result = work(self._calendar)
        except LookupError as error:
            failed(error)
        else:
            done(result)


class Watched:
    def __init__(self) -> None:
        self.world = World()
        self.calendar = Calendar()
        self.store = CalendarStore(self.calendar)
        self.told: list[tuple[str, int]] = []
        self.deadlines: Deadlines[Calendar, str] = Deadlines(
            self.store,
            find=lambda calendar, now: calendar.find(now),
            lapse=lambda calendar, each, now: calendar.lapse(each),
            tell=self._tell,
        )

    def _tell(self, hall: Services, each: str) -> None:
        self.told.append((each, self.world.now_ms))

    def put(self, each: str, seconds: float) -> None:
        self.calendar.due[each] = self.world.now_ms + round(seconds * 1000)
        self.deadlines.plan(self.world.hall, self.calendar.due[each])

    @property
    def failures(self) -> int:
        return len(self.world.log.find("deadline_failed"))


def test_each_is_acted_upon_at_its_own_time() -> None:
    watched = Watched()
    start = watched.world.now_ms
    watched.put("late", 30)
    watched.put("early", 10)
    watched.world.advance(60)
    assert watched.told == [("early", start + 10_000), ("late", start + 30_000)]


def test_what_passed_while_nobody_was_there_is_acted_upon_at_once() -> None:
    watched = Watched()
    watched.calendar.due = {"past": watched.world.now_ms - 5000, "next": watched.world.now_ms + 1000}
    watched.deadlines.act(watched.world.hall)
    assert [each for each, _ in watched.told] == ["past"]
    watched.world.advance(1)
    assert [each for each, _ in watched.told] == ["past", "next"]


def test_a_deadline_of_a_hall_that_is_gone_is_found_within_a_minute() -> None:
    """Several may share a database, and one of them may not come back."""
    watched = Watched()
    watched.deadlines.act(watched.world.hall)
    watched.world.advance(LOOK_SECONDS)
    watched.calendar.due["left behind"] = watched.world.now_ms + 1000  # nobody here was told
    watched.world.advance(LOOK_SECONDS)
    assert [each for each, _ in watched.told] == ["left behind"]


def test_what_somebody_else_is_deciding_about_is_looked_at_again_but_not_at_once() -> None:
    watched = Watched()
    watched.put("held", 1)
    watched.calendar.held = {"held"}
    watched.world.advance(1)
    units = watched.store.units
    watched.world.advance(1)
    assert 2 <= watched.store.units - units <= 4
    watched.calendar.held = set()
    watched.world.advance(1)
    assert [each for each, _ in watched.told] == ["held"]


def test_more_than_fit_at_once_are_all_done() -> None:
    watched = Watched()
    for number in range(2 * AT_ONCE + 1):
        watched.put(f"{number}", 1)
    watched.world.advance(1)
    assert len(watched.told) == 2 * AT_ONCE + 1
    assert watched.calendar.due == {}


def test_nobody_is_told_of_what_somebody_else_was_faster_with() -> None:
    watched = Watched()
    watched.put("taken", 5)
    del watched.calendar.due["taken"]
    watched.world.advance(5)
    assert watched.told == []


def test_one_that_cannot_be_decided_keeps_no_other_from_it_and_is_not_tried_again_at_once() -> None:
    watched = Watched()
    watched.calendar.damaged = {"damaged"}
    watched.put("damaged", 1)
    watched.put("sound", 1)
    watched.world.advance(1)
    assert [each for each, _ in watched.told] == ["sound"]
    assert watched.failures == 1
    units = watched.store.units
    watched.world.advance(RETRY_SECONDS / 2)
    assert watched.store.units == units
    watched.world.advance(RETRY_SECONDS / 2)
    assert watched.failures == 2


def test_a_bug_in_the_telling_keeps_no_other_from_its_time() -> None:
    watched = Watched()
    watched.deadlines = Deadlines(
        watched.store,
        find=lambda calendar, now: calendar.find(now),
        lapse=lambda calendar, each, now: calendar.lapse(each),
        tell=lambda hall, each: watched.told.append((each, {"sound": 1}[each])),
    )
    watched.put("damaged", 1)
    watched.put("sound", 10)
    with pytest.raises(KeyError):
        watched.world.advance(1)
    watched.world.advance(9)
    assert [each for each, _ in watched.told] == ["sound"]


def test_a_store_that_comes_back_is_asked_again() -> None:
    watched = Watched()
    watched.calendar.is_broken = True
    watched.put("due", 1)
    watched.world.advance(1)
    assert (watched.told, watched.failures) == ([], 1)
    watched.calendar.is_broken = False
    watched.world.advance(RETRY_SECONDS)
    assert [each for each, _ in watched.told] == ["due"]


@given(st.lists(st.floats(0, 100), max_size=30))
def test_none_is_missed_and_none_is_early(moments: list[float]) -> None:
    watched = Watched()
    for number, seconds in enumerate(moments):
        watched.put(f"{number}", seconds)
    deadlines = dict(watched.calendar.due)
    watched.world.advance(101)
    assert sorted(each for each, _ in watched.told) == sorted(deadlines)
    assert all(deadlines[each] <= at <= deadlines[each] + 1000 for each, at in watched.told)


def test_a_hall_that_closes_leaves_what_is_due_to_the_next() -> None:
    """Its store may be closed before the answers are there."""
    watched = Watched()
    watched.world.hall.durable.take_no_more(lambda: None)
    watched.deadlines.act(watched.world.hall)
    assert watched.store.units == 0
