"""What the hall needs from outside: time, randomness, connections, a disk. All of it is handed in.

Nothing in this room opens a socket or a file, sleeps, or reads a clock, so that a test can run a day of hall
life in a second, and twice the same.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

from moothall.wire.outgoing import Bundle, Outgoing

Result = TypeVar("Result")
Books = TypeVar("Books", covariant=True)
Written = Callable[[bool], None]


class Clock(Protocol):
    def time(self) -> float:
        """Seconds since the Unix epoch: what peers are told."""

    def monotonic(self) -> float:
        """Seconds that never go back: what limits and deadlines are measured with."""


class Link(Protocol):
    """One connection, as the hall sees it. All calls return at once and are harmless after the end."""

    __slots__ = ()

    @property
    def unread(self) -> int:
        """Bytes that were put and that the connection has not taken yet."""

    def put(self, outgoing: Outgoing | Bundle) -> None:
        """Queue a message, as this link's wire has it; one that the wire cannot say is dropped."""

    def when_written(self, told: Written) -> None:
        """Call `told` once: with True when all that was put so far is written, with False if it never will be."""

    def close(self, code: int, reason: str) -> None:
        """Send what is queued, then close."""

    def pause(self) -> None:
        """Stop reading: the hall is waiting for the disk on this session's behalf."""

    def resume(self) -> None: ...


class Relay(Protocol):
    """A connection of another wire, which several agents may share. Its wire carries chat and no notices."""

    is_gone: bool  # it has ended, and its agents are about to be removed

    def put(self, outgoing: Outgoing) -> None:
        """A line of a channel: once, however many of its agents are members."""

    def when_written(self, told: Written) -> None:
        """As for a link."""


class Store(Protocol[Books]):
    """The books of a room, kept where they survive (see `moothall.store.units`)."""

    def submit(
        self,
        work: Callable[[Books], Result],
        done: Callable[[Result], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """Run `work` in a transaction, somewhere else; once it is committed call `done` here, else `failed`."""


class Log(Protocol):
    """Security events, with addresses and counts; never contents."""

    def info(self, event: str, **facts: object) -> object: ...

    def warning(self, event: str, **facts: object) -> object: ...


Entropy = Callable[[int], bytes]  # like os.urandom
Pick = Callable[[int], int]  # a number from 0 up to, not including, the argument
Alarm = Callable[[float], None]  # "call Hall.tick at this monotonic time, instead of the one named before"
