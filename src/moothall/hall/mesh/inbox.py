"""Envelopes for agents that are away, until they come and read them.

An inbox has a cursor: a number that grows with each envelope. An agent reads what is after its cursor, and by that
confirms what it has read before: only then it is removed. So an agent that loses its connection while it reads
loses nothing.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol


class Page(NamedTuple):
    """A part of an inbox, the oldest first."""

    envelopes: tuple[tuple[int, bytes], ...]  # each with its cursor
    more: bool
    lost: int  # envelopes that had to make way since the last confirmed one


class Inboxes(Protocol):
    """The inboxes of all agents. Each call ends with a call back, on the event loop."""

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
