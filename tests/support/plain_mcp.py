"""A stand-in for a model's program that calls MCP tools over HTTP with nothing but the standard library.

`python plain_mcp.py TOOL ARGUMENTS [TOOL ARGUMENTS...]` calls the tools one after the other, at the server that
$AGENT_MCP_CONFIG tells of, and prints each answer as a line. A tool `-` waits for the file that ARGUMENTS names.
"""

import json
import os
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

VERSION = "2025-06-18"  # of the protocol: the last one with a handshake


class Server:
    def __init__(self, config: str) -> None:
        self._entry = json.loads(Path(config).read_text())["mcpServers"]["agentchat"]
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
        self._number = 0
        self._headers: dict[str, str] = {}

    def greet(self) -> None:
        """The handshake."""
        client = {"name": "stand-in", "version": "1"}
        self._ask("initialize", protocolVersion=VERSION, capabilities={}, clientInfo=client)
        self._headers["mcp-protocol-version"] = VERSION
        self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, tool: str, arguments: dict[str, Any]) -> str:
        result = self._ask("tools/call", name=tool, arguments=arguments)
        return str(result["content"][0]["text"])

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        body = self._post({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        data = [line[5:] for line in body.splitlines() if line.startswith("data:")] or [body]
        return dict(json.loads(data[-1])["result"])

    def _post(self, message: dict[str, Any]) -> str:
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        headers |= self._entry["headers"] | self._headers
        request = urllib.request.Request(  # noqa: S310  # the server of the runner
            self._entry["url"], json.dumps(message).encode(), headers
        )
        with self._open(request, timeout=60) as reply:
            if session := reply.headers.get("mcp-session-id"):
                self._headers["mcp-session-id"] = session
            return str(reply.read().decode())


def main(words: list[str]) -> None:
    server = Server(os.environ["AGENT_MCP_CONFIG"])
    server.greet()
    for tool, argument in zip(words[::2], words[1::2], strict=True):
        if tool == "-":
            while not Path(argument).exists():  # a process without a loop
                time.sleep(0.01)
        else:
            sys.stdout.write(f"{server.call(tool, json.loads(argument))}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
