"""Numbers for /health and /metrics: what happened in the hall (`Tally`), and what is in a store (`Counts`)."""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from moothall.hall.agenda import Appointment
from moothall.hall.outside import Store

if TYPE_CHECKING:
    from moothall.hall.services import Timekeeper

RECOUNT_SECONDS: Final = 1.0  # how old they may be
MOST_OF_THE_TIME: Final = 0.02  # counting a million rows takes a while: then they may be older
OLDEST_SECONDS: Final = 10.0  # a busy machine makes one count slow, and people look at the next one

Books = TypeVar("Books")
Counted = TypeVar("Counted")


class Tally:
    """Counts of what happened in the hall, as plain integers; the metrics read them."""

    __slots__ = ("fanout", "malformed", "received", "redacted", "refused", "security", "throttled")

    def __init__(self) -> None:
        self.malformed = 0
        # Valid messages by type. All types are in it from the start: a plain dictionary is the fastest counter.
        self.received: dict[str, int] = {}
        self.throttled = 0  # times that the hall stopped reading from a session over its limits
        self.refused: Counter[str] = Counter()  # by error code
        self.security: Counter[str] = Counter()  # by event
        self.redacted: Counter[str] = Counter()  # by kind of secret
        self.fanout: dict[int, int] = {}  # broadcasts by number of members


class Counts(Generic[Books, Counted]):
    """Numbers about a store that were right a moment ago: who asks for them never waits for a disk."""

    def __init__(self, store: Store[Books], count: Callable[[Books], Counted], nothing: Counted) -> None:
        self._store = store
        self._count = count
        self._planned: Appointment | None = None
        self._pause = RECOUNT_SECONDS
        self._begun = 0  # counts
        self._shown = 0  # the number of the one in `latest`
        self.latest = nothing

    def changed(self, hall: "Timekeeper") -> None:
        """The store has changed: count again soon."""
        if self._planned is None:
            self._planned = hall.agenda.at(hall.now() + self._pause, lambda: self.count(hall))

    def count(self, hall: "Timekeeper") -> None:
        self._planned = None
        begun = hall.now()
        self._begun += 1
        number = self._begun

        def counted(latest: Counted) -> None:
            if number > self._shown:  # a store with several threads may answer an older question later
                self._shown = number
                self.latest = latest
            if number > 1:  # the first one also waits for the store to open
                wanted = (hall.now() - begun) / MOST_OF_THE_TIME
                self._pause = min(max(RECOUNT_SECONDS, wanted), OLDEST_SECONDS)

        def failed(error: BaseException) -> None:
            hall.log.warning("count_failed", error=repr(error))

        self._store.submit(self._count, counted, failed)
