"""Rate limits: so many in so many seconds, counted in a sliding window.

The window holds the times of the last `limit` events. If it is full and its oldest is younger than the
window, the next one is too much. That is exact, costs one comparison, and needs no timer.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple, Self

# Shared by all windows without an event, and never changed. A deque of its own takes 600 bytes, and most
# windows of an idle agent never count anything.
_NO_TIMES: Final[deque[float]] = deque()


class Rate(NamedTuple):
    """`limit` events in `seconds`; a limit of 0 is no limit."""

    limit: int
    seconds: float

    @classmethod
    def parse(cls, text: str) -> Self:
        """`60/10` is 60 in 10 seconds, `0` is no limit."""
        limit, _, seconds = text.strip().partition("/")
        rate = cls(int(limit), float(seconds or 1))
        if rate.limit < 0 or not 0 < rate.seconds < float("inf"):
            raise ValueError(text)
        return rate

    def __str__(self) -> str:
        return f"{self.limit}/{self.seconds:g}" if self.limit else "0"

    @property
    def per_second(self) -> float:
        return self.limit / self.seconds

    def window(self) -> "Window | None":
        """What counts one agent's events; nothing when there is no limit."""
        return Window(self) if self.limit else None


class Window:
    __slots__ = ("_limit", "_seconds", "_times")

    def __init__(self, rate: Rate) -> None:
        self._limit = rate.limit
        self._seconds = rate.seconds
        self._times = _NO_TIMES

    def __len__(self) -> int:
        return len(self._times)

    def count(self, now: float) -> bool:
        """Count this event whatever comes of it; whether it is within the limit."""
        within = self.has_room(now)
        self._note(now)
        return within

    def admit(self, now: float) -> bool:
        """Count this event if it is within the limit. False if it is not."""
        within = self.has_room(now)
        if within:
            self._note(now)
        return within

    def _note(self, now: float) -> None:
        if self.is_quiet(now):  # all that were counted before have left the window
            self._times = deque((now,), self._limit)
        else:
            self._times.append(now)

    def forgive(self) -> None:
        """Take back the last count: the client did not cause that event."""
        self._times.pop()

    def has_room(self, now: float) -> bool:
        times = self._times
        return len(times) < self._limit or now - times[0] >= self._seconds

    def wait(self, now: float) -> float:
        """Seconds until the next event is within the limit; 0 is now."""
        return 0.0 if self.has_room(now) else self._times[0] + self._seconds - now

    def ages(self, now: float) -> list[float]:
        """How many seconds ago each event in the window was, the oldest first."""
        return [now - time for time in self._times if now - time < self._seconds]

    def replace(self, ages: Iterable[float], now: float) -> None:
        """Count these events instead of those that were counted here."""
        self._times = deque(sorted(now - max(0.0, age) for age in ages), self._limit)

    def is_quiet(self, now: float) -> bool:
        """True if no event is in the window."""
        return not self._times or now - self._times[-1] >= self._seconds
