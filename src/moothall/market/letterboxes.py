"""An agent that does not read is not sent more offers than its connection can hold.

A few senders within their rate are more than many lines take. An offer that would fill more than half of the outbox
is refused before it is kept: nothing is lost, and the connection stays open. The other half is for all else, as it
is with FILE_CHUNK (`hall.chat`). Offers on their way through the store count as well.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final, TypeVar

from moothall.errors import RateLimited
from moothall.hall.outside import Store
from moothall.hall.roster import Present
from moothall.hall.services import Services

MORE: Final = 512  # bytes by which the notice of an offer is longer than the offer

Kept = TypeVar("Kept")
Result = TypeVar("Result")


class Letterboxes:
    def __init__(self) -> None:
        self._on_the_way: Counter[str] = Counter()  # bytes, by the id of the recipient

    def admit(self, hall: Services, target: Present, length: int, store: Store[Kept]) -> Store[Kept]:
        """The store to hand an offer of `length` bytes to, once; or RateLimited."""
        size = length + MORE
        waiting = target.link.unread + self._on_the_way[target.id]
        if waiting and waiting + size > hall.settings.outbox_limit // 2:
            raise RateLimited(f"{target.address} does not read this fast; send this offer again in a moment")
        return _Counting(store, self._on_the_way, target.id, size)


class _Counting(Store[Kept]):
    """Counts the bytes of an offer while the store has it, however that ends."""

    def __init__(self, store: Store[Kept], on_the_way: Counter[str], recipient: str, size: int) -> None:
        self._store = store
        self._on_the_way = on_the_way
        self._recipient = recipient
        self._size = size

    def submit(
        self,
        work: Callable[[Kept], Result],
        done: Callable[[Result], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        def finish(result: Result) -> None:
            self._arrived()
            done(result)

        def fail(error: BaseException) -> None:
            self._arrived()
            failed(error)

        self._on_the_way[self._recipient] += self._size
        self._store.submit(work, finish, fail)

    def _arrived(self) -> None:
        self._on_the_way[self._recipient] -= self._size
        if not self._on_the_way[self._recipient]:
            del self._on_the_way[self._recipient]
