"""Units of work that must be done one after the other: those of one conversation, or of one agent's offer.

A store with several threads may finish a later unit first. So the next one of a lane is handed in when the one
before has been answered. A lane is bounded: one that is full refuses.
"""

from collections import deque
from collections.abc import Callable, Hashable
from typing import Final, TypeVar

from moothall.errors import RateLimited
from moothall.hall.outside import Books, Store

MAX_WAITING: Final = 64  # units of one lane, besides the one that is being done

Result = TypeVar("Result")


class Lanes:
    def __init__(self) -> None:
        # What waits in lanes with a unit that is being done
        self._waiting: dict[Hashable, deque[Callable[[], None]]] = {}

    def __len__(self) -> int:
        """Units that wait or are being done."""
        return sum(1 + len(lane) for lane in self._waiting.values())

    def submit(
        self,
        lane: Hashable,
        store: Store[Books],
        work: Callable[[Books], Result],
        done: Callable[[Result], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """As `Store.submit`, after all units of this lane. A full lane fails with RateLimited."""

        def finished(result: Result) -> None:
            try:
                done(result)
            finally:
                self._go_on(lane)

        def broke(error: BaseException) -> None:
            try:
                failed(error)
            finally:
                self._go_on(lane)

        def begin() -> None:
            store.submit(work, finished, broke)

        waiting = self._waiting.get(lane)
        if waiting is None:
            self._waiting[lane] = deque()
            begin()
        elif len(waiting) < MAX_WAITING:
            waiting.append(begin)
        else:
            failed(
                RateLimited(
                    f"{MAX_WAITING} messages wait for this conversation, which is the limit. Send it later"
                )
            )

    def _go_on(self, lane: Hashable) -> None:
        waiting = self._waiting[lane]
        if waiting:
            waiting.popleft()()
        else:
            del self._waiting[lane]
