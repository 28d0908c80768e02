"""Checks of single values of a crew file: each takes what TOML has, and returns the value or raises Wrong. Pure."""

import math
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from moothall.errors import UsageError
from moothall.wire import authority
from moothall.wire.agentchat.names import NAME_PATTERN
from moothall.worker.supervisor.command_line import MAX_MISSION

MAX_TEXT: Final = 16 * 1024  # characters of a command or of a variable
MAX_NUMBER: Final = 10**12
MAX_PROCESSORS: Final = 1024
LEAST_MEMORY: Final = 64 * 1024**2  # bytes; the supervisor and what it starts need most of it

_UNITS: Final = {"b": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_MEMORY: Final = re.compile(r"([0-9]{1,15})([bkmgt])", re.IGNORECASE)
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
# The crew sets these itself. The token and the key of an agent must not be in an environment at all.
_TAKEN: Final = {
    "AGENTCHAT_URL": "use hall in [crew]",
    "AGENT_NAME": "the name of the table is the name",
    "MISSION": "use mission",
    "AGENT_RUNTIME": "use runtime",
    "AGENT_MODEL": "use model",
    "AGENT_COMMAND": "use command",
    "NIKI_BUDGET": "use budget",
    "NIKI_TIMEOUT": "use timeout",
    "NIKI_MAX_SENDS": "use max_sends",
    "NIKI_MAX_TOOLS": "use max_tool_calls",
    "NIKI_STALL_TIMEOUT": "use stall_timeout",
    "NIKI_STARTUP_TIMEOUT": "use startup_timeout",
    "CLAUDE_CODE_OAUTH_TOKEN": "use token in [crew], a file",
    "ANTHROPIC_API_KEY": "use token in [crew], a file",
    "OPENAI_API_KEY": "use token in [crew], a file",
    "STATE_DIR": "the crew chooses it",
    "LOG_FILE": "the crew chooses it",
    "CREW_FOLDER": "the crew chooses it",
    "MOOTHALL_IDENTITY": "the crew chooses it",
    "AGENT_LIFELINE": "the supervisor sets it",
}


class Wrong(ValueError):
    """A value is wrong. The text says how, for the end of a sentence."""


def text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise Wrong("must be a text in quotes, and not empty")
    if "\0" in value:
        raise Wrong("must not have a character of code 0")
    return value


def word(value: Any) -> str:
    found = text(value)
    if not found.isprintable() or " " in found or len(found) > MAX_TEXT or found.startswith("-"):
        raise Wrong(f"{found[:80]!r} must be one word, and must not begin with -")
    return found


def name(value: Any) -> str:
    found = text(value)
    # A name that begins with - would be read as an option.
    if re.match(NAME_PATTERN, found) is None or found.startswith("-"):
        raise Wrong(
            f"{found[:80]!r} cannot be a name: 1 to 32 letters, digits, - or _, not - at the beginning"
        )
    return found


def mission(value: Any) -> str:
    found = text(value)
    if len(found) > MAX_MISSION:
        raise Wrong(f"has {len(found):,} characters, and may have {MAX_MISSION:,}")
    return found


def hall(value: Any) -> str:
    try:
        return authority.hall_url(text(value))
    except UsageError as error:
        raise Wrong(str(error)) from None


def web_address(value: Any) -> str:
    found = word(value)
    try:
        parts = urlsplit(found)
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_one = False
    if not is_one:
        raise Wrong(f"{found[:80]!r} is not a web address: write it like https://api.anthropic.com")
    return found


def path(value: Any) -> Path:
    try:
        return Path(text(value)).expanduser()
    except RuntimeError:
        raise Wrong("~ has no meaning here, because this user has no home folder") from None


def yes_or_no(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Wrong("must be true or false")
    return value


def one_of(*words: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if value not in words:
            raise Wrong(f"{str(value)[:40]!r} is not known: choose one of {', '.join(words)}")
        return str(value)

    return check


def whole_number(least: int) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MAX_NUMBER:
            raise Wrong(f"must be a whole number from {least} to {MAX_NUMBER:,}")
        return value

    return check


def processors(value: Any) -> float:
    if (
        not isinstance(value, int | float)
        or isinstance(value, bool)
        or not math.isfinite(value)
        or not 0.01 <= value <= MAX_PROCESSORS
    ):
        raise Wrong(f"must be a number of processors from 0.01 to {MAX_PROCESSORS}")
    return float(value)


def memory(value: Any) -> str:
    found = _MEMORY.fullmatch(text(value))
    if found is None or int(found[1]) * _UNITS[found[2].lower()] < LEAST_MEMORY:
        raise Wrong(f'{str(value)[:40]!r} is not an amount of memory: write it like "4g", at least "64m"')
    return found[0].lower()


def command(value: Any) -> str:
    found = text(value)
    try:
        words = shlex.split(found)
    except ValueError as error:
        raise Wrong(f"cannot be read: {error}") from None
    if not words or len(found) > MAX_TEXT:
        raise Wrong(f"must be a program and its arguments, of at most {MAX_TEXT:,} characters")
    return found


def environment(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise Wrong('must be a table such as { KEY = "value" }')
    for key, content in value.items():
        if _VARIABLE.fullmatch(key) is None:
            raise Wrong(f"{key[:40]!r} cannot be the name of a variable: letters, digits and _")
        if key in _TAKEN:
            raise Wrong(f"{key} cannot be set here: {_TAKEN[key]}")
        if not isinstance(content, str) or "\0" in content or len(content) > MAX_TEXT:
            raise Wrong(f"{key} must be a text in quotes, of at most {MAX_TEXT:,} characters")
    return dict(value)
