"""Counts of what happened in the hall, as plain integers; the metrics read them."""

from collections import Counter
from typing import Final

FANOUT_BUCKETS: Final = 16  # powers of two: up to 1, 2, 4 ... members


class Tally:
    __slots__ = ("fanout", "fanout_sum", "malformed", "received", "redacted", "refused", "security")

    def __init__(self) -> None:
        self.received: Counter[str] = Counter()  # valid messages by type
        self.malformed = 0
        self.refused: Counter[str] = Counter()  # by error code
        self.security: Counter[str] = Counter()  # by event
        self.redacted: Counter[str] = Counter()  # by kind of secret
        self.fanout = [0] * (FANOUT_BUCKETS + 1)
        self.fanout_sum = 0

    def count_fanout(self, members: int) -> None:
        self.fanout[min(max(members - 1, 0).bit_length(), FANOUT_BUCKETS)] += 1
        self.fanout_sum += members
