"""The crew's own hall: a detached process on a port of 127.0.0.1, which stays the same over restarts."""

import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from moothall.errors import UsageError
from moothall.worker import entry
from moothall.worker.crew import detached
from moothall.worker.crew.detached import Detached

HOST: Final = "127.0.0.1"
RECORD: Final = "process.json"
LOG: Final = "hall.log"
PATIENCE: Final = 30.0  # seconds until it listens
STOP_PATIENCE: Final = 15.0  # seconds for an orderly end
TRIES: Final = 5  # ports
MAX_LOG: Final = 16 * 1024 * 1024  # bytes; then it becomes hall.log.1, and a new one begins

_LOOK: Final = 0.02  # seconds between two tries to reach it
_WAITS: Final = (0.0, 1.0, 5.0, 15.0, 60.0)  # seconds between the start of a hall that ended and the next one


class OwnHall:
    """Its methods block, and are called one at a time."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self._failures = 0

    def is_running(self) -> bool:
        found = self._found()
        return found is not None and found.process() is not None

    def open(self, port: int | None, note: Callable[[int], None], *, keep_port: bool) -> None:
        """Start the hall, if it does not run, and return when it listens. Raises UsageError.

        `note` is told the port before the start. `keep_port`: agents know the port, so no other one will do.
        """
        if port is not None and self.is_running():
            self._await(port)
            return
        for _ in range(TRIES):
            if port is None or not _is_free(port):
                if keep_port and port is not None:
                    raise UsageError(
                        f"the hall cannot start: another program has its port {port}. Stop that program, or stop"
                        " the crew with `moothall worker stop` and start it again"
                    )
                port = _free_port()
            note(port)
            self._start(port)
            if self._await(port):
                return
            if keep_port:
                break
            port = None
        raise UsageError(f"the hall does not start: {self._folder / LOG} says why")

    def tend(self, port: int) -> str | None:
        """Start the hall again if it has ended. Returns a line for the log if it was started."""
        found = self._found()
        if found is not None and found.process() is not None:
            self._cut_log()
            return None
        wait = _WAITS[min(self._failures, len(_WAITS) - 1)]
        if found is not None and time.time() - found.since < wait:
            return None
        self._failures = (
            0 if found is not None and time.time() - found.since > max(_WAITS) else self._failures + 1
        )
        self._start(port)
        return f"the hall had ended, and was started again on port {port}"

    def stop(self) -> None:
        """End the hall in order. Returns when it has ended."""
        found = self._found()
        if found is not None:
            detached.send(found, signal.SIGTERM)
            if not detached.wait(found, STOP_PATIENCE):
                detached.kill_with_descendants(found, STOP_PATIENCE)

    def _found(self) -> Detached | None:
        return Detached.read(self._folder / RECORD)

    def _start(self, port: int) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        detached.start(
            self._folder / RECORD,
            command(port, self._folder),
            environment=self._environment,
            folder=self._folder,
            log=self._folder / LOG,
        )

    def _await(self, port: int) -> bool:
        """True when it listens, False when it has ended. Raises UsageError if it does neither."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if not self.is_running():
                return False
            with socket.socket() as probe:
                if probe.connect_ex((HOST, port)) == 0:
                    return True
            time.sleep(_LOOK)
        raise UsageError(
            f"the hall does not listen after {PATIENCE:g} seconds: {self._folder / LOG} says more"
        )

    def _cut_log(self) -> None:
        """The hall appends to the file, so it goes on at the new end."""
        log = self._folder / LOG
        if log.exists() and log.stat().st_size > MAX_LOG:
            log.with_name(f"{LOG}.1").write_bytes(log.read_bytes())
            os.truncate(log, 0)


def command(port: int, folder: Path) -> list[str]:
    """How a hall is started on a port, with its data in a folder."""
    words = [*entry.program("moothall"), "serve", "--host", HOST, "--port", str(port), "--no-keep"]
    return [*words, "--data-dir", str(folder), "--log-format", "json"]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
