"""The hosts that `moothall mcp install` knows: where each keeps its list of servers, and in which shape."""

from collections.abc import Mapping
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from typing import Any, Final, Literal, NamedTuple

from moothall.errors import UsageError

SERVER: Final = "moothall"  # the name of our entry

Platform = Literal["linux", "darwin", "win32"]


class Host(NamedTuple):
    """One row. Paths begin with `~`, `$CONFIG`, `$APPDATA` or `$CODEX_HOME`, and may differ by platform."""

    title: str
    user: str | Mapping[Platform, str]
    project: str | None
    key: str  # the table of servers in the file
    form: Literal["json", "toml"] = "json"
    has_type: bool = False  # an entry says that its server speaks over stdio
    next_step: str = "restart it"


HOSTS: Final[Mapping[str, Host]] = {
    "claude-code": Host(
        "Claude Code", "~/.claude.json", ".mcp.json", "mcpServers", has_type=True, next_step="run /mcp in it"
    ),
    "claude-desktop": Host(
        "Claude Desktop",
        {
            "linux": "$CONFIG/Claude/claude_desktop_config.json",
            "darwin": "~/Library/Application Support/Claude/claude_desktop_config.json",
            "win32": "$APPDATA/Claude/claude_desktop_config.json",
        },
        None,
        "mcpServers",
    ),
    "cursor": Host("Cursor", "~/.cursor/mcp.json", ".cursor/mcp.json", "mcpServers", has_type=True),
    "vscode": Host(
        "VS Code",
        {
            "linux": "$CONFIG/Code/User/mcp.json",
            "darwin": "~/Library/Application Support/Code/User/mcp.json",
            "win32": "$APPDATA/Code/User/mcp.json",
        },
        ".vscode/mcp.json",
        "servers",
        has_type=True,
        next_step="run `MCP: List Servers` in it",
    ),
    "codex": Host("Codex", "$CODEX_HOME/config.toml", ".codex/config.toml", "mcp_servers", form="toml"),
    "gemini": Host("Gemini CLI", "~/.gemini/settings.json", ".gemini/settings.json", "mcpServers"),
    "zed": Host(
        "Zed",
        {
            "linux": "$CONFIG/zed/settings.json",
            "darwin": "~/.config/zed/settings.json",
            "win32": "$APPDATA/Zed/settings.json",
        },
        ".zed/settings.json",
        "context_servers",
        next_step="look for it in the settings of its agent",
    ),
}


def host_named(name: str) -> Host:
    """Raises UsageError for a name that is not in the table."""
    if name not in HOSTS:
        raise UsageError(f"there is no host {name[:80]!r}; choose one of {', '.join(HOSTS)}")
    return HOSTS[name]


def user_file(host: Host, platform: Platform, home: str, environment: Mapping[str, str]) -> PurePath:
    """The file for all projects of a user. The variables are those that the hosts read themselves."""
    kind = PureWindowsPath if platform == "win32" else PurePosixPath
    base = kind(home)
    folders = {
        "~": base,
        "$CONFIG": kind(environment.get("XDG_CONFIG_HOME") or base / ".config"),
        "$APPDATA": kind(environment.get("APPDATA") or base / "AppData" / "Roaming"),
        "$CODEX_HOME": kind(environment.get("CODEX_HOME") or base / ".codex"),
    }
    first, *rest = (host.user if isinstance(host.user, str) else host.user[platform]).split("/")
    return folders[first].joinpath(*rest)


def entry(host: Host, command: str, arguments: list[str], environment: Mapping[str, str]) -> dict[str, Any]:
    """What a host's file says about our server."""
    fields: dict[str, Any] = {"type": "stdio"} if host.has_type else {}
    fields |= {"command": command, "args": arguments}
    if environment:
        fields["env"] = dict(environment)
    return fields
