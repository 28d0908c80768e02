"""Deadlines that are kept in a store and outlive a restart.

The store knows what is due when; here is one appointment for the earliest of them, and what is done when it has
come. Each thing that is due is a unit of work of its own. What comes next is asked only after the last of them,
and one that failed is tried again later, not at once.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, Generic, TypeVar

from moothall.hall.agenda import Appointment
from moothall.hall.outside import Store
from moothall.hall.services import Services

AT_ONCE: Final = 100  # of those that are due, before the next ones are asked for
RETRY_SECONDS: Final = 5.0  # after the store failed
LOOK_SECONDS: Final = 60.0  # between looks for what another hall on the same database left behind
HELD_MS: Final = 250  # until the next look if another hall has locked what is due

Books = TypeVar("Books")
Decided = TypeVar("Decided")


class Deadlines(Generic[Books, Decided]):
    def __init__(
        self,
        store: Store[Books],
        *,
        find: Callable[[Books, int], tuple[list[str], int | None]],
        lapse: Callable[[Books, str, int], Decided | None],
        tell: Callable[[Services, Decided], None],
    ) -> None:
        """`find` tells the ids of what is due at a time, and the next deadline; `lapse` decides what becomes of
        one, or that another hall was faster; `tell` is called with what was decided, once it is committed."""
        self._store = store
        self._find = find
        self._lapse = lapse
        self._tell = tell
        self._next: Appointment | None = None

    def plan(self, hall: Services, deadline: int) -> None:
        """There is something with this deadline, in milliseconds since the epoch."""
        self._look_at(hall, hall.now() + max(0, deadline - hall.timestamp()) / 1000)

    def act(self, hall: Services) -> None:
        """Do what is due, also what was while the hall was closed. A hall that closes leaves it to the next."""
        if hall.is_closing:
            return
        now = hall.timestamp()

        def found(answer: tuple[list[str], int | None]) -> None:
            if hall.is_closing:
                return
            due, deadline = answer
            if due:
                self._let_lapse(hall, due, now)
                return
            self._look_at(hall, hall.now() + LOOK_SECONDS)
            if deadline is not None:
                self.plan(hall, deadline if deadline > now else now + HELD_MS)

        self._store.submit(
            lambda books: self._find(books, now), found, lambda error: self._try_again(hall, error)
        )

    def _look_at(self, hall: Services, due: float) -> None:
        planned = self._next
        if planned is not None and not planned.cancelled:
            if planned.due <= due:
                return
            hall.agenda.cancel(planned)
        self._next = hall.agenda.at(due, lambda: self.act(hall))

    def _let_lapse(self, hall: Services, due: list[str], now: int) -> None:
        waiting = len(due)
        failures: list[BaseException] = []

        def one_less() -> None:
            nonlocal waiting
            waiting -= 1
            if waiting:
                return
            if failures:
                self._try_again(hall, failures[0])
            else:
                self.act(hall)

        def done(decided: Decided | None) -> None:
            try:
                if decided is not None:
                    self._tell(hall, decided)
            finally:
                one_less()  # whatever a bug did to one of them, the others' time ends too

        def failed(error: BaseException) -> None:
            failures.append(error)
            one_less()

        for each in due:
            self._store.submit(partial(self._one, each, now), done, failed)

    def _one(self, due: str, now: int, books: Books) -> Decided | None:
        return self._lapse(books, due, now)

    def _try_again(self, hall: Services, error: BaseException) -> None:
        hall.log.warning("deadline_failed", error=repr(error))
        self._look_at(hall, hall.now() + RETRY_SECONDS)
