"""The doors of all containers of a crew, as a service of its keeper."""

from collections.abc import Callable

from moothall.errors import UsageError
from moothall.wire.authority import authority_of
from moothall.worker.crew.containers import HALL_SOCKET, MODEL_SOCKET, SECRETS_SOCKET, has_proxy
from moothall.worker.crew.doors import Door, leading_to
from moothall.worker.crew.handing import handing_out
from moothall.worker.crew.model_proxy import ModelProxy
from moothall.worker.crew.runtime import Recipe


class WaysOut:
    """To the hall, and to the model's API where the token stays on the host."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._doors: dict[str, list[Door]] = {}  # by the agent's name
        self._recipes: dict[str, Recipe] = {}

    async def begin(self, recipe: Recipe) -> None:
        """Open the doors of an agent. Open ones stay, unless they lead elsewhere now.

        Raises UsageError or OSError.
        """
        name = recipe.member.name
        if self._recipes.get(name) == recipe:
            return
        await self.end(name)
        hall = authority_of(recipe.hall)
        if hall is None:
            raise UsageError(f"{recipe.hall!r} is not the address of a hall")
        run = recipe.places.run
        doors = [
            Door(run / HALL_SOCKET, leading_to(hall.host, hall.port)),
            Door(run / SECRETS_SOCKET, handing_out(recipe, self._say)),
        ]
        if recipe.crew.token is not None and has_proxy(recipe):
            proxy = ModelProxy(recipe.crew.model_url, recipe.crew.token, self._say)
            doors.append(Door(run / MODEL_SOCKET, proxy.serve))
        recipe.places.make()
        self._doors[name] = doors
        for door in doors:
            door.open()
        self._recipes[name] = recipe

    async def end(self, name: str) -> None:
        """Close the doors of an agent."""
        self._recipes.pop(name, None)
        for door in self._doors.pop(name, []):
            await door.close()

    async def close(self) -> None:
        for name in tuple(self._doors):
            await self.end(name)
