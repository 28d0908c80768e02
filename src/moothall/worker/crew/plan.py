"""What a crew is, as `crew.toml` says it: text in, values out. Pure but for the home folder in `~`.

Each key is one row of a table: its name and the check of its value. A key that is not in the table is an error that
names the nearest one.
"""

import shlex
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from moothall.errors import UsageError
from moothall.worker.crew import values
from moothall.worker.crew.values import Wrong

FILE: Final = "crew.toml"
MAX_MEMBERS: Final = 200
IMAGE: Final = "moothall-worker:latest"
MODEL_URL: Final = "https://api.anthropic.com"
CREW_WORD: Final = "{crew}"  # in a command or a variable: the folder of the crew file

# Keys of an agent that limit its sessions, and the variables that the runner reads (agentchat wire 19.4).
LIMITS: Final = MappingProxyType(
    {
        "budget": "NIKI_BUDGET",
        "timeout": "NIKI_TIMEOUT",
        "max_sends": "NIKI_MAX_SENDS",
        "max_tool_calls": "NIKI_MAX_TOOLS",
        "stall_timeout": "NIKI_STALL_TIMEOUT",
        "startup_timeout": "NIKI_STARTUP_TIMEOUT",
    }
)


@dataclass(frozen=True, slots=True)
class Member:
    """One agent of a crew. A limit that is None is the runner's own default."""

    name: str
    mission: str
    runtime: str = "cli"
    model: str | None = None
    command: str | None = None
    budget: int | None = None  # tokens of a session
    timeout: int | None = None  # seconds
    max_sends: int | None = None  # per minute
    max_tool_calls: int | None = None  # per minute
    stall_timeout: int | None = None  # seconds
    startup_timeout: int | None = None  # seconds
    memory: str = "4g"  # this and the next two: agentchat wire 19.6
    cpus: float = 2
    processes: int = 256
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    protected: bool = False

    def fields(self) -> dict[str, Any]:
        """All keys and their values, as JSON has them."""
        return {each.name: getattr(self, each.name) for each in fields(self)} | {
            "environment": dict(self.environment)
        }


@dataclass(frozen=True, slots=True)
class Crew:
    name: str
    file: Path  # absolute
    members: tuple[Member, ...]
    hall: str | None = None  # None: a hall of its own
    isolation: str = "auto"
    image: str = IMAGE
    rootfs: Path | None = None  # in place of the image
    token: Path | None = None
    model_url: str = MODEL_URL
    model_proxy: bool = True  # False: the token is mounted as a file

    @property
    def folder(self) -> Path:
        return self.file.parent

    def member(self, name: str) -> Member:
        """Raises UsageError, which names the nearest one."""
        for each in self.members:
            if each.name == name:
                return each
        near = get_close_matches(name, [each.name for each in self.members], 1)
        raise UsageError(
            f"there is no agent {name[:40]!r} in the crew {self.name}"
            + (f", perhaps you mean {near[0]}" if near else f": it has {_listed(self.members)}")
        )


_CREW_KEYS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "name": values.name,
    "hall": values.hall,
    "isolation": values.one_of("auto", "podman", "process"),
    "image": values.word,
    "rootfs": values.path,
    "token": values.path,
    "model_url": values.web_address,
    "model_proxy": values.yes_or_no,
}
_MEMBER_KEYS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "mission": values.mission,
    "runtime": values.one_of("cli", "command", "api", "openai"),
    "model": values.word,
    "command": values.command,
    **dict.fromkeys(LIMITS, values.whole_number(0)),
    "budget": values.whole_number(1),
    "memory": values.memory,
    "cpus": values.processors,
    "processes": values.whole_number(16),  # fewer are not enough for the supervisor and what it starts
    "environment": values.environment,
    "protected": values.yes_or_no,
}
_TABLES: Final = ("crew", "defaults", "agents")


def read(file: Path) -> Crew:
    """The crew of a file. Raises UsageError, which names the file."""
    file = file.absolute()
    return parse(document(file), file)


