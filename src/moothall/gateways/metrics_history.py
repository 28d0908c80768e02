"""The metrics of the last hour, in memory: one sample every few seconds, in a ring of fixed size.

Pure: `sampling` reads the hall and the clock.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from itertools import dropwhile
from typing import Final, NamedTuple

import msgspec

PERIOD: Final = 5.0  # seconds between two samples
KEPT: Final = int(3600 / PERIOD)


class Gauges(NamedTuple):
    """What can be seen at one moment."""

    connections: int
    agents: int
    watchers: int
    outbox_bytes: int  # waiting for slow readers
    slow_readers: int
    lag: float  # of the event loop, in seconds: the worst since the last sample


class Totals(NamedTuple):
    """What has been counted since the hall was opened."""

    messages: int = 0
    frames_sent: int = 0
    throttled: int = 0
    overflows: int = 0
    refusals: Mapping[str, int] = {}  # by code


class Sample(msgspec.Struct, frozen=True, gc=False):
    """Counts are those since the sample before."""

    at: int  # milliseconds since 1970
    seconds: float  # since the sample before: a hall that is overloaded is late with them
    connections: int
    agents: int
    watchers: int
    outbox_bytes: int
    slow_readers: int
    lag: float
    messages: int
    frames_sent: int
    throttled: int
    overflows: int
    refusals: dict[str, int]


class MetricsHistory:
    """The samples of the last hour, oldest first. `at` and `totals` are those when it begins."""

    def __init__(self, at: int, totals: Totals) -> None:
        self._at = at
        self._totals = totals
        self._samples: deque[Sample] = deque(maxlen=KEPT)

    def __len__(self) -> int:
        return len(self._samples)

    def __iter__(self) -> Iterator[Sample]:
        return iter(self._samples)

    def since(self, at: int) -> list[Sample]:
        """The samples that were taken after this moment, in milliseconds since 1970."""
        return list(dropwhile(lambda sample: sample.at <= at, self._samples))

    def add(self, at: int, gauges: Gauges, totals: Totals) -> None:
        """One more sample; the oldest makes way. If the clock was set back, all that is later goes too."""
        while self._samples and self._samples[-1].at >= at:
            self._samples.pop()
        before = self._totals
        refusals = Counter(totals.refusals)
        refusals.subtract(before.refusals)
        self._samples.append(
            Sample(
                at,
                max(0, at - self._at) / 1000,
                *gauges,
                totals.messages - before.messages,
                totals.frames_sent - before.frames_sent,
                totals.throttled - before.throttled,
                totals.overflows - before.overflows,
                {code: count for code, count in sorted(refusals.items()) if count},
            )
        )
        self._at, self._totals = at, totals
