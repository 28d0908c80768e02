"""The time of day of a hall that shares its database: that of the database, whatever the machine's clock says.

Halls compare times with each other: of deadlines, proofs and messages. If the clock of a machine were minutes off,
its hall would end deals too early, or refuse honest proofs. So all halls follow one clock.
"""

from typing import Final

from moothall.hall.outside import Clock, Log

# Seconds that the two clocks may differ: to follow each other always would make time jump
TOLERANCE: Final = 1.0


class CommonClock:
    def __init__(self, clock: Clock, log: Log) -> None:
        self._clock = clock
        self._log = log
        self._offset = 0.0
        self.monotonic = clock.monotonic

    def time(self) -> float:
        return self._clock.time() + self._offset

    def compare(self, asked_at: float, theirs: float) -> None:
        """The database said `theirs` between `asked_at`, as this clock had it, and now."""
        now = self.time()
        if not asked_at - TOLERANCE <= theirs <= now + TOLERANCE:
            self._offset += theirs - now
            seconds = round(-self._offset, 1)
            self._log.warning("clock_off", seconds=seconds, advice="set the clock of this machine")
