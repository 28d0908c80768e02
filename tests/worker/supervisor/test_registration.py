"""The list of MCP servers that the model's program reads."""

import json
import sys
from pathlib import Path

from moothall.daemon.folder import Folder
from moothall.worker.agent_folder import GUARD_STATE, MCP_SERVERS
from moothall.worker.supervisor import registration

SECRET = "sk-secret"  # made up
ENVIRONMENT = {
    "AGENTCHAT_URL": "ws://127.0.0.1:6667",
    "AGENTCHAT_PUBLIC": "",
    "MOOTHALL_IDENTITY": "/a/key.json",
    "CLAUDE_CODE_OAUTH_TOKEN": SECRET,
    "ANTHROPIC_API_KEY": SECRET,
    "OTHER": "value",
}


def test_the_server_gets_what_it_needs_and_no_secret(tmp_path: Path) -> None:
    assert registration.variables(Folder(tmp_path), "alice", ENVIRONMENT) == {
        "MOOTHALL_NAME": "alice",
        "MOOTHALL_BUDGET_FILE": str(tmp_path / GUARD_STATE),
        "AGENTCHAT_URL": "ws://127.0.0.1:6667",
        "MOOTHALL_IDENTITY": "/a/key.json",
    }


def test_the_model_starts_the_server_without_the_token(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    registration.register(folder, "alice", ENVIRONMENT)
    text = (tmp_path / MCP_SERVERS).read_text()
    server = json.loads(text)["mcpServers"]["agentchat"]
    assert SECRET not in text
    assert [server["command"], *server["args"]] == [
        "/usr/bin/env",
        "-u",
        "CLAUDE_CODE_OAUTH_TOKEN",
        sys.executable,
        "-m",
        "moothall",
        "mcp",
    ]
    assert server["env"] == registration.variables(folder, "alice", ENVIRONMENT)
    assert (tmp_path / MCP_SERVERS).stat().st_mode & 0o777 == 0o600


def test_a_server_that_runs_already_takes_the_place(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    registration.register(folder, "alice", ENVIRONMENT)
    served = {"type": "http", "url": "http://127.0.0.1:5/mcp", "headers": {"Authorization": "Bearer x"}}
    registration.write(folder, served)
    assert json.loads((tmp_path / MCP_SERVERS).read_text()) == {"mcpServers": {"agentchat": served}}
