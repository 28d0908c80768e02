"""The tools of an agent whose key is sealed: an MCP server over HTTP, as a child of the runner.

The model's program connects to it, and never has the key. The server is a fork of the runner and not a new program:
a new program could be traced in the moment before it has sealed itself, and the model can have that moment whenever
it likes, because it may kill the server. For the same reason the runner keeps the listening socket. No other
program can take the port while there is no server, and requests wait for the next one.
"""

import os
import secrets
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NoReturn

from moothall.errors import UsageError
from moothall.worker.descriptors import close_all_but
from moothall.worker.log_lines import LogFile
from moothall.worker.runner.restarts import Restarts
from moothall.worker.runner.stopping import Signals

HOST: Final = "127.0.0.1"
PATH: Final = "/mcp"  # of tools/http.py, which is loaded in the server only
READY_TIMEOUT: Final = 60.0  # seconds until the first server must serve; a busy machine takes its time
END_TIMEOUT: Final = 1.0  # seconds to leave the hall
READY: Final = b"ready"

_BACKLOG: Final = 128
_MAX_COMPLAINT: Final = 4096

# The listening socket, the bearer token, the pipe that ends with the runner, and whom to tell that it is ready.
Serve = Callable[[socket.socket, str, int, Callable[[], None]], None]


class ToolServer:
    """`serve` runs in the child, and returns when the server has ended. It raises UsageError."""

    def __init__(self, serve: Serve, signals: Signals, log: LogFile) -> None:
        self._serve = serve
        self._signals = signals
        self._log = log
        self._restarts = Restarts()
        self._bearer = secrets.token_urlsafe(32)
        self._listening = socket.create_server((HOST, 0), backlog=_BACKLOG)
        self._lifeline, self._alive = os.pipe()
        self._pid: int | None = None
        self.wake_at: float | None = None  # when to look next, if nothing happens

    def entry(self) -> dict[str, Any]:
        """How the model's program reaches it, as an entry of a list of MCP servers."""
        port = self._listening.getsockname()[1]
        return {
            "type": "http",
            "url": f"http://{HOST}:{port}{PATH}",
            "headers": {"Authorization": f"Bearer {self._bearer}"},
        }

    def start(self) -> None:
        """Start it, and wait until it serves. Raises UsageError if it cannot, Stopped or OSError."""
        told, telling = os.pipe()
        try:
            self._fork(telling)
            os.close(telling)
            complaint = self._first_words(told)
        finally:
            os.close(told)
        if complaint != READY.decode():
            raise UsageError(complaint or "the MCP server of the agent ended at once: its log has the reason")

    def look(self) -> None:
        """Start it again if it has ended, when it is time for that. Raises OSError."""
        now = time.monotonic()
        if self._pid is not None and self._has_ended(self._pid):
            self._pid = None
            self.wake_at = self._restarts.ended(now)
            self._log.say(f"the MCP server has ended; it starts again in {self.wake_at - now:.0f} s")
        if self.wake_at is not None and now >= self.wake_at:
            self.wake_at = None
            self._fork(None)

    def end(self) -> None:
        """Let it leave the hall, and end it."""
        self.wake_at = None
        deadline = time.monotonic() + END_TIMEOUT
        if self._pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGTERM)
        while self._pid is not None:
            if self._has_ended(self._pid):
                self._pid = None
            elif time.monotonic() >= deadline:
                os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)
                self._pid = None
            else:
                self._signals.wait((), deadline - time.monotonic(), watch_lifeline=False)

    def __enter__(self) -> "ToolServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self._listening.close()
        os.close(self._lifeline)
        os.close(self._alive)

    def _has_ended(self, pid: int) -> bool:
        try:
            return os.waitpid(pid, os.WNOHANG)[0] == pid
        except ChildProcessError:
            return True

    def _first_words(self, told: int) -> str:
        """What the server says: that it is ready, or what is wrong."""
        deadline = time.monotonic() + READY_TIMEOUT
        os.set_blocking(told, False)
        while time.monotonic() < deadline:
            self._signals.check()
            with suppress(BlockingIOError):
                return os.read(told, _MAX_COMPLAINT).decode(errors="replace")
            self._signals.wait((told,), deadline - time.monotonic(), watch_lifeline=True)
        return f"the MCP server of the agent was not ready after {READY_TIMEOUT:g} seconds"

    # -- the child ---------------------------------------------------------------------------------

    def _fork(self, telling: int | None) -> None:
        self._restarts.started(time.monotonic())
        pid = os.fork()
        if pid:
            self._pid = pid
            return
        try:
            self._be_the_server(telling)
        finally:  # an error too must not unwind into the code of the runner
            os._exit(1)

    def _be_the_server(self, telling: int | None) -> NoReturn:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _noted)  # the server's loop takes them; then it leaves the hall
        output = self._log.open()
        os.dup2(output, 1)
        os.dup2(output, 2)
        own = {self._listening.fileno(), self._lifeline}
        close_all_but(own if telling is None else own | {telling})

        def tell(words: bytes) -> None:
            if telling is not None:
                os.write(telling, words[:_MAX_COMPLAINT])
                os.close(telling)

        try:
            self._serve(self._listening, self._bearer, self._lifeline, lambda: tell(READY))
        except UsageError as error:
            self._log.say(f"the MCP server cannot serve: {error}")
            tell(str(error).encode(errors="replace"))
        os._exit(0)


def _noted(_number: int, _frame: object) -> None:
    """Nothing: it only wakes up what waits."""
