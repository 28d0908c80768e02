"""Replay protection: with `keep_replay_window`, a signed packet that comes again within the window is dropped.

Nothing in a packet says when or for whom it was made, so captured bytes can be sent again (keep wire 3). An
honest sender gives each packet an id of its own, and then no two of its signatures are alike.
"""

from typing import Final

MAX_REMEMBERED: Final = 1_000_000  # signatures: about 150 MB


class Replays:
    def __init__(self, window: float, limit: int = MAX_REMEMBERED) -> None:
        self._window = window
        self._limit = limit
        self._seen: dict[bytes, float] = {}  # in the order of their times

    def __len__(self) -> int:
        return len(self._seen)

    def admit(self, signature: bytes, now: float) -> bool:
        """True if the signature is new; it is remembered from now on."""
        seen = self._seen
        self._forget(now)
        if signature in seen:
            return False
        seen[signature] = now
        return True

    def _forget(self, now: float) -> None:
        seen = self._seen
        while seen:
            oldest = next(iter(seen))
            if now - seen[oldest] < self._window and len(seen) < self._limit:
                return
            del seen[oldest]
