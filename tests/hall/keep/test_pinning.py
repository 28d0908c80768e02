"""Pins on their way to the store."""

from collections.abc import Callable, Iterable

from moothall.hall.keep.pinning import RETRY_SECONDS, SAVE_SECONDS, PinSaver
from moothall.hall.keep.registry import Pins
from moothall.hall.outside import Result
from tests.support.world import LogBook


class Table:
    """Pins as a store keeps them."""

    def __init__(self) -> None:
        self.rows: dict[str, bytes] = {}
        self.fails = False
        self.units = 0

    def pin(self, pins: Iterable[tuple[str, bytes]]) -> dict[str, bytes]:
        return {identity: self.rows.setdefault(identity, key) for identity, key in pins}

    def pinned_since(self, number: int) -> list[tuple[int, str, bytes]]:
        rows = enumerate(self.rows.items(), 1)
        return [(each, identity, key) for each, (identity, key) in rows if each > number]

    def submit(
        self,
        work: Callable[["Table"], Result],
        done: Callable[[Result], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self.units += 1
        if self.fails:
            failed(OSError("disk full"))
        else:
            done(work(self))


class Hall:
    """One hall on that table, with a clock that stands still until the test moves it."""

    def __init__(self, table: Table) -> None:
        self.pins = Pins(100)
        self.log = LogBook()
        self.planned: list[tuple[float, Callable[[], None]]] = []
        self.saver = PinSaver(self.pins, table, 0, self._later, self.log)

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        self.planned.append((seconds, action))

    def wait(self) -> float:
        seconds, action = self.planned.pop(0)
        action()
        return seconds


def test_pins_of_a_moment_share_a_commit() -> None:
    table = Table()
    hall = Hall(table)
    for number in range(50):
        hall.pins.pin(f"agent:{number}", b"k")
    assert len(hall.planned) == 1
    assert hall.wait() == SAVE_SECONDS
    assert (len(table.rows), table.units) == (50, 1)
    assert hall.pins.unsaved == {}
    hall.pins.pin("late", b"k")
    assert hall.wait() == SAVE_SECONDS
    assert len(table.rows) == 51


def test_of_two_halls_the_first_to_save_wins_and_the_other_learns_it() -> None:
    table = Table()
    first, second = Hall(table), Hall(table)
    first.pins.pin("human:x", b"1")
    second.pins.pin("human:x", b"2")
    first.wait()
    assert second.pins.admit("human:x", b"2")
    second.wait()
    assert second.pins.admit("human:x", b"1")
    assert not second.pins.admit("human:x", b"2")


def test_what_another_hall_pinned_holds_here_when_it_was_read() -> None:
    table = Table()
    here, there = Hall(table), Hall(table)
    there.pins.pin("human:x", b"1")
    there.wait()
    here.saver.read_again()
    assert not here.pins.admit("human:x", b"2")
    assert here.pins.unsaved == {}


def test_a_commit_that_fails_is_told_and_tried_again() -> None:
    table = Table()
    hall = Hall(table)
    table.fails = True
    hall.pins.pin("human:x", b"1")
    assert hall.wait() == SAVE_SECONDS
    assert hall.log.find("pins_not_saved")
    hall.pins.pin("human:y", b"1")
    table.fails = False
    assert hall.wait() == RETRY_SECONDS
    assert len(table.rows) == 2
    assert hall.planned == []


def test_a_hall_that_closes_saves_what_is_left() -> None:
    table = Table()
    hall = Hall(table)
    hall.saver.close()
    assert table.units == 0
    hall.pins.pin("human:x", b"1")
    hall.saver.close()
    assert len(table.rows) == 1
    hall.wait()
    assert table.units == 1


def test_a_table_that_cannot_be_read_is_told() -> None:
    table = Table()
    hall = Hall(table)
    table.fails = True
    hall.saver.read_again()
    assert hall.log.find("pins_not_read")
