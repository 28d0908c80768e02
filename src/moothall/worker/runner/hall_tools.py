"""The tools of the hall for our own loop over a model's API: in the same process, or of a server that is there.

The agent's list of MCP servers says which. An agent with a sealed key has a server that the runner keeps. Else the
tools run in the process of the loop.
"""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from moothall.errors import UsageError
from moothall.worker import state_file
from moothall.worker.runner.speakers import Described, ToolCall
from moothall.worker.supervisor.registration import SERVER

if TYPE_CHECKING:
    from httpx2 import AsyncClient
    from mcp import Client

    from moothall.tools.session import Session

CONNECT_TIMEOUT: Final = 60.0  # seconds; a server that was killed is away for up to 30
INTERRUPTED: Final = "The tools of the hall were interrupted. Look what has happened, and call again."


class HallTools(Protocol):
    async def described(self) -> list[Described]:
        """All tools, as a model sees them."""
        ...

    async def call(self, call: ToolCall) -> tuple[str, bool]:
        """The answer for the model, and True for a failure."""
        ...


@asynccontextmanager
async def opened(mcp_servers: Path) -> AsyncIterator[HallTools]:
    """The tools that the file tells of. Raises UsageError or OSError."""
    listed = (state_file.read_object(mcp_servers) or {}).get("mcpServers")
    entry = listed.get(SERVER) if isinstance(listed, dict) else None
    if not isinstance(entry, dict):
        raise UsageError(f"{mcp_servers} has no server {SERVER}: remove the file, and start the agent again")
    if entry.get("type") == "http":
        async with _http(entry.get("headers") or {}) as http:
            yield ServedTools(str(entry["url"]), http)
        return
    from moothall.tools.budget_reports import reporting
    from moothall.tools.session import Session

    session = Session(_options())
    try:
        async with reporting(session):
            yield OwnTools(session)
    finally:
        await session.close()


def _options() -> Any:
    from moothall.tools.options import Options

    identity = os.environ.get("MOOTHALL_IDENTITY")
    return Options.from_environment(
        os.environ,
        url=os.environ.get("AGENTCHAT_URL"),
        name=os.environ.get("MOOTHALL_NAME"),
        identity=Path(identity).expanduser() if identity else None,
    )


class Silent:
    """The progress of a call: it is not shown here."""

    is_wanted = False

    async def __call__(self, done: float, total: float | None, message: str) -> None:
        """Nothing."""


class OwnTools:
    """The tools in this process."""

    def __init__(self, session: "Session") -> None:
        self._session = session

    async def described(self) -> list[Described]:
        from moothall.tools.toolbox import TOOLS

        return [Described(tool.name, tool.purpose, tool.input_schema) for tool in TOOLS.values()]

    async def call(self, call: ToolCall) -> tuple[str, bool]:
        from moothall.tools import answering
        from moothall.tools.table import Call
        from moothall.tools.toolbox import TOOLS

        tool = TOOLS.get(call.name)
        if tool is None:
            return f"There is no tool {call.name[:80]!r}. Use one of those that you were given.", True
        with self._session.busy():
            result = await answering.run(tool, Call(self._session, Silent(), call.id), call.arguments)
        return (result, True) if isinstance(result, str) else (result.as_text(), False)


class ServedTools:
    """The tools of a server, by HTTP. Each call stands for itself, so the server may start again between two."""

    def __init__(self, url: str, http: "AsyncClient") -> None:
        self._url = url
        self._http = http

    async def described(self) -> list[Described]:
        async with self._client() as client:
            listed = await client.list_tools()
        return [Described(each.name, each.description or "", each.input_schema) for each in listed.tools]

    async def call(self, call: ToolCall) -> tuple[str, bool]:
        from httpx2 import HTTPError
        from mcp.shared.exceptions import MCPError

        result = None
        try:
            async with self._client() as client:
                result = await client.call_tool(call.name, dict(call.arguments))
        except* (MCPError, HTTPError):
            pass
        if result is None:
            return INTERRUPTED, True
        texts = [text for item in result.content if (text := getattr(item, "text", None))]
        return "\n".join(texts), bool(result.is_error)

    def _client(self) -> "Client":
        from mcp import Client
        from mcp.client.streamable_http import streamable_http_client

        return Client(streamable_http_client(self._url, http_client=self._http))


def _http(headers: Mapping[str, str]) -> "AsyncClient":
    """Without a proxy of the user and without certificates: the server is on this machine."""
    from httpx2 import AsyncClient, Timeout

    # A call may listen for long: the guard bounds the session, not a timeout of reading.
    timeout = Timeout(CONNECT_TIMEOUT, read=None)
    return AsyncClient(headers=dict(headers), timeout=timeout, trust_env=False, verify=False)
