"""Numbers about a store that were right a moment ago, for /health and /metrics, which never wait for a disk."""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from moothall.hall.agenda import Appointment
from moothall.hall.hall import Hall
from moothall.hall.outside import Store

RECOUNT_SECONDS: Final = 1.0  # how old they may be
MOST_OF_THE_TIME: Final = 0.02  # counting a million rows takes a while: then they may be older

Books = TypeVar("Books")
Counted = TypeVar("Counted")


class Counts(Generic[Books, Counted]):
    def __init__(self, store: Store[Books], count: Callable[[Books], Counted], nothing: Counted) -> None:
        self._store = store
        self._count = count
        self._planned: Appointment | None = None
        self._pause = RECOUNT_SECONDS
        self.latest = nothing

    def changed(self, hall: Hall) -> None:
        """The store has changed: count again soon."""
        if self._planned is None:
            self._planned = hall.agenda.at(hall.now() + self._pause, lambda: self.count(hall))

    def count(self, hall: Hall) -> None:
        self._planned = None
        begun = hall.now()

        def counted(latest: Counted) -> None:
            self.latest = latest
            self._pause = max(RECOUNT_SECONDS, (hall.now() - begun) / MOST_OF_THE_TIME)

        def failed(error: BaseException) -> None:
            hall.log.warning("count_failed", error=repr(error))

        self._store.submit(self._count, counted, failed)
