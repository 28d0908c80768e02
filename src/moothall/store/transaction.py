"""One transaction: units of work one after the other, and one COMMIT for all. Both engines are built on it."""

from collections.abc import Sequence
from time import monotonic

from moothall.market.hooks import Subscription
from moothall.store.books import SqlBooks
from moothall.store.dialect import Connection
from moothall.store.row_cache import RowCache
from moothall.store.rows import Draft


class Transaction:
    def __init__(
        self,
        connection: Connection,
        cache: RowCache,
        subscriptions: Sequence[Subscription] = (),
        *,
        careful: bool = False,
        hall: str = "",
    ) -> None:
        """For `careful` and `hall` see `SqlBooks`."""
        self.changes = Draft()
        self._connection = connection
        self._cache = cache
        self._subscriptions = subscriptions
        self._careful = careful
        self._hall = hall

    def begin(self) -> None:
        self._connection.execute(self._connection.dialect.begin)

    def unit(self) -> SqlBooks:
        """The books for the next unit. They know what the units before it have changed."""
        return SqlBooks(
            self._connection,
            self._cache,
            self.changes,
            subscriptions=self._subscriptions,
            careful=self._careful,
            hall=self._hall,
        )

    def write(self) -> None:
        """Write what the units have changed. Raises Stale if another transaction has changed the same rows."""
        self.changes.write(self._connection)

    def commit(self) -> float:
        """Commit what was written, and put it into the cache. Return the seconds that COMMIT took."""
        began = monotonic()
        self._connection.execute("COMMIT")
        took = monotonic() - began
        self._cache.absorb(self.changes)
        return took
