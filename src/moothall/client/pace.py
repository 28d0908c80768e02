"""Not too fast: how an agent keeps within the limits of a hall that has limits.

A hall does not say what its limits are, and many have none. So an agent runs free until it is told
RATE_LIMITED once; from then on it keeps to the pace that every hall allows by default.
"""

from collections import deque
from typing import Final

# A server allows 60 frames in 10 seconds and some close the connection above it (agentchat wire 18.2). The
# difference is room for the clocks of both ends.
FRAMES: Final = 50
WINDOW: Final = 10.0

MESSAGE_SPACING: Final = 1.05  # seconds; one MSG a second (agentchat wire 1.3)
# Seconds; the seed's sender leaves 200 ms between chunks (seed 000, file transfer)
CHUNK_SPACING: Final = 0.2
MAX_SPACING: Final = 10.0


class FramePace:
    """Limits the number of frames in a sliding window."""

    def __init__(self, frames: int = FRAMES, window: float = WINDOW) -> None:
        self._window = window
        self._times: deque[float] = deque(maxlen=frames)

    def has_room(self, now: float) -> bool:
        """True if the next frame need not wait."""
        times = self._times
        return len(times) < (times.maxlen or 0) or times[0] + self._window <= now

    def reserve(self, now: float) -> float:
        """Seconds to wait before the next frame, which counts as sent then."""
        times = self._times
        due = now if len(times) < (times.maxlen or 0) else max(now, times[0] + self._window)
        times.append(due)
        return due - now


class Spacing:
    """The distance between two messages of one kind: none at first, `base` once one was refused."""

    def __init__(self, base: float) -> None:
        self._base = base
        self._distance = 0.0
        self._last = float("-inf")

    def wait(self, now: float) -> float:
        """Seconds before the next one may be tried."""
        return max(0.0, self._last + self._distance - now)

    def accepted(self, now: float) -> None:
        self._last = now
        self._distance = min(self._distance, self._base)

    def refused(self, now: float) -> None:
        self._last = now
        self._distance = min(self._distance * 1.5, MAX_SPACING) if self._distance else self._base
