"""Everything the hall will do later: one heap of appointments. The owner of the clock runs them."""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final

from moothall.hall.outside import Alarm

# A cancelled appointment stays in the heap until it is due. Most challenges are answered in milliseconds and
# would otherwise sit there for their full 30 seconds, so the heap is rebuilt when they are the majority.
_MIN_TO_COMPACT: Final = 1024


class Appointment:
    __slots__ = ("_action", "due")

    def __init__(self, due: float, action: Callable[[], None]) -> None:
        self.due = due
        self._action: Callable[[], None] | None = action

    @property
    def cancelled(self) -> bool:
        return self._action is None

    def cancel(self) -> None:
        self._action = None

    def keep(self) -> None:
        action, self._action = self._action, None
        if action is not None:
            action()


class Agenda:
    """Appointments in order of time. `alarm` is told when the next one is; the latest word counts."""

    def __init__(self, alarm: Alarm) -> None:
        self._alarm = alarm
        self._heap: list[tuple[float, int, Appointment]] = []
        self._serial = 0
        self._cancelled = 0
        self._armed: float | None = None

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled

    def at(self, due: float, action: Callable[[], None]) -> Appointment:
        appointment = Appointment(due, action)
        self._serial += 1
        heappush(self._heap, (due, self._serial, appointment))
        self._arm()
        return appointment

    def cancel(self, appointment: Appointment) -> None:
        if appointment.cancelled:
            return
        appointment.cancel()
        self._cancelled += 1
        if self._cancelled > _MIN_TO_COMPACT and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if not entry[2].cancelled]
            heapify(self._heap)
            self._cancelled = 0

    def run(self, now: float) -> None:
        """Keep every appointment that is due."""
        self._armed = -inf  # which one is next will be known at the end
        try:
            while self._heap and self._heap[0][0] <= now:
                _, _, appointment = heappop(self._heap)
                if appointment.cancelled:
                    self._cancelled -= 1
                else:
                    appointment.keep()
        finally:
            # Whatever a bug in one appointment did, the others are kept.
            self._armed = None
            self._arm()

    def _arm(self) -> None:
        if self._heap:
            due = self._heap[0][0]
            if self._armed is None or due < self._armed:
                self._armed = due
                self._alarm(due)
