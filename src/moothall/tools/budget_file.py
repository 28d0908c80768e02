"""The file in which the guard of a worker writes what the session has used, and how to make it end the session."""

import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from moothall.client import Budget
from moothall.identity.keyfile import put_file
from moothall.wire.agentchat.client import MAX_TOKENS, SESSION_PATTERN

ABORT: Final = "abort"  # in the same folder: the guard ends the session when it exists
BUDGET: Final = "budget"  # its first line: the reason

_MAX_BYTES: Final = 64 * 1024
_MAX_REASON: Final = 300  # characters


class BudgetFile:
    """`path` is that of this session, `previous` that of the one before, until it is reported."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.previous = path.with_name(f"{path.stem}.prev{path.suffix}")

    def abort(self, reason: str) -> None:
        """End the session as if its own budget was used up. Raises OSError."""
        line = " ".join(reason[:_MAX_REASON].split())
        content = f"{BUDGET}\n{line}\n".encode(errors="replace")
        put_file(content, self.path.with_name(ABORT), overwrite=True)


def read_budget(path: Path) -> Budget | None:
    """None if there is no file, or it is not a guard's."""
    content = b""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            content = file.read(_MAX_BYTES)
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    limit, spent, session = fields.get("budget"), fields.get("tokensTotal"), fields.get("session")
    if type(limit) is not int or type(spent) is not int or min(limit, spent) < 0:
        return None
    if not isinstance(session, str) or not session or re.match(SESSION_PATTERN, session) is None:
        return None
    return Budget(min(limit, MAX_TOKENS), min(spent, MAX_TOKENS), session)
