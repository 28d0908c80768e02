"""What runs the agents of a crew: containers, or plain processes. All that the rest knows of them is `Runtime`.

Its methods may take a while and block. The keeper calls them in threads: for several agents at the same time, and
for each agent one after the other. Each may be called again after the process that called it was killed: it does
what is left to do. So a runtime keeps in memory nothing that another keeper would need.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from moothall.worker.crew.places import MemberPlaces
from moothall.worker.crew.plan import Crew, Member, variables


@dataclass(frozen=True, slots=True)
class Recipe:
    """All that is needed to start one agent."""

    crew: Crew
    member: Member
    places: MemberPlaces
    hall: str  # its address, the same inside and outside of a container

    def variables(self, crew_folder: Path, state: Path) -> dict[str, str]:
        """The environment of the supervisor, with two folders as the agent sees them."""
        return variables(self.member, hall=self.hall, crew_folder=crew_folder, state=state)


class Standing(NamedTuple):
    """How one agent stands. An agent that was never started has none."""

    name: str
    is_running: bool
    since: float  # seconds since 1970: the start, or the end if it is known and the agent has ended
    exit_code: int | None = None  # None while it runs
    restarts: int = 0  # by the restart policy, since `start`


class Runtime(Protocol):
    @property
    def isolates(self) -> bool:
        """True if an agent cannot reach files, keys and processes outside of its own."""
        ...

    @property
    def period(self) -> float:
        """Seconds between two calls of `tend`."""
        ...

    def start(self, recipe: Recipe) -> None:
        """Start the agent, if it does not run. What is left of an ended one is replaced. Raises MoothallError."""
        ...

    def stop(self, name: str, patience: float) -> None:
        """Let the agent end by itself, and kill it after `patience` seconds. Returns when it has ended.

        An agent that does not run is not an error, here and below.
        """
        ...

    def kill(self, name: str) -> None:
        """End the agent and all of its processes at once. Returns when they have ended."""
        ...

    def wake(self, name: str) -> None:
        """Send SIGUSR1 to the supervisor: it starts the next session now."""
        ...

    def remove(self, name: str) -> None:
        """Remove all that the runtime itself keeps of an ended agent. Its folders stay."""
        ...

    def standing(self) -> list[Standing]:
        """All agents of the crew that were started and not removed."""
        ...

    def exec(self, recipe: Recipe, words: Sequence[str]) -> int:
        """Run a command where the agent runs, with this terminal. Returns its exit code. Raises UsageError."""
        ...

    def tend(self, recipes: Sequence[Recipe]) -> list[str]:
        """Apply the restart policy, on-failure:3 (agentchat wire 19.6), to these agents, where nothing else does.

        They are those that are to run. The keeper calls this again and again, also after agents were started by a
        keeper before it. Returns a line for its log for each thing that was done.
        """
        ...
