"""Memory that many holders share, and that is fair: when it is full, the fullest of them make way.

So a holder with little keeps all of it, however much others hold.
"""

from typing import Protocol


class Holder(Protocol):
    """A part of what is held, such as the history of one channel."""

    @property
    def size(self) -> int:
        """Bytes."""

    def shrink(self, size: int) -> None:
        """Forget the oldest until the rest has at most this number of bytes."""


class SharedMemory:
    """The limits of all holders, and what they hold together. Each holder counts what it adds in `used`."""

    def __init__(self, limit: int, per_holder: int) -> None:
        self.limit = limit  # bytes, of all of them
        self.per_holder = per_holder
        self.used = 0
        self._holders: set[Holder] = set()

    def add(self, holder: Holder) -> None:
        self._holders.add(holder)

    def discard(self, holder: Holder) -> None:
        """The holder is gone."""
        holder.shrink(0)
        self._holders.discard(holder)

    def make_room(self) -> None:
        """Free an eighth of the limit. To go through all holders is then seldom necessary."""
        target = self.limit - self.limit // 8
        largest = sorted(self._holders, key=lambda holder: holder.size, reverse=True)
        rest = self.used
        for number, holder in enumerate(largest):
            # The bytes that each of the larger ones may keep, if those from here on keep all that they have.
            rest -= holder.size
            share = (target - rest) // (number + 1)
            if number + 1 == len(largest) or share >= largest[number + 1].size:
                for larger in largest[: number + 1]:
                    larger.shrink(share)
                return
