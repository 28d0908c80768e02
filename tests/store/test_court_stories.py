"""The stories of `tests/court/simulation.py` on real tables of both engines: the hall forgets, the books do not."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from moothall.court.books import Books
from moothall.errors import Refusal
from moothall.hall.outside import Store
from moothall.store.dialect import Connection
from moothall.store.opening import connect, prepare
from moothall.store.row_cache import RowCache
from moothall.store.transaction import Transaction
from tests.court.simulation import Simulation
from tests.store.support import Place

pytestmark = pytest.mark.slow

Result = TypeVar("Result")

CASES = 20


class SqlArchive:
    """Without the threads: each unit of work is a transaction of its own, and done at once."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._connection: Connection | None = None
        self._cache = RowCache()

    def open(self) -> Store[Books]:
        """What is not in the database is forgotten."""
        self.close()
        self._cache = RowCache()
        self._connection = connect(self._place.directory.path, self._place.url, create=True)
        prepare(self._connection, self._place.directory, self._place.log)
        if not self._connection.dialect.locks_rows:
            self._connection.execute("PRAGMA synchronous = OFF")  # no power cut here
        return self

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def submit(
        self,
        work: Callable[[Books], Result],
        done: Callable[[Result], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        try:
            result = self.look(work)
        except Refusal as error:
            failed(error)
        else:
            done(result)

    def look(self, work: Callable[[Books], Result]) -> Result:
        connection = self._connection
        assert connection is not None
        transaction = Transaction(connection, self._cache)
        transaction.begin()
        books = transaction.unit()
        try:
            result = work(books)
        except Refusal:
            connection.execute("ROLLBACK")
            raise
        books.keep()
        transaction.write()
        transaction.commit()
        return result


@pytest.fixture
def archive(place: Place) -> Iterator[SqlArchive]:
    archive = SqlArchive(place)
    yield archive
    archive.close()


@pytest.mark.parametrize("seed", range(3))
def test_every_case_ends_and_verifies_whatever_happens(seed: int, place: Place, archive: SqlArchive) -> None:
    story = Simulation(seed, archive)
    story.run(CASES)
    assert len(story.check()) >= CASES
    assert place.problems() == []
