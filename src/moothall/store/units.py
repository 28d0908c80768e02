"""Units of work on their way: handed in on the event loop, done on a thread of the store, answered on the loop."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, TypeVar

from moothall.errors import MoothallError
from moothall.store.books import SqlBooks, StoreBooks

Result = TypeVar("Result")


class StoreFailed(MoothallError):
    """The database did not do its part. Unless the message says otherwise, nothing was saved."""


class Unit(NamedTuple):
    work: Callable[[StoreBooks], Any]
    done: Callable[[Any], None]
    failed: Callable[[BaseException], None]

    def run(self, books: SqlBooks) -> "Answer":
        """Anything that escapes the work itself is for whoever handed it in."""
        result = self.work(books)
        books.keep()
        return Answer(self.done, result)

    def fail(self, error: BaseException) -> "Answer":
        return Answer(self.failed, error)


class Answer(NamedTuple):
    tell: Callable[[Any], None]
    what: Any


class Store(Protocol):
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
        """Finish what was submitted. The answers reach the loop when it runs next."""


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
    """From a thread of the store to the loop on which the store was opened: in order, one wake-up per batch."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def send(self, answers: Iterable[Answer]) -> None:
        self._loop.call_soon_threadsafe(self._tell, answers)

    def _tell(self, answers: Iterable[Answer]) -> None:
        for answer in answers:
            self._loop.call_soon(answer.tell, answer.what)  # each fails on its own
