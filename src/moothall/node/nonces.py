"""The nonces of all agents of a node. They never go back: not after a crash, and not when the clock does (mesh wire
3.2).

One counter serves all agents: a receiver wants nonces that rise for each sender, and does not mind gaps. The store
has a number that no nonce is above. It is on the disk before a nonce up to it is used.
"""

from collections.abc import Callable
from typing import Final

from moothall.errors import NodeRefused
from moothall.wire.mesh.nonces import NonceCounter

RESERVED: Final = 1_000_000  # nonces in one write
_MARGIN: Final = RESERVED // 2  # more are reserved when fewer are left


class StoredNonces:
    """`reserve` writes a number to the store, and calls back when it is on the disk."""

    def __init__(self, *, last: int, now: int, reserve: Callable[[int, Callable[[int], None]], None]) -> None:
        """`last` is the number in the store, `now` Unix microseconds."""
        self._counter = NonceCounter(last=last, now=now)
        self._reserve = reserve
        self._reserved = 0
        self._is_reserving = False

    @property
    def first_reservation(self) -> int:
        """Goes into the store before the first nonce is used: then call `reserved`."""
        return self._counter.last + RESERVED

    def reserved(self, up_to: int) -> None:
        self._reserved = max(self._reserved, up_to)
        self._is_reserving = False

    def failed(self) -> None:
        """The store did not take a reservation. The next nonce asks for it again."""
        self._is_reserving = False

    def next(self) -> int:
        """Raises NodeRefused (503) if the store is so far behind that no nonce may be used."""
        if self._reserved - self._counter.last < _MARGIN and not self._is_reserving:
            self._is_reserving = True
            self._reserve(self._counter.last + RESERVED, self.reserved)
        if self._counter.last >= self._reserved:
            raise NodeRefused(503, "The node cannot send now: its disk is behind. Try again later.")
        return self._counter.next()
