"""Which lines of an inbox a model has read.

Most models read everything in order: then one number is enough. A model that listens to one channel, or to
mentions, skips lines that it may want later. So the lines that were read beyond the first unread one are kept
too, as ranges.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator


class Marks:
    """Line numbers, from 1. All up to `low` are read, and those in `ranges` above it."""

    def __init__(self, low: int = 0, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self.low = low
        self._ranges: list[tuple[int, int]] = []
        for first, last in ranges:
            self._add(first, last)
        self.advance(low)

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The lines read above `low`: first and last of each run, in order."""
        return list(self._ranges)

    def __contains__(self, line: int) -> bool:
        if line <= self.low:
            return True
        place = bisect_right(self._ranges, (line, line))
        near = self._ranges[max(0, place - 1) : place + 1]
        return any(first <= line <= last for first, last in near)

    def read(self, lines: Iterable[int]) -> None:
        """Mark lines as read."""
        for first, last in _runs(sorted(set(lines))):
            if last > self.low:
                self._add(max(first, self.low + 1), last)
        self.advance(self.low)

    def advance(self, low: int) -> None:
        """All lines up to `low` are read, or gone."""
        self.low = max(self.low, low)
        while self._ranges and self._ranges[0][0] <= self.low + 1:
            self.low = max(self.low, self._ranges.pop(0)[1])

    def count_after(self, line: int) -> int:
        """How many lines after `line` are marked in the ranges."""
        return sum(last - max(first, line + 1) + 1 for first, last in self._ranges if last > line)

    def copy(self) -> "Marks":
        return Marks(self.low, self._ranges)

    def _add(self, first: int, last: int) -> None:
        kept = []
        for start, end in self._ranges:
            if end < first - 1 or start > last + 1:
                kept.append((start, end))
            else:
                first, last = min(first, start), max(last, end)
        insort(kept, (first, last))
        self._ranges = kept


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    first: int | None = None
    last = 0
    for number in numbers:
        if first is None:
            first = number
        elif number != last + 1:
            yield first, last
            first = number
        last = number
    if first is not None:
        yield first, last
