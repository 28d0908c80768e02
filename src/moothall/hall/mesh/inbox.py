"""Envelopes for agents that are away, until they come and read them.

An inbox has a cursor: a number that grows with each envelope. An agent reads what is after its cursor, and by that
confirms what it has read before: only then it is removed. So an agent that loses its connection while it reads
loses nothing.
"""

from collections.abc import Callable
from itertools import islice
from typing import Final, NamedTuple, Protocol

from moothall.hall.mesh.frames import MAX_PAGE_BYTES
from moothall.hall.outside import Clock
from moothall.hall.shared_memory import SharedMemory
from moothall.wire.mesh.envelope import MICROSECONDS, is_offer, sender_of


class Page(NamedTuple):
    """A part of an inbox, the oldest first."""

    envelopes: tuple[tuple[int, bytes], ...]  # each with its cursor
    more: bool
    lost: int  # envelopes that had to make way since the last confirmed one


class Inboxes(Protocol):
    """The inboxes of all agents. Each call ends with a callback, on the event loop."""

    def put(
        self,
        recipient: bytes,
        raw: bytes,
        done: Callable[[bool], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """`done` is called with False if there is no room for it."""

    def read(
        self,
        recipient: bytes,
        after: int | None,
        limit: int,
        done: Callable[[Page], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """Remove all up to `after`, and return what follows. An `after` that was never given out removes nothing
        and returns all: the cursors of this hall may have begun anew."""

    def newest(
        self, recipient: bytes, done: Callable[[int], None], failed: Callable[[BaseException], None]
    ) -> None:
        """The cursor of the newest envelope, 0 if there is none."""


# -- in memory ---------------------------------------------------------------------------------------------

MAX_ENVELOPES: Final = 256  # of one agent
MAX_BYTES: Final = 1024 * 1024  # of one agent
MAX_TOTAL: Final = 64 * 1024 * 1024  # bytes of all
MAX_AGE: Final = 24 * 60 * 60  # seconds
PER_ENVELOPE: Final = 400  # bytes of memory besides the envelope itself, with those for its sender


class _Entry(NamedTuple):
    cursor: int
    at: float
    raw: bytes


class _Sender(NamedTuple):
    """Whose envelope it is, and whether it is an offer. Strangers can send offers, under any number of keys."""

    is_offer: bool
    key: bytes


class _Box:
    """The inbox of one agent."""

    __slots__ = ("_memory", "_senders", "entries", "lost", "size")

    def __init__(self, memory: SharedMemory) -> None:
        self._memory = memory
        self._senders: dict[_Sender, int] = {}  # bytes of each
        self.entries: list[_Entry] = []  # a deque would take 600 bytes for the first one
        self.size = 0
        self.lost = 0
        memory.add(self)

    def add(self, entry: _Entry) -> None:
        self.entries.append(entry)
        self._count(entry.raw, len(entry.raw) + PER_ENVELOPE)
        if len(self.entries) > MAX_ENVELOPES:
            self._lose(self._least_missed())
        self.shrink(self._memory.per_holder)

    def shrink(self, size: int) -> None:
        while self.size > size:
            self._lose(self._least_missed())

    def expire(self, before: float) -> None:
        while self.entries and self.entries[0].at <= before:
            self._lose(0)

    def _least_missed(self) -> int:
        """The place of the oldest envelope of the sender that has most bytes here: or one sender could push out
        what all others have sent. Offers make way before all else: or strangers, under many keys, could push out
        what belongs to deals."""
        most = max(self._senders, key=lambda sender: (sender.is_offer, self._senders[sender]))
        return next(place for place, entry in enumerate(self.entries) if _sender(entry.raw) == most)

    def confirm(self, cursor: int) -> None:
        """The agent has all up to this one."""
        while self.entries and self.entries[0].cursor <= cursor:
            self._remove(0)
        self.lost = 0

    def _lose(self, place: int) -> None:
        self._remove(place)
        self.lost += 1

    def _remove(self, place: int) -> None:
        raw = self.entries[place].raw
        del self.entries[place]
        self._count(raw, -len(raw) - PER_ENVELOPE)

    def _count(self, raw: bytes, size: int) -> None:
        self.size += size
        self._memory.used += size
        sender = _sender(raw)
        held = self._senders.get(sender, 0) + size
        if held:
            self._senders[sender] = held
        else:
            del self._senders[sender]


def _sender(raw: bytes) -> _Sender:
    return _Sender(is_offer(raw), sender_of(raw))


class MemoryInboxes:
    """Inboxes that end with the process.

    A cursor is at least the time in microseconds. So the cursors of a hall that was restarted go on where the last
    process ended, and an agent that kept its own misses nothing.
    """

    def __init__(self, clock: Clock, *, limit: int = MAX_TOTAL) -> None:
        self._clock = clock
        self._memory = SharedMemory(limit, MAX_BYTES)
        self._boxes: dict[bytes, _Box] = {}  # the one with the newest envelope is the last
        self._last = 0  # cursor

    def put(
        self,
        recipient: bytes,
        raw: bytes,
        done: Callable[[bool], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        now = self._clock.monotonic()
        self._expire(now)
        box = self._boxes.pop(recipient, None) or _Box(self._memory)
        self._boxes[recipient] = box
        self._last = max(self._last + 1, int(self._clock.time() * MICROSECONDS))
        box.add(_Entry(self._last, now, raw))
        if self._memory.used > self._memory.limit:
            self._memory.make_room()
        done(bool(box.entries) and box.entries[-1].cursor == self._last)

    def read(
        self,
        recipient: bytes,
        after: int | None,
        limit: int,
        done: Callable[[Page], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._expire(self._clock.monotonic())
        box = self._boxes.get(recipient)
        if box is None:
            done(Page((), more=False, lost=0))
            return
        box.expire(self._clock.monotonic() - MAX_AGE)
        lost = box.lost
        if after is not None and after <= self._last:
            box.confirm(after)
        if not box.entries:
            self._forget(recipient)
        done(_page(box, limit, lost))

    def newest(
        self, recipient: bytes, done: Callable[[int], None], failed: Callable[[BaseException], None]
    ) -> None:
        box = self._boxes.get(recipient)
        done(box.entries[-1].cursor if box is not None and box.entries else 0)

    def statistics(self) -> tuple[int, int, int]:
        """Inboxes, envelopes, bytes."""
        envelopes = sum(len(box.entries) for box in self._boxes.values())
        return len(self._boxes), envelopes, self._memory.used

    def _expire(self, now: float) -> None:
        """Forget inboxes whose newest envelope is too old."""
        while self._boxes:
            recipient, box = next(iter(self._boxes.items()))
            if box.entries and box.entries[-1].at > now - MAX_AGE:
                return
            self._forget(recipient)

    def _forget(self, recipient: bytes) -> None:
        self._memory.discard(self._boxes.pop(recipient))


def _page(box: _Box, limit: int, lost: int) -> Page:
    envelopes: list[tuple[int, bytes]] = []
    size = 0
    for entry in islice(box.entries, limit):
        size += len(entry.raw)
        if envelopes and size > MAX_PAGE_BYTES:
            break
        envelopes.append((entry.cursor, entry.raw))
    return Page(tuple(envelopes), more=len(envelopes) < len(box.entries), lost=lost)
