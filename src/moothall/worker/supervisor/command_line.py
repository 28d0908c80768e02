"""The command line of the supervisor, under both of its names: `agent-supervisor` and `moothall worker supervise`.

It is read without a library, because the supervisor stays in memory as long as its agent.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from moothall.errors import UsageError
from moothall.worker import entry, lifeline
from moothall.worker.agent_folder import folder_of
from moothall.worker.supervisor import credentials, secret_files
from moothall.worker.supervisor.service import HEARTBEAT_EVERY, Plan, find_runner, supervise

FAILED: Final = 1  # exit code (agentchat wire 19.3)
MAX_MISSION: Final = 16 * 1024  # characters; the kernel refuses variables of more than 128 KiB
USAGE: Final = (
    "usage: agent-supervisor NAME MISSION [--token-file PATH] [--identity-file PATH] [--state-dir FOLDER]"
    " [--heartbeat SECONDS] [--give-up-after N]"
)
FLAGS: Final = ("--token-file", "--identity-file", "--state-dir", "--heartbeat", "--give-up-after")

NEEDS_TOKEN: Final = "cli"  # the runtime that cannot do without one  # noqa: S105


def program() -> list[str]:
    """The beginning of a command that starts the supervisor."""
    return entry.program("moothall.worker.supervisor")


def main() -> int:
    """Supervise until the end. Return the exit code."""
    return entry.run("supervisor", USAGE, _supervise, FAILED)


def _supervise(arguments: list[str]) -> int:
    plan = read(arguments, os.environ)
    lifeline.leave_environment(os.environ, credentials.TOKEN_VARIABLE)
    return supervise(plan, os.environ)


def read(arguments: list[str], environment: Mapping[str, str]) -> Plan:
    """What the user has asked for. Raises UsageError."""
    words, flags = list[str](), dict[str, str]()
    left = iter(arguments)
    for word in left:
        flag, has_value, text = word.partition("=")
        if flag in FLAGS:
            flags[flag] = text if has_value else next(left, "")
        elif word.startswith("--"):
            raise UsageError(f"there is no option {flag}; {USAGE}")
        else:
            words.append(word)
    if len(words) != 2:
        raise UsageError(f"a name and a mission are needed, the mission as one word for the shell; {USAGE}")
    name, mission = words
    if len(mission) > MAX_MISSION:
        raise UsageError(f"a mission has at most {MAX_MISSION:,} characters: move a part to the personality")
    return Plan(
        name=name,
        mission=mission,
        folder=folder_of(name, flags.get("--state-dir") or environment.get("STATE_DIR")),
        runner=find_runner(Path(sys.argv[0])),
        sources=credentials.Sources(
            token_file=_path(flags, "--token-file", credentials.TOKEN_FILE),
            identity_file=_path(flags, "--identity-file", credentials.IDENTITY_FILE),
            expected=secret_files.expected(environment.get(secret_files.VARIABLE, "")),
            needs_token=credentials.is_in_container()
            and environment.get("AGENT_RUNTIME", NEEDS_TOKEN) == NEEDS_TOKEN,
        ),
        heartbeat=_number(flags, "--heartbeat", HEARTBEAT_EVERY, 0.1, 3600),
        give_up_after=int(_number(flags, "--give-up-after", 0, 0, 1_000_000)),
    )


def _path(flags: Mapping[str, str], flag: str, default: Path) -> Path:
    return Path(flags.get(flag) or default).expanduser().absolute()


def _number(flags: Mapping[str, str], flag: str, default: float, least: float, most: float) -> float:
    try:
        value = float(flags.get(flag, default))
    except ValueError:
        value = -1.0
    if not least <= value <= most:
        raise UsageError(f"{flag} {flags.get(flag, '')[:80]!r}: give a number from {least:g} to {most:,.0f}")
    return value
