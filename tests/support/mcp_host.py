"""A host, as the official client makes one: it starts `moothall mcp` and calls its tools."""

import queue
import signal
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.support.server import PATIENCE, PROGRAM, environment

READY = "MCP at "


class Host:
    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured content of a result that is no error."""
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, text_of(result)
        assert isinstance(result.structured_content, dict)
        return result.structured_content

    async def fail(self, tool: str, **arguments: Any) -> str:
        """The text of a result that is an error."""
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error
        text = text_of(result)
        assert "Traceback" not in text
        return text

    async def listen(self, **arguments: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.call("agentchat_listen", **arguments))["messages"]
        return found

    async def hear(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Listen until something that is wanted is told."""
        while True:
            for message in await self.listen(timeout=30):
                if wanted(message):
                    return message

    async def event(self, name: str) -> dict[str, Any]:
        return await self.hear(lambda message: message.get("event") == name)


def text_of(result: types.CallToolResult) -> str:
    (item,) = result.content
    assert isinstance(item, types.TextContent)
    return item.text


def parameters(home: Path, url: str, *flags: str, **variables: str) -> StdioServerParameters:
    """How to start `moothall mcp` with a home folder of its own."""
    home.mkdir(parents=True, exist_ok=True)
    settings = {"AGENTCHAT_SETTLE_MS": "20", **variables}
    return StdioServerParameters(
        command=PROGRAM,
        args=["mcp", *flags],
        env=environment(HOME=str(home), MOOTHALL_URL=url, **settings),
        cwd=home,
    )


@asynccontextmanager
async def running_host(
    home: Path, url: str, *flags: str, mode: str = "auto", **variables: str
) -> AsyncIterator[Host]:
    """A host and its `moothall mcp`; standard error goes to `stderr.txt` in the home folder."""
    started = parameters(home, url, *flags, **variables)
    with (home / "stderr.txt").open("a") as errors:
        async with Client(stdio_client(started, errlog=errors), mode=mode, read_timeout_seconds=60) as client:
            yield Host(client)


@contextmanager
def http_server(
    home: Path, url: str, *flags: str, place: str = "127.0.0.1:0", **variables: str
) -> Iterator[str]:
    """A `moothall mcp --http` of its own, and the address of its MCP endpoint. Its log is `stderr.txt`."""
    home.mkdir(parents=True, exist_ok=True)
    settings = {"AGENTCHAT_SETTLE_MS": "20", **variables}
    process = subprocess.Popen(
        [PROGRAM, "mcp", "--http", place, *flags],
        cwd=home,
        env=environment(HOME=str(home), MOOTHALL_URL=url, **settings),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    addresses: queue.Queue[str | None] = queue.Queue()

    def read_log() -> None:
        with (home / "stderr.txt").open("w") as log:
            for line in process.stderr or ():
                log.write(line)
                if line.startswith(READY):
                    addresses.put(line.removeprefix(READY).strip())
        addresses.put(None)

    reader = threading.Thread(target=read_log)
    reader.start()
    try:
        address = addresses.get(timeout=PATIENCE)
        assert address is not None, "`moothall mcp --http` ended"
        yield address
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)
        reader.join()
        with process:  # closes its pipes
            output = process.stdout.read() if process.stdout else ""
        assert output == "", "standard output is not for log lines"


@asynccontextmanager
async def http_host(address: str, *, token: str | None = None, mode: str = "auto") -> AsyncIterator[Host]:
    """A host that uses an MCP server that runs already."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(address, http_client=http)
        async with Client(transport, mode=mode, read_timeout_seconds=60) as client:
            yield Host(client)
