"""How long to wait before connecting again."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits of `first` seconds, each twice as long as the one before, never longer than `longest`.

    Every wait is off by up to `jitter` of itself, so that the agents a hall has lost all at once do not come
    back all at once. A connection that held for `steady` seconds starts the series anew.
    """

    first: float = 1.0
    longest: float = 60.0
    jitter: float = 0.2
    steady: float = 60.0

    def __post_init__(self) -> None:
        if not 0 < self.first <= self.longest or not 0 <= self.jitter < 1 or self.steady < 0:
            raise ValueError("a backoff needs 0 < first <= longest, 0 <= jitter < 1 and steady >= 0")

    def delay(self, attempt: int, random: Callable[[], float]) -> float:
        """Seconds before attempt 0, 1, 2, ...; `random` gives numbers in [0, 1)."""
        # Doubling an int without end is not free, and 2**64 seconds are beyond any `longest`.
        wait = min(self.first * 2.0 ** min(attempt, 64), self.longest)
        return wait * (1 + self.jitter * (2 * random() - 1))


DEFAULT_BACKOFF: Final = Backoff()
