"""What a keeper runs beside the agents, behind one small protocol: their ways to the hall and to the model."""

from collections.abc import Sequence
from typing import Protocol

from moothall.worker.crew.places import Places
from moothall.worker.crew.plan import Crew
from moothall.worker.crew.runtime import Recipe, Standing


class Service(Protocol):
    """The keeper calls the methods on its event loop: they must not block. They raise MoothallError or OSError."""

    async def begin(self, recipe: Recipe) -> None:
        """The agent is about to start, or runs and has a new keeper. May be called again for the same agent."""
        ...

    async def look(self, standings: Sequence[Standing]) -> None:
        """How all agents stand, every `Runtime.period` seconds."""
        ...

    async def end(self, name: str) -> None:
        """The agent was stopped on purpose."""
        ...

    async def close(self) -> None:
        """The keeper ends, in order."""
        ...


def services_of(crew: Crew, places: Places, *, isolates: bool) -> list[Service]:
    """The services that this crew needs."""
    return []
