"""When the counts go to the state file while the command runs: after a change, and seldom. Pure.

Others read the file to see what a session has used. A command that says nothing makes the guard write nothing.
"""

from typing import Final

PERIOD: Final = 5.0  # seconds between two writes

Counts = tuple[int, ...]


class WritingDown:
    def __init__(self) -> None:
        self._counts: Counts | None = None  # in the file
        self._at = 0.0

    def written(self, now: float, counts: Counts) -> None:
        self._at = now
        self._counts = counts

    def due(self, counts: Counts) -> float | None:
        """When to write these counts; None if the file has them."""
        return None if counts == self._counts else self._at + PERIOD
