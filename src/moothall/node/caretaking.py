"""What a node does at its own time: the clock, the agenda, and the timers of mesh wire 7."""

from collections.abc import Callable

from moothall.hall.agenda import Agenda
from moothall.hall.outside import Log
from moothall.network.outside import Alarm, Outside


class NodeTime:
    """Implements `hall.services.Caretaker`. `clock` is Unix seconds."""

    def __init__(self, outside: Outside, clock: Callable[[], float], log: Log) -> None:
        self._outside = outside
        self._clock = clock
        self._alarm: Alarm | None = None
        self.log = log
        self.agenda = Agenda(self._wake)
        self.is_closing = False

    def now(self) -> float:
        return self._outside.now() / 1000

    def now_ms(self) -> int:
        return self._outside.now()

    def timestamp(self) -> int:
        return int(self._clock() * 1000)

    def micros(self) -> int:
        return int(self._clock() * 1_000_000)

    def every(self, seconds: float, act: Callable[[], None]) -> None:
        """Calls again and again, until the end."""

        def turn() -> None:
            if not self.is_closing:
                self.agenda.at(self.now() + seconds, turn)
                act()

        self.agenda.at(self.now() + seconds, turn)

    def close(self) -> None:
        self.is_closing = True
        if self._alarm is not None:
            self._alarm.cancel()

    def _wake(self, due: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        if not self.is_closing:
            delay = max(0, round((due - self.now()) * 1000))
            self._alarm = self._outside.call_later(delay, lambda: self.agenda.run(self.now()))
