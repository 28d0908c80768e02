"""Keep connections that wait until they, or their address, can pay."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from moothall.gateways.keep_lines import CALLED_UP, LET_IN, Lines
from moothall.hall.budgets import LEAST_PAUSE

HERE, THERE = "192.0.2.1", "192.0.2.2"


class Timers:
    """A loop whose time passes when a test says so."""

    def __init__(self) -> None:
        self.due: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, seconds: float, callback: Callable[..., None], *arguments: Any) -> None:
        self.due.append((seconds, lambda: callback(*arguments)))

    def next(self) -> float:
        seconds, callback = self.due.pop(0)
        callback()
        return seconds


class Waiter:
    def __init__(self, ip: str = HERE, *, has_entered: bool = True) -> None:
        self.ip = ip
        self.has_entered = has_entered
        self.held = 0

    def hold(self) -> None:
        self.held += 1

    def release(self) -> None:
        self.held -= 1


def made() -> tuple[Lines, Timers]:
    timers = Timers()
    return Lines(cast("asyncio.AbstractEventLoop", timers)), timers


def test_a_connection_is_held_for_its_time() -> None:
    lines, timers = made()
    waiter = Waiter()
    lines.hold(waiter, 3.0)
    assert (waiter.held, lines.has_line(HERE), lines.throttled) == (1, False, 1)
    assert timers.next() == 3.0
    assert waiter.held == 0


def test_a_few_of_a_line_try_at_a_time_and_those_in_the_hall_come_first() -> None:
    lines, timers = made()
    new = [Waiter(has_entered=False) for _ in range(LET_IN + 1)]
    known = [Waiter() for _ in range(CALLED_UP + 1)]
    for waiter in (*new, *known):
        lines.join(waiter, 2.0)
    assert lines.throttled == len(new) + len(known)
    assert timers.next() == 2.0  # the wait of the first is that of the line
    assert [waiter.held for waiter in new] == [0] * LET_IN + [1]
    assert [waiter.held for waiter in known] == [0] * CALLED_UP + [1]
    assert lines.has_line(HERE)
    assert timers.next() == LEAST_PAUSE
    assert not any(waiter.held for waiter in (*new, *known))
    assert not lines.has_line(HERE)
    assert timers.due == []


def test_each_address_has_its_own_line() -> None:
    lines, timers = made()
    one, other = Waiter(HERE), Waiter(THERE)
    lines.join(one, 1.0)
    lines.join(other, 5.0)
    timers.next()
    assert (one.held, other.held) == (0, 1)
    assert (lines.has_line(HERE), lines.has_line(THERE)) == (False, True)
