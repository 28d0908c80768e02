"""`python -m benchmarks.mcp`: what the MCP server costs its user: the time to its first answer, memory, a full
inbox.

It speaks the protocol by hand, so that the client's own time is not counted. Every number is the best of some
rounds: a machine with company makes none of them smaller. A missed bound is printed as MUST MISSED; the exit code
is 0.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from moothall.daemon.folder import Folder
from moothall.daemon.inbox import Inbox
from moothall.tools.caps import CHARACTERS, MESSAGES
from moothall.tools.mailbox import LIMIT

PROGRAM: Final = str(Path(sys.executable).with_name("moothall"))
ROUNDS: Final = 5
FIRST_ANSWER: Final = 1.0  # seconds
IDLE: Final = 80.0  # MB
READING: Final = 0.1  # seconds
KEPT: Final = 100_000  # messages

HELLO: Final = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "benchmark", "version": "1"},
}


class Server:
    """`moothall mcp`, and the messages of its host."""

    def __init__(self, home: Path, url: str) -> None:
        self._started = time.perf_counter()
        self.process = subprocess.Popen(
            [PROGRAM, "mcp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(home), "MOOTHALL_URL": url},
            cwd=home,
        )
        self._id = 0
        self.ask("initialize", HELLO)
        self.first_answer = time.perf_counter() - self._started
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._id += 1
        self._write({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})
        assert self.process.stdout is not None
        while True:
            answer: dict[str, Any] = json.loads(self.process.stdout.readline())
            if answer.get("id") == self._id:
                return answer

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = self.ask("tools/call", {"name": tool, "arguments": arguments})["result"]
        assert not result.get("isError"), result
        found: dict[str, Any] = result["structuredContent"]
        return found

    def worked(self) -> float:
        """Seconds on a processor so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident(self) -> float:
        """MB of memory, shared libraries included."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = [line for line in status.splitlines() if line.startswith("VmRSS")]
        return int(line.split()[1]) / 1024

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)

    def _write(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()


@contextmanager
def hall(folder: Path) -> Iterator[str]:
    """A hall with rules as they come, on a free port."""
    process = subprocess.Popen(
        [PROGRAM, "serve", "--port", "0", "--data-dir", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield next(line for line in process.stdout if " listening on " in line).split()[-1]
    finally:
        process.terminate()
        process.wait(30)


def fill(home: Path, agent: str) -> None:
    """An inbox of as many messages as one keeps, each of the usual length, all of them unread."""
    (place,) = (home / ".agentchat" / "mcp").iterdir()
    text = "The quick brown fox jumps over the lazy dog. " * 3
    lines = [
        {
            "type": "MSG",
            "from": "@b0b0b0b0",
            "from_name": "bob",
            "to": agent if number % 10 == 0 else "#general",
            "content": f"{number}: {text}",
            "msg_id": f"m{number}",
            "verified": True,
            "ts": 1_700_000_000_000 + number,
        }
        for number in range(KEPT)
    ]
    Inbox(Folder(place), limit=LIMIT).append(lines)


def report(what: str, value: float, bound: float, unit: str) -> None:
    verdict = "" if value < bound else "   MUST MISSED"
    print(f"{what:<44} {value:8.1f} {unit}   below {bound:g} {unit}{verdict}", flush=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as name, hall(Path(name) / "data") as url:
        home = Path(name) / "home"
        home.mkdir()
        first, worked = [], []
        for _ in range(ROUNDS):
            server = Server(home, url)
            first.append(server.first_answer)
            worked.append(server.worked())
            server.end()
        report("from the start to the first answer", min(first) * 1000, FIRST_ANSWER * 1000, "ms")
        report("of that, on a processor", min(worked) * 1000, FIRST_ANSWER * 1000, "ms")

        server = Server(home, url)
        server.ask("tools/list", {})
        agent = server.call("agentchat_connect", name="bench")["agent_id"]
        server.call("agentchat_listen", timeout=0)
        report("memory of a connected agent, idle", server.resident(), IDLE, "MB")
        server.end()

        fill(home, agent)
        server = Server(home, url)
        server.call("agentchat_connect", name="bench")
        for what, arguments in (
            ("listen", {}),
            ("listen, one channel", {"channels": ["#general"]}),
            ("tail of 50", {"tail": 50}),
            ("since", {"since": 1_700_000_000_000 + KEPT - 1000}),
        ):
            times = []
            for _ in range(ROUNDS):
                began = time.perf_counter()
                answer = server.call("agentchat_listen", **arguments)
                times.append(time.perf_counter() - began)
                assert answer["count"] <= MESSAGES
                assert sum(len(json.dumps(each)) for each in answer["messages"]) <= CHARACTERS * 1.1
            report(f"{what}, of {KEPT} messages", min(times) * 1000, READING * 1000, "ms")
        report("memory after that", server.resident(), IDLE, "MB")
        server.end()


if __name__ == "__main__":
    main()
