"""Promises to answer: each claim on the floor is one (seed 003).

Only a message to the channel keeps a promise, one message for each claim. Leaving or disconnecting ends the claim,
but not the promise. All promises live equally long, so the dictionary's own order is the order of their deadlines.
`now` is in seconds, of a clock that never goes back.
"""

from collections.abc import Iterator
from typing import NamedTuple

Key = tuple[str, str]  # channel, message id


class Promise(NamedTuple):
    """An answer that is due. An earlier claim that takes the floor takes over the promise, with its deadline."""

    serial: int
    made_at: float
    due: float
    debtor: str
    address: str | None
    key: Key


class Promises:
    def __init__(self, ttl: float) -> None:
        self._ttl = ttl
        self._promises: dict[int, Promise] = {}  # in the order of their deadlines
        self._serial = 0
        self.by_debtor: dict[str, dict[Key, int]] = {}  # the oldest first

    def __iter__(self) -> Iterator[Promise]:
        """In the order of their deadlines."""
        return iter(self._promises.values())

    def make(self, key: Key, debtor: str, address: str | None, now: float) -> None:
        """The agent said that it answers. Saying it again gives it no more time."""
        if key not in self.by_debtor.get(debtor, ()):
            self._serial += 1
            self._owe(Promise(self._serial, now, now + self._ttl, debtor, address, key))

    def oldest(self, debtor: str, channel: str) -> Key | None:
        """What the oldest promise of the agent in the channel is about."""
        return next((key for key in self.by_debtor.get(debtor, ()) if key[0] == channel), None)

    def settle(self, debtor: str, key: Key) -> Promise | None:
        """End a promise, if there is one. Returns it."""
        if key not in self.by_debtor.get(debtor, ()):
            return None
        return self._promises.pop(self._forgive(debtor, key))

    def take_overdue(self, now: float) -> Iterator[Promise]:
        """Remove the overdue promises and return them, the earliest first."""
        while self._promises:
            promise = next(iter(self._promises.values()))
            if promise.due > now:
                return
            self.settle(promise.debtor, promise.key)
            yield promise

    def pass_on(self, key: Key, loser: str, winner: str, address: str | None, now: float) -> bool:
        """The winner owes the answer instead of the loser, by the same deadline.

        False if the loser owes none, or the winner owes one already.
        """
        if key not in self.by_debtor.get(loser, ()) or key in self.by_debtor.get(winner, ()):
            return False
        serial = self._forgive(loser, key)
        # In the place of the loser's, because the order is that of the deadlines.
        self._owe(Promise(serial, now, self._promises[serial].due, winner, address, key))
        return True

    def _owe(self, promise: Promise) -> None:
        self._promises[promise.serial] = promise
        self.by_debtor.setdefault(promise.debtor, {})[promise.key] = promise.serial

    def _forgive(self, debtor: str, key: Key) -> int:
        owed = self.by_debtor[debtor]
        serial = owed.pop(key)
        if not owed:
            del self.by_debtor[debtor]
        return serial
