"""Pins on their way to the store, where they survive a restart and other halls find them.

A pin holds in this hall at once. Pins of a moment share a commit, so that a crowd costs a few of them. The first
pin of an identity that the store gets is the one that holds; a hall whose pin came second learns of the first.
"""

from collections.abc import Iterable
from typing import Final, Protocol

from moothall.hall.keep.registry import Pins
from moothall.hall.newids import Later
from moothall.hall.outside import Log, Store

SAVE_SECONDS: Final = 0.25  # pins of this time share a commit
RETRY_SECONDS: Final = 10.0  # after a commit that failed
# Another hall may commit a lower number a moment after a higher one was read here.
OVERLAP: Final = 100


class PinBooks(Protocol):
    def pin(self, pins: Iterable[tuple[str, bytes]]) -> dict[str, bytes]:
        """Keep these, unless another key was first. Returns the keys that hold."""

    def pinned_since(self, number: int) -> list[tuple[int, str, bytes]]:
        """(number, hash of the identity, key) of those with a higher number, in their order."""


class PinSaver:
    def __init__(self, pins: Pins, store: Store[PinBooks], last_number: int, later: Later, log: Log) -> None:
        """`last_number` is the highest of those that `pins` knows from the store."""
        self.pins: Final = pins
        self._store = store
        self._later = later
        self._log = log
        self.last_number = last_number  # of the pins that were read
        self._is_planned = False
        self._is_closed = False
        pins.on_pinned = self._plan

    def close(self) -> None:
        """Hand over what is left; the store must still be open."""
        self._is_closed = True
        self._hand_over()

    def read_again(self) -> None:
        """Another hall on the same store has pinned something."""
        since = self.last_number - OVERLAP

        def read(rows: list[tuple[int, str, bytes]]) -> None:
            for number, identity, key in rows:
                self.last_number = max(self.last_number, number)
                self.pins.learn(identity, key)

        def failed(error: BaseException) -> None:
            self._log.warning("pins_not_read", error=repr(error))

        self._store.submit(lambda books: books.pinned_since(since), read, failed)

    def _plan(self) -> None:
        if not self._is_planned:
            self._is_planned = True
            self._later(SAVE_SECONDS, self._save)

    def _save(self) -> None:
        if not self._is_closed:
            self._hand_over()

    def _hand_over(self) -> None:
        new = dict(self.pins.unsaved)
        if not new:
            return

        def saved(holding: dict[str, bytes]) -> None:
            for identity, key in holding.items():
                self.pins.learn(identity, key)
            self._is_planned = False
            if self.pins.unsaved:
                self._plan()

        def failed(error: BaseException) -> None:
            """They hold until the hall restarts, and are tried again; the operator should know before that."""
            self._log.warning("pins_not_saved", error=repr(error))
            self._later(RETRY_SECONDS, self._save)

        self._store.submit(lambda books: books.pin(new.items()), saved, failed)
