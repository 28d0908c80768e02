"""The task log: what the owner of a node wants to remember of its jobs (mesh wire 13)."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from moothall.errors import NodeRefused
from moothall.hall.outside import Store
from moothall.market.node_books import TaskRow
from moothall.node.desk import Books
from moothall.node.reports import Task
from moothall.node.units import done

MAX_TASKS: Final = 100_000
MAX_FIELDS: Final = 64 * 1024  # bytes of one task
MAX_PAGE: Final = 500

_LATEST: Final = 2**62
_OURS: Final = ("id", "shared")


class TaskLog:
    """`clock` is Unix microseconds."""

    def __init__(self, store: Store[Books], clock: Callable[[], int]) -> None:
        self._store = store
        self._clock = clock

    async def add(self, fields: dict[str, Any]) -> Task:
        """Raises NodeRefused: 413 if it is too large, 503 if the log is full."""
        kept = {name: value for name, value in fields.items() if name not in _OURS}
        data = msgspec.json.encode(kept)
        if len(data) > MAX_FIELDS:
            raise NodeRefused(413, f"A task has at most {MAX_FIELDS:,} bytes. Shorten it.")
        at = self._clock() // 1000

        def work(books: Books) -> int:
            if books.count_tasks() >= MAX_TASKS:
                raise NodeRefused(
                    503, f"The task log has {MAX_TASKS:,} tasks, which is the limit. Delete some."
                )
            return books.put_task(at, data)

        return Task(await done(self._store, work), at, False, kept)

    async def read(self, *, limit: int = 50, before: int | None = None) -> list[Task]:
        """The latest first. `before` is the id at which an earlier list ended."""
        most = max(1, min(limit, MAX_PAGE))
        start = _LATEST if before is None else min(before, _LATEST)
        rows = await done(self._store, lambda books: books.tasks(start, most))
        return [_task(row) for row in rows]

    async def share(self, task: int, *, shared: bool) -> Task:
        """Raises NodeRefused (404)."""
        row = await done(self._store, lambda books: books.share_task(_number(task), shared=shared))
        if row is None:
            raise _missing(task)
        return _task(row)

    async def remove(self, task: int) -> None:
        """Raises NodeRefused (404)."""
        if not await done(self._store, lambda books: books.remove_task(_number(task))):
            raise _missing(task)


def _task(row: TaskRow) -> Task:
    return Task(row.number, row.at, row.shared, msgspec.json.decode(row.fields))


def _number(task: int) -> int:
    """As the store can hold it."""
    return task if 0 < task < _LATEST else 0


def _missing(task: int) -> NodeRefused:
    return NodeRefused(404, f"There is no task {task}. List them to see which there are.")
