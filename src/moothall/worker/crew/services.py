"""What a keeper runs beside the agents, behind one small protocol: their ways to the hall and to the model."""

from typing import Protocol

from moothall.worker.crew.places import Places
from moothall.worker.crew.runtime import Recipe
from moothall.worker.crew.ways_out import WaysOut
from moothall.worker.log_lines import LogFile


class Service(Protocol):
    """The keeper calls the methods on its event loop: they must not block. They raise MoothallError or OSError."""

    async def begin(self, recipe: Recipe) -> None:
        """The agent is about to start, or runs and has a new keeper. May be called again for the same agent."""
        ...

    async def end(self, name: str) -> None:
        """The agent was stopped on purpose."""
        ...

    async def close(self) -> None:
        """The keeper ends, in order."""
        ...


def services_of(places: Places, *, isolates: bool) -> list[Service]:
    """The services that a crew needs: agents that are not isolated find their own ways."""
    return [WaysOut(LogFile(places.log).say)] if isolates else []
