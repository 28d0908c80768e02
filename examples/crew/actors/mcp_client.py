"""A small client for an MCP server: one that it starts itself, or one that is reached over HTTP.

`$AGENT_MCP_CONFIG` names a file with the servers of an agent, in the form that `claude --mcp-config` reads. This
client speaks as much of MCP as the calls of tools need, with the standard library alone.
"""

import http.client
import json
import os
import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

SERVER: Final = "agentchat"
VERSION: Final = "2025-06-18"  # of MCP
LONGEST: Final = 3700.0  # seconds; `agentchat_listen` waits up to an hour

Message = dict[str, Any]


class ServerGone(Exception):
    """The MCP server has ended, or cannot be reached. The session is over."""


class ToolFailed(Exception):
    """The text says what went wrong, and what to do now."""


class Line(Protocol):
    def exchange(self, message: Message) -> Message | None:
        """Send a message. Return the answer of a request, and None for a notification. Raises ServerGone."""
        ...

    def close(self) -> None: ...


class Pipes:
    """A server that this program starts: one JSON object per line on its standard input and output."""

    def __init__(self, entry: Message) -> None:
        self._process = subprocess.Popen(
            [entry["command"], *entry.get("args", ())],
            env={**os.environ, **entry.get("env", {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def exchange(self, message: Message) -> Message | None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise ServerGone("the MCP server has ended") from None
        if "id" not in message:
            return None
        for line in self._process.stdout:
            answer = json.loads(line)
            if answer.get("id") == message["id"] and "method" not in answer:
                return dict(answer)
        raise ServerGone("the MCP server has ended")

    def close(self) -> None:
        """End the server."""
        self._process.terminate()
        with self._process:
            pass


class Web:
    """A server that runs already, at the address of streamable HTTP. Each message is a request of its own."""

    def __init__(self, entry: Message) -> None:
        self._address = urlsplit(entry["url"])
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **entry.get("headers", {}),
        }

    def exchange(self, message: Message) -> Message | None:
        connection = http.client.HTTPConnection(self._address.netloc, timeout=LONGEST)
        try:
            connection.request("POST", self._address.path, json.dumps(message), self._headers)
            response = connection.getresponse()
            if response.status >= http.HTTPStatus.BAD_REQUEST:
                raise ServerGone(f"the MCP server says {response.status}")
            if session := response.headers.get("Mcp-Session-Id"):
                self._headers |= {"Mcp-Session-Id": session, "MCP-Protocol-Version": VERSION}
            if "id" not in message:
                return None
            for answer in _messages(response):
                if answer.get("id") == message["id"] and "method" not in answer:
                    return answer
        except (OSError, http.client.HTTPException) as error:
            raise ServerGone(f"the MCP server cannot be reached: {error}") from None
        finally:
            connection.close()
        raise ServerGone("the MCP server has not answered")

    def close(self) -> None:
        """Nothing is open between two requests."""


def _messages(response: http.client.HTTPResponse) -> Iterator[Message]:
    """What a response holds: one JSON object, or events with one each."""
    if "text/event-stream" not in response.headers.get("Content-Type", ""):
        yield json.load(response)
        return
    for line in response:
        data = line.strip().removeprefix(b"data:")
        if line.startswith(b"data:") and data.strip():  # an event without data only keeps the stream open
            yield json.loads(data)


class Tools:
    """The tools of the hall."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._ids = count(1)
        hello = {
            "protocolVersion": VERSION,
            "capabilities": {},
            "clientInfo": {"name": "stand-in", "version": "1"},
        }
        try:
            self._request("initialize", hello)
            self._line.exchange({"jsonrpc": "2.0", "method": "notifications/initialized"})
        except BaseException:
            self.close()
            raise

    @classmethod
    def from_file(cls, path: Path) -> "Tools":
        """The tools of the server that the file names."""
        entry = json.loads(path.read_text())["mcpServers"][SERVER]
        return cls(Web(entry) if entry.get("type") == "http" else Pipes(entry))

    def call(self, name: str, arguments: Message) -> Message:
        """What a tool returns. Raises ToolFailed or ServerGone."""
        result = self._request("tools/call", {"name": name, "arguments": arguments})
        if result.get("isError"):
            raise ToolFailed(" ".join(part.get("text", "") for part in result["content"]))
        return dict(result["structuredContent"])

    def close(self) -> None:
        self._line.close()

    def _request(self, method: str, parameters: Message) -> Message:
        request = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": parameters}
        answer = self._line.exchange(request) or {}
        if "result" not in answer:
            raise ToolFailed(str(answer.get("error", {}).get("message", "there is no answer")))
        return dict(answer["result"])
