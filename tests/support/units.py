"""A store whose units of work are done at once, on a real database."""

from collections.abc import Callable

from moothall.hall.outside import Result
from moothall.store.books import StoreBooks
from moothall.store.units import StoreFailed
from tests.store.support import Place


class PlaceStore:
    def __init__(self, place: Place) -> None:
        self._place = place
        self.down = False
        self.held: list[Callable[[], None]] | None = None  # units that wait, where a test wants that

    def let_go(self) -> None:
        waiting, self.held = self.held or [], None
        for unit in waiting:
            unit()

    def submit(
        self,
        work: Callable[[StoreBooks], Result],
        done: Callable[[Result], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        if self.held is not None:
            self.held.append(lambda: self.submit(work, done, failed))
            return
        if self.down:
            failed(StoreFailed("not saved"))
            return
        with self._place.books() as books:
            result = work(books)
        done(result)
