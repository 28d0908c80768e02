"""Searches wait for each other, so that deals do not wait for them: each reads the whole directory of skills."""

from collections import deque
from collections.abc import Callable
from functools import partial

from moothall.hall.outside import Result, Store
from moothall.hall.session import Session
from moothall.market.books import Books


class Searches:
    """The store has one unit of theirs at a time, and the others wait here.

    A session waits for its answer before its next command is read, and nobody searches for one that is gone, so
    connections bound the queue: who comes back again and again has one place in it.
    """

    def __init__(self, store: Store[Books]) -> None:
        self._store = store
        self._waiting: deque[tuple[Session, Callable[[], None]]] = deque()
        self._busy = False

    def submit(
        self,
        session: Session,
        work: Callable[[Books], Result],
        done: Callable[[Result], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        def begin() -> None:
            self._store.submit(work, partial(self._tell, done), partial(self._tell, failed))

        self._waiting.append((session, begin))
        if not self._busy:
            self._go_on()

    def _tell(self, told: Callable[[Result], None], answer: Result) -> None:
        self._go_on()
        told(answer)

    def _go_on(self) -> None:
        self._busy = False
        while self._waiting and not self._busy:
            session, begin = self._waiting.popleft()
            if not session.closed:
                self._busy = True
                begin()
