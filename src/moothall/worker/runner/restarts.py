"""When a server that has ended is started again (agentchat wire 19.6). Pure: moments are handed in.

It waits 1 second, and twice as long each time, up to 30 seconds. A server that has lived for a
minute begins the row anew.
"""

from typing import Final

FIRST: Final = 1.0  # seconds
LONGEST: Final = 30.0
GOOD_LIFE: Final = 60.0


class Restarts:
    def __init__(self) -> None:
        self._wait = FIRST
        self._since = 0.0

    def started(self, now: float) -> None:
        self._since = now

    def ended(self, now: float) -> float:
        """The moment of the next start."""
        if now - self._since >= GOOD_LIFE:
            self._wait = FIRST
        wait, self._wait = self._wait, min(2 * self._wait, LONGEST)
        return now + wait
