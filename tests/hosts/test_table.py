"""Where each host keeps its list of servers, and what our entry looks like in it."""

import pytest

from moothall.errors import UsageError
from moothall.hosts.table import HOSTS, Platform, entry, host_named, user_file


@pytest.mark.parametrize(
    ("name", "linux", "darwin", "win32"),
    [
        ("claude-code", "~/.claude.json", "~/.claude.json", r"~\.claude.json"),
        (
            "claude-desktop",
            "~/.config/Claude/claude_desktop_config.json",
            "~/Library/Application Support/Claude/claude_desktop_config.json",
            r"~\AppData\Roaming\Claude\claude_desktop_config.json",
        ),
        ("cursor", "~/.cursor/mcp.json", "~/.cursor/mcp.json", r"~\.cursor\mcp.json"),
        (
            "vscode",
            "~/.config/Code/User/mcp.json",
            "~/Library/Application Support/Code/User/mcp.json",
            r"~\AppData\Roaming\Code\User\mcp.json",
        ),
        ("codex", "~/.codex/config.toml", "~/.codex/config.toml", r"~\.codex\config.toml"),
        ("gemini", "~/.gemini/settings.json", "~/.gemini/settings.json", r"~\.gemini\settings.json"),
        (
            "zed",
            "~/.config/zed/settings.json",
            "~/.config/zed/settings.json",
            r"~\AppData\Roaming\Zed\settings.json",
        ),
    ],
)
def test_the_file_of_a_user(name: str, linux: str, darwin: str, win32: str) -> None:
    homes: dict[Platform, str] = {"linux": "/home/ada", "darwin": "/Users/ada", "win32": r"C:\Users\ada"}
    for platform, expected in zip(homes, (linux, darwin, win32), strict=True):
        found = user_file(HOSTS[name], platform, homes[platform], {})
        assert str(found) == expected.replace("~", homes[platform])


@pytest.mark.parametrize(
    ("name", "platform", "variable", "folder", "expected"),
    [
        ("codex", "linux", "CODEX_HOME", "/opt/codex", "/opt/codex/config.toml"),
        ("zed", "linux", "XDG_CONFIG_HOME", "/opt/config", "/opt/config/zed/settings.json"),
        ("zed", "win32", "APPDATA", r"D:\Data", r"D:\Data\Zed\settings.json"),
    ],
)
def test_variables_move_the_file(
    name: str, platform: Platform, variable: str, folder: str, expected: str
) -> None:
    assert str(user_file(HOSTS[name], platform, "/home/ada", {variable: folder})) == expected


def test_the_shape_of_an_entry() -> None:
    assert entry(HOSTS["zed"], "moothall", ["mcp"], {}) == {"command": "moothall", "args": ["mcp"]}
    assert entry(HOSTS["vscode"], "moothall", ["mcp"], {"A": "b"}) == {
        "type": "stdio",
        "command": "moothall",
        "args": ["mcp"],
        "env": {"A": "b"},
    }
    assert {name: (host.key, host.form) for name, host in HOSTS.items()} == {
        "claude-code": ("mcpServers", "json"),
        "claude-desktop": ("mcpServers", "json"),
        "cursor": ("mcpServers", "json"),
        "vscode": ("servers", "json"),
        "codex": ("mcp_servers", "toml"),
        "gemini": ("mcpServers", "json"),
        "zed": ("context_servers", "json"),
    }


def test_an_unknown_host_is_answered_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="claude-code, claude-desktop, cursor, vscode, codex, gemini, zed"):
        host_named("emacs")
