"""The task log: what the owner of a node wants to remember of its jobs (mesh wire 13)."""

from typing import Any

from moothall.node.reports import Task


class TaskLog:
    async def add(self, fields: dict[str, Any]) -> Task:
        """Raises NodeRefused (413) if it is too large."""
        raise NotImplementedError

    async def read(self, *, limit: int = 50, before: int | None = None) -> list[Task]:
        """The latest first. `before` is the id at which an earlier list ended."""
        raise NotImplementedError

    async def share(self, task: int, *, shared: bool) -> Task:
        """Raises NodeRefused (404)."""
        raise NotImplementedError

    async def remove(self, task: int) -> None:
        """Raises NodeRefused (404)."""
        raise NotImplementedError
