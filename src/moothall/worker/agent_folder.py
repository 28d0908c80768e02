"""The folder of one agent, and the names of the files in it (agentchat wire 19.3, 19.4)."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from moothall.daemon.folder import Folder
from moothall.errors import UsageError
from moothall.wire.agentchat.names import NAME_PATTERN

AGENTS: Final = Path("~/.agentchat/agents")

STATE: Final = "state.json"
SUPERVISOR_LOG: Final = "supervisor.log"
SUPERVISOR_PID: Final = "supervisor.pid"
SUPERVISOR_LOCK: Final = ".supervisor.lock"
STOP: Final = "stop"  # its presence is a request to stop
ABORT: Final = "abort"  # its presence makes the guard end the session
HEARTBEAT: Final = ".heartbeat"
GUARD_STATE: Final = "niki-state.json"
# The state of the session before, until the hall knows what it used
PREVIOUS_GUARD_STATE: Final = "niki-state.prev.json"
MCP_SERVERS: Final = "mcp.json"

RUNNER_LOG: Final = "runner.log"
RUNNER_LOCK: Final = ".runner.lock"
SESSION_NUMBER: Final = "session_num"
CONVERSATION: Final = "session_id"
CONVERSATION_BEGUN: Final = "session_created"  # its presence: resume, and do not create
TRANSCRIPT: Final = "transcript.log"
PREVIOUS_TRANSCRIPT: Final = "transcript.prev.log"
PROMPT: Final = "prompt.md"
SYSTEM_PROMPT: Final = "system.md"


def folder_of(name: str, given: str | None = None) -> Folder:
    """The folder of the agent, `given` or below `~/.agentchat/agents/`. Raises UsageError for a bad name."""
    if re.match(NAME_PATTERN, name) is None:
        raise UsageError(f"{name[:80]!r} cannot be the name of an agent: 1 to 32 letters, digits, - or _")
    try:
        return Folder((Path(given) if given else AGENTS / name).expanduser().absolute())
    except RuntimeError:
        raise UsageError("this user has no home folder: set STATE_DIR to a folder for the agent") from None


def set_guard_state_aside(folder: Path) -> None:
    """Before a session: the state of the one before is not its own. Raises OSError."""
    with suppress(FileNotFoundError):
        (folder / GUARD_STATE).replace(folder / PREVIOUS_GUARD_STATE)
