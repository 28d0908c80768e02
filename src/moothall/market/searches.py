"""Searches wait for each other, so that deals do not wait for them: each reads the whole directory of skills."""

from collections import deque
from collections.abc import Callable
from functools import partial

from moothall.hall.outside import Result, Store
from moothall.market.books import Books


class Searches:
    """A store for those who only look: it has one unit of theirs at a time, and the others wait here.

    A session waits for its answer before its next command is read, so connections bound the queue.
    """

    def __init__(self, store: Store[Books]) -> None:
        self._store = store
        self._waiting: deque[Callable[[], None]] = deque()
        self._busy = False

    def submit(
        self,
        work: Callable[[Books], Result],
        done: Callable[[Result], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._waiting.append(
            lambda: self._store.submit(work, partial(self._tell, done), partial(self._tell, failed))
        )
        if not self._busy:
            self._go_on()

    def _tell(self, told: Callable[[Result], None], answer: Result) -> None:
        self._go_on()
        told(answer)

    def _go_on(self) -> None:
        self._busy = bool(self._waiting)
        if self._busy:
            self._waiting.popleft()()
