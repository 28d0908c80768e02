"""The command line of the guard, under both of its names: `niki` and `moothall worker guard`.

It is read without a library, because the guard stays in memory as long as its command.
"""

import os
import re
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

from moothall.worker import entry
from moothall.worker.guard.limits import DEFAULTS, Limits

MISUSED: Final = 1  # exit code (agentchat wire 19.5)
VARIABLE: Final = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<descriptor>\d{1,9})")


class Option(NamedTuple):
    """`kind` is int, float or str; `many` says that it may be given several times."""

    name: str
    kind: type
    default: Any
    metavar: str
    help: str
    least: int = 0
    many: bool = False

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"


OPTIONS: Final = (
    Option("budget", int, DEFAULTS.budget, "TOKENS", "Most tokens, in and out together.", 1),
    Option("timeout", float, DEFAULTS.timeout, "SECONDS", "Longest time to run.", 1),
    Option("max_sends", int, DEFAULTS.max_sends, "N", "Most sends per minute."),
    Option("max_tool_calls", int, DEFAULTS.max_tool_calls, "N", "Most tool calls per minute."),
    Option(
        "stall_timeout", float, DEFAULTS.stall_timeout, "SECONDS", "Longest time without output. 0: no limit."
    ),
    Option(
        "startup_timeout",
        float,
        DEFAULTS.startup_timeout,
        "SECONDS",
        "Longest time until the first output. 0: no limit.",
    ),
    Option(
        "dead_air_timeout",
        float,
        DEFAULTS.dead_air_timeout / 60,
        "MINUTES",
        "Longest time without output and use of the processor. 0: no limit.",
    ),
    Option("max_nudges", int, DEFAULTS.max_nudges, "N", "SIGCONTs to a stalled command before it is killed."),
    Option("log", str, None, "FILE", "Append what the guard does to this file. Default: standard error."),
    Option("state", str, None, "FILE", "Write counts and the reason of a kill to this JSON file."),
    Option("abort_file", str, None, "FILE", "Kill the command when this file exists."),
    Option(
        "only_one",
        str,
        None,
        "FILE",
        "Kill processes of the command that run this program, but for the first of them.",
    ),
    Option(
        "also_as",
        str,
        None,
        "NAME",
        "With --only-one: under this name the program is another one, and may run.",
        many=True,
    ),
    Option("cooldown", float, DEFAULTS.cooldown, "SECONDS", "Time between SIGTERM and SIGKILL."),
    Option(
        "poll_interval",
        int,
        1000,
        "MS",
        "Time between two looks for the abort file or for second runs, where the files cannot be watched.",
        10,
    ),
    Option("nick", str, None, "NAME", "The agent's name, for the log."),
    Option(
        "lifeline",
        int,
        None,
        "FD",
        "Kill the command at the end of this inherited pipe: its writer has ended.",
        3,
    ),
    Option(
        "env_fd",
        str,
        None,
        "NAME=FD",
        "Give the command, and it alone, a variable that is read from an inherited descriptor.",
        many=True,
    ),
)
_BY_FLAG: Final = {option.flag: option for option in OPTIONS}


class Misused(Exception):
    """What is wrong with the arguments."""


def program() -> list[str]:
    """The beginning of a command that starts the guard: `[*program(), "--budget", "5000", "--", *words]`."""
    return entry.program("moothall.worker.guard")


def usage() -> str:
    lines = ["usage: niki [options] -- COMMAND [ARGUMENT...]", "", "options:"]
    for option in OPTIONS:
        default = "" if option.default is None else f" [{option.default:.0f}]"
        lines += [f"  {option.flag} {option.metavar}", f"      {option.help}{default}"]
    return "\n".join(lines)


def split(arguments: list[str]) -> tuple[dict[str, Any], list[str]]:
    """The values of options by name, and the words of the command. Raises Misused."""
    if "--" not in arguments:
        raise Misused("there is no -- before the command")
    cut = arguments.index("--")
    before, words = arguments[:cut], arguments[cut + 1 :]
    if not words:
        raise Misused("there is no command after --")
    values: dict[str, Any] = {}
    while before:
        flag, has_value, text = before.pop(0).partition("=")
        option = _BY_FLAG.get(flag)
        if option is None:
            raise Misused(f"there is no option {flag}")
        if not has_value:
            if not before:
                raise Misused(f"{flag} needs a value: {option.metavar}")
            text = before.pop(0)
        value = _value(option, text)
        values[option.name] = [*values.get(option.name, ()), value] if option.many else value
    return values, words


def _value(option: Option, text: str) -> Any:
    try:
        value = option.kind(text)
    except ValueError:
        value = None
    if value is None or (option.kind is not str and not option.least <= value < 1e9):
        kind = "a whole number" if option.kind is int else "a number"
        raise Misused(f"{option.flag} {text[:80]!r}: give {kind} of {option.least} or more")
    return value


def task(values: dict[str, Any], words: list[str]) -> Any:
    """What the guard has to do. Raises Misused."""
    from moothall.worker.guard.guard import Task  # not for those who only want the table of options

    limits = {name: values[name] for name in Limits._fields if name in values}
    if "dead_air_timeout" in limits:
        limits["dead_air_timeout"] *= 60
    paths = {
        name: Path(values[name]) for name in ("log", "state", "abort_file", "only_one") if name in values
    }
    return Task(
        words,
        Limits(**limits),
        **paths,
        also_as=frozenset(values.get("also_as", ())),
        poll_interval=values.get("poll_interval", 1000) / 1000,
        nick=values.get("nick"),
        lifeline=values.get("lifeline"),
        variables=_variables(values.get("env_fd", ())),
    )


def _variables(given: list[str]) -> dict[str, int]:
    variables: dict[str, int] = {}
    for text in given:
        found = VARIABLE.fullmatch(text)
        if found is None:
            raise Misused(f"--env-fd {text[:80]!r}: give NAME=FD, such as TOKEN=3")
        variables[found["name"]] = int(found["descriptor"])
    if len(set(variables.values())) < len(given):
        raise Misused("--env-fd: give each variable a descriptor of its own")
    return variables


def main(arguments: list[str] | None = None) -> int:
    """Run the guard. Return the exit code of the command."""
    for descriptor in range(3):
        _open_if_closed(descriptor)
    given = sys.argv[1:] if arguments is None else arguments
    own = given[: given.index("--")] if "--" in given else given
    if sys.platform != "linux":
        _tell(2, "error: the guard needs Linux: it finds processes in /proc")
        return MISUSED
    if "--help" in own or "-h" in own:
        _tell(1, usage())
        return 0
    try:
        guarded = task(*split(given))
    except Misused as error:
        _tell(2, f"error: {error}\n{usage()}")
        return MISUSED
    from moothall.worker.guard.guard import Guard

    try:
        return Guard(guarded).run()
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        _tell(2, f"error: the command was not started: {place}{error.strerror}")
        return MISUSED


def _open_if_closed(descriptor: int) -> None:
    """What a service manager closed would be the number of the next pipe."""
    try:
        os.fstat(descriptor)
    except OSError:
        os.open(os.devnull, os.O_RDWR)


def _tell(descriptor: int, text: str) -> None:
    os.write(descriptor, text.encode(errors="backslashreplace") + b"\n")
