"""Units of work on their way: handed in on the event loop, done on a thread of the store, answered on the loop.

The interpreter runs one thread at a time. A store that computes takes it back after each callback of the loop, so
that a frame among many that arrive together would wait for as many pieces of the store's work as there are frames
before it. Hence three rules that keep a hall quick to hear while its store is at full load: the store stops between
units until the loop has done what was ready (`LoopFirst`); what was committed together is answered a little at a
time (`Answers`), so that not all callers go on at the same moment; and where both want one processor, the loop has
it first (`step_back`).
"""

import asyncio
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from time import monotonic
from typing import Any, Final, Protocol, TypeVar

from msgspec import Struct

from moothall.errors import MoothallError
from moothall.store.books import SqlBooks, StoreBooks

# Answers of one turn of the loop, which ends with a write to each connection: at least so many, and as many as are
# told in this time. So short answers share a write, and chat does not wait longer.
ANSWERS_PER_TURN: Final = 2
ANSWER_SECONDS: Final = 0.00002
# Steps of `nice`: the loop interrupts, and other programs still leave it a tenth of a processor
STEP_BACK: Final = 10

Result = TypeVar("Result")


class StoreFailed(MoothallError):
    """The database failed. Unless the message says otherwise, nothing was saved."""


class Unit(Struct, frozen=True):
    work: Callable[[StoreBooks], Any]
    done: Callable[[Any], None]
    failed: Callable[[BaseException], None]

    def run(self, books: SqlBooks) -> "Answer":
        """Exceptions of the work itself go to the caller."""
        result = self.work(books)
        books.keep()
        return Answer(self.done, result)

    def fail(self, error: BaseException) -> "Answer":
        return Answer(self.failed, error)


class Answer(Struct, frozen=True):
    tell: Callable[[Any], None]
    what: Any


class Engine(Protocol):
    def submit(
        self,
        work: Callable[[StoreBooks], Result],
        done: Callable[[Result], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """Run `work` in a transaction, on another thread; after COMMIT call `done` here, else `failed`.

        A `work` that collides with another is run again, so it must do nothing but read and save.
        """

    def statistics(self) -> "Statistics": ...

    def close(self) -> None:
        """Finish what was submitted. The answers reach the loop in its next turns."""


@dataclass(slots=True)
class Statistics:
    waiting: int = 0  # units that were submitted and not begun
    units: int = 0  # that were answered, committed or refused
    commits: int = 0
    commit_seconds: float = 0.0  # in COMMIT: the disk's part
    largest_batch: int = 0  # units that shared one commit
    repeated: int = 0  # units that were run again because they collided with another
    failed: int = 0  # units that the database did not keep
    batch_sizes: dict[int, int] = field(default_factory=dict)  # commits by size: up to 1, 2, 4, 8 ...

    def committed(self, units: int, seconds: float) -> None:
        self.units += units
        self.commits += 1
        self.commit_seconds += seconds
        self.largest_batch = max(self.largest_batch, units)
        size = 1 << max(0, units - 1).bit_length()
        self.batch_sizes[size] = self.batch_sizes.get(size, 0) + 1

    def copy(self, waiting: int) -> "Statistics":
        return replace(self, waiting=waiting, batch_sizes=dict(self.batch_sizes))


class Answers:
    """From a thread of the store to the loop on which the store was opened: in order, a few in each turn."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self._loop = asyncio.get_running_loop()
        self._now = now
        self._waiting: deque[Answer] = deque()

    def send(self, answers: Iterable[Answer]) -> None:
        self._loop.call_soon_threadsafe(self._line_up, answers)

    def _line_up(self, answers: Iterable[Answer]) -> None:
        is_first = not self._waiting
        self._waiting.extend(answers)
        if is_first:
            self._tell_some()

    def _tell_some(self) -> None:
        end = self._now() + ANSWER_SECONDS
        told = 0
        while self._waiting and (told < ANSWERS_PER_TURN or self._now() < end):
            self._tell(self._waiting.popleft())
            told += 1
        if self._waiting:
            self._loop.call_soon(self._tell_some)

    def _tell(self, answer: Answer) -> None:
        try:
            answer.tell(answer.what)
        except Exception as error:  # noqa: BLE001  # each fails on its own
            self._loop.call_exception_handler(
                {"message": "an answer of the store failed", "exception": error}
            )


class LoopFirst:
    """A thread of the store waits here until the loop has done whatever was ready."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._given: SimpleQueue[None] = SimpleQueue()
        self._ended = False

    def wait(self) -> None:
        if not self._ended:
            self._loop.call_soon_threadsafe(self._given.put, None)
            self._given.get()

    def end(self) -> None:
        """The loop is about to wait for the thread, so the thread must not wait for the loop."""
        self._ended = True
        self._given.put(None)


def step_back() -> None:
    """The loop interrupts the calling thread when both want the same processor; elsewhere than on Linux, where
    threads have no niceness of their own, nothing happens."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + STEP_BACK)
