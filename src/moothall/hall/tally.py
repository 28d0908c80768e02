"""Counts of what happened in the hall, as plain integers; the metrics read them."""

from collections import Counter


class Tally:
    __slots__ = ("fanout", "malformed", "received", "redacted", "refused", "security", "throttled")

    def __init__(self) -> None:
        self.malformed = 0
        self.received: Counter[str] = Counter()  # valid messages by type
        self.throttled = 0  # times that the hall stopped reading from a session over its limits
        self.refused: Counter[str] = Counter()  # by error code
        self.security: Counter[str] = Counter()  # by event
        self.redacted: Counter[str] = Counter()  # by kind of secret
        self.fanout: Counter[int] = Counter()  # broadcasts by number of members
