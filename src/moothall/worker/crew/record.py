"""What a crew is doing: the file `crew.json`. The keeper writes it before it acts, so another one can go on.

The crew is kept as the tables of its file, and read by the same parser. An edited crew file changes nothing until
the next `up`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from moothall.errors import UsageError
from moothall.worker import state_file
from moothall.worker.crew import plan
from moothall.worker.crew.plan import Crew

PROCESS: Final = "process"
PODMAN: Final = "podman"


class Wanted(StrEnum):
    STARTING = "starting"  # is to run, and its start is not finished
    RUNNING = "running"  # was started, and is to run
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Aim:
    """What is wanted of one agent, and the keys of its crew file that it was last started with."""

    wanted: Wanted
    started_with: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def is_to_run(self) -> bool:
        return self.wanted is not Wanted.STOPPED


@dataclass(frozen=True, slots=True)
class Record:
    crew: Crew
    tables: Mapping[str, Any]  # of the crew file
    isolation: str
    port: int | None = None  # of the crew's own hall, also of one that does not run now
    aims: Mapping[str, Aim] = field(default_factory=lambda: MappingProxyType({}))
    is_ending: bool = False  # hall and keeper end when no agent runs

    @property
    def hall(self) -> str:
        """The address for agents."""
        return self.crew.hall or f"ws://127.0.0.1:{self.port}"

    def aimed(self, name: str, wanted: Wanted, started_with: Mapping[str, Any] | None = None) -> "Record":
        kept = self.aims[name].started_with if name in self.aims else {}
        aim = Aim(wanted, kept if started_with is None else started_with)
        return replace(self, aims=MappingProxyType({**self.aims, name: aim}))

    def without(self, name: str) -> "Record":
        return replace(
            self, aims=MappingProxyType({key: aim for key, aim in self.aims.items() if key != name})
        )

    def to_run(self) -> list[str]:
        return [name for name, aim in self.aims.items() if aim.is_to_run]

    def changes(self, crew: Crew) -> dict[str, list[str]]:
        """The agents that are to run and that the crew has with other keys than they were started with."""
        found = {}
        for member in crew.members:
            aim = self.aims.get(member.name)
            if aim is None or not aim.is_to_run or not aim.started_with:
                continue
            now = member.fields()
            if keys := [key for key in now if now[key] != aim.started_with.get(key)]:
                found[member.name] = keys
        return found

    def left_over(self) -> list[str]:
        """Agents that are to run, and are no longer in the crew file."""
        names = {member.name for member in self.crew.members}
        return [name for name in self.to_run() if name not in names]

    def write(self, file: Path) -> None:
        """Raises OSError."""
        agents = {
            name: {"wanted": aim.wanted.value, "started_with": dict(aim.started_with)}
            for name, aim in self.aims.items()
        }
        fields = {"file": str(self.crew.file), "isolation": self.isolation, "port": self.port}
        ending = {"ending": self.is_ending, "agents": agents, "tables": self.tables}
        state_file.write_object(file, fields | ending)


def read(file: Path) -> Record | None:
    """None if there is no file. Raises UsageError for one that was damaged, and OSError."""
    if not file.exists():
        return None
    fields = state_file.read_object(file) or {}
    try:
        crew = plan.parse(fields["tables"], Path(fields["file"]))
        aims = {
            name: Aim(Wanted(each["wanted"]), dict(each["started_with"]))
            for name, each in fields["agents"].items()
        }
        port = None if fields["port"] is None else int(fields["port"])
        isolation = {PROCESS: PROCESS, PODMAN: PODMAN}[fields["isolation"]]
        return Record(
            crew, fields["tables"], isolation, port, MappingProxyType(aims), fields["ending"] is True
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UsageError(
            f"{file} is damaged: end what it started, remove the file, and run `moothall worker up`"
        ) from None
