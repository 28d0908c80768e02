"""The tools of the agent: our MCP server in a file that the model's program reads (seed 000, startup).

Each agent has its own file. Nothing is written into the settings of the user, whose other servers an agent that
reads strangers' messages should not get.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from moothall.daemon.folder import Folder
from moothall.worker import state_file
from moothall.worker.agent_folder import GUARD_STATE, MCP_SERVERS
from moothall.worker.supervisor.credentials import TOKEN_VARIABLE

SERVER: Final = "agentchat"  # as models know its tools: mcp__agentchat__agentchat_send (agentchat wire 19.1)
HALL_VARIABLE: Final = "AGENTCHAT_URL"
BUDGET_VARIABLE: Final = "MOOTHALL_BUDGET_FILE"  # where the server reads what the session has used

_HANDED_ON: Final = (HALL_VARIABLE, "AGENTCHAT_PUBLIC", "MOOTHALL_IDENTITY")


def register(folder: Folder, name: str, environment: Mapping[str, str]) -> None:
    """Write the list of MCP servers of this agent, for a server that the model's program starts. Raises OSError."""
    write(folder, entry(variables(folder, name, environment)))


def write(folder: Folder, server: Mapping[str, Any]) -> None:
    """Write the list with this server. Raises OSError."""
    state_file.write_object(folder.path / MCP_SERVERS, {"mcpServers": {SERVER: server}})


def variables(folder: Folder, name: str, environment: Mapping[str, str]) -> dict[str, str]:
    """What the server is told by its environment."""
    own = {"MOOTHALL_NAME": name, BUDGET_VARIABLE: str(folder.path / GUARD_STATE)}
    return own | {key: environment[key] for key in _HANDED_ON if environment.get(key)}


def entry(variables: Mapping[str, str]) -> dict[str, Any]:
    """How to start the server. It runs without the token, which its parent, the model's program, has."""
    command = ["-u", TOKEN_VARIABLE, str(Path(sys.executable)), "-m", "moothall", "mcp"]
    return {"type": "stdio", "command": "/usr/bin/env", "args": command, "env": dict(variables)}