def document(file: Path) -> dict[str, Any]:
    """The tables of a crew file, not checked. Raises UsageError."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"there is no file {file}: go to the folder of a crew, or name its file") from None
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{file} is not TOML: {error}") from None


def parse(tables: Mapping[str, Any], file: Path) -> Crew:
    """The crew that the tables describe. Raises UsageError."""
    try:
        return _crew(tables, file)
    except Wrong as wrong:
        raise UsageError(f"{file}: {wrong}") from None


def variables(member: Member, *, hall: str, crew_folder: Path, state: Path) -> dict[str, str]:
    """What the supervisor of an agent is told by its environment. The folders are as the agent sees them."""
    own = {
        "AGENTCHAT_URL": hall,
        "AGENT_RUNTIME": member.runtime,
        "STATE_DIR": str(state),
        "CREW_FOLDER": str(crew_folder),
    }
    if member.model is not None:
        own["AGENT_MODEL"] = member.model
    if member.command is not None:
        words = shlex.split(member.command)
        own["AGENT_COMMAND"] = shlex.join(word.replace(CREW_WORD, str(crew_folder)) for word in words)
    for key, variable in LIMITS.items():
        if (limit := getattr(member, key)) is not None:
            own[variable] = str(limit)
    given = {key: text.replace(CREW_WORD, str(crew_folder)) for key, text in member.environment.items()}
    return given | own


def _crew(tables: Mapping[str, Any], file: Path) -> Crew:
    _known(tables, _TABLES, "the file")
    settings = _checked(_table(tables, "crew"), _CREW_KEYS, "[crew]")
    if "image" in settings and "rootfs" in settings:
        raise Wrong("[crew] has both image and rootfs: choose one")
    for key in ("rootfs", "token"):
        if key in settings:
            settings[key] = file.parent / settings[key]
    defaults = _checked(_table(tables, "defaults"), _MEMBER_KEYS, "[defaults]")
    agents = _table(tables, "agents")
    if not 0 < len(agents) <= MAX_MEMBERS:
        raise Wrong(f"a crew has 1 to {MAX_MEMBERS} agents, and this one {len(agents)}: add [agents.NAME]")
    members = tuple(_member(name, agents, defaults) for name in agents)
    return Crew(name=settings.pop("name", None) or _name_of(file), file=file, members=members, **settings)


def _member(name: str, agents: Mapping[str, Any], defaults: Mapping[str, Any]) -> Member:
    where = f"[agents.{name[:40]}]"
    try:
        values.name(name)
    except Wrong as wrong:
        raise Wrong(f"{where}: {wrong}") from None
    own = _checked(_table(agents, name, where), _MEMBER_KEYS, where)
    joined = {**defaults, **own}
    if "mission" not in joined:
        raise Wrong(f"{where} has no mission: say what the agent is there for")
    if joined.get("runtime") == "command" and "command" not in joined:
        raise Wrong(f"{where} has the runtime command, and no command: name the program to start")
    environment = {**defaults.get("environment", {}), **own.get("environment", {})}
    return Member(name=name, **joined | {"environment": MappingProxyType(environment)})


def _table(tables: Mapping[str, Any], key: str, where: str | None = None) -> Mapping[str, Any]:
    found = tables.get(key, {})
    if not isinstance(found, dict):
        raise Wrong(f"{where or f'[{key}]'} must be a table")
    return found


def _checked(
    table: Mapping[str, Any], keys: Mapping[str, Callable[[Any], Any]], where: str
) -> dict[str, Any]:
    _known(table, keys, where)
    checked = {}
    for key, value in table.items():
        try:
            checked[key] = keys[key](value)
        except Wrong as wrong:
            raise Wrong(f"{where} {key}: {wrong}") from None
    return checked


def _known(table: Mapping[str, Any], keys: Mapping[str, Any] | tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in keys:
            near = get_close_matches(key, list(keys), 1, 0.5)
            hint = f"perhaps you mean {near[0]}" if near else f"it may have {', '.join(keys)}"
            raise Wrong(f"{where} has the unknown key {key[:40]!r}: {hint}")


def _name_of(file: Path) -> str:
    folder = file.parent.name
    try:
        return values.name(folder)
    except Wrong:
        raise Wrong(
            f'the folder\'s name {folder!r} cannot be the name of the crew: add name = "..." to [crew]'
        ) from None


def _listed(members: tuple[Member, ...]) -> str:
    shown = [each.name for each in members[:10]]
    return ", ".join(shown) + (", ..." if len(members) > len(shown) else "")
