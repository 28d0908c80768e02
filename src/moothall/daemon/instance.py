"""Whether the daemon of an instance runs, and how it is stopped.

The daemon holds a lock for as long as it lives, and the kernel drops it when the process ends, however it
ends. So the pid in `daemon.pid` is believed only while the lock is held: after a crash or a restart of the
machine it may be the pid of another program. The pid file is for people and scripts.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any, Final

import msgspec

from moothall.daemon import lock
from moothall.daemon.folder import Folder, all_daemons, instance_name
from moothall.errors import UsageError
from moothall.identity.keyfile import put_file

PID: Final = "daemon.pid"
STATUS: Final = "status.json"
LOCK: Final = ".daemon.lock"
STOP_TIMEOUT: Final = 15.0  # seconds; a daemon that has not ended by then is killed
_LOOK: Final = 0.05  # seconds between two looks at the lock
_MAX_STATUS: Final = 64 * 1024


# Milliseconds since the epoch, before the year 10000.
Moment = Annotated[int, msgspec.Meta(ge=0, lt=253_402_300_800_000)]


class Status(msgspec.Struct, frozen=True):
    """What a daemon says of itself."""

    pid: int
    url: str
    agent: str
    name: str
    channels: list[str]
    connected: bool
    started_at: Moment
    since: Moment  # when it was connected, or disconnected


class Instance:
    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.name = folder.path.name

    @contextmanager
    def running(self) -> Iterator[None]:
        """Be the daemon for the length of the block. Raises UsageError if there is one already, or OSError."""
        with lock.held(self.folder.path / LOCK) as is_ours:
            if not is_ours:
                raise UsageError(
                    f"the daemon {self.name} runs already (pid {self._pid()}): stop it with"
                    f" `moothall daemon stop -n {self.name}`, or start another with -n INSTANCE"
                )
            put_file(f"{os.getpid()}\n".encode(), self.folder.path / PID, overwrite=True)
            try:
                yield
            finally:
                (self.folder.path / PID).unlink(missing_ok=True)
                (self.folder.path / STATUS).unlink(missing_ok=True)

    def pid(self) -> int | None:
        """The pid of the daemon, or None if none runs. Raises OSError."""
        return self._pid() if self.is_running() else None

    def is_running(self) -> bool:
        """True while a process holds the lock. Raises OSError."""
        return lock.is_held(self.folder.path / LOCK)

    def tell(self, status: Status) -> None:
        """Raises OSError."""
        put_file(msgspec.json.encode(status), self.folder.path / STATUS, overwrite=True)

    def status(self) -> Status | None:
        """What the daemon says of itself; None if none runs, or if it has not connected yet."""
        if not self.is_running():
            return None
        with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return msgspec.json.decode((self.folder.path / STATUS).read_bytes()[:_MAX_STATUS], type=Status)
        return None

    def stop(self, sleep: Callable[[float], Any] = time.sleep, timeout: float = STOP_TIMEOUT) -> bool:
        """End the daemon and wait until it has ended. Return False if none ran. Raises OSError."""
        if not self._signal(signal.SIGTERM):
            return False
        deadline = time.monotonic() + timeout
        while self.is_running():
            if time.monotonic() > deadline:
                self._signal(signal.SIGKILL)
                deadline += timeout
            sleep(_LOOK)
        return True

    def _signal(self, number: signal.Signals) -> bool:
        """Signal the process that holds the lock, and no other one that got its pid meanwhile."""
        pid = self._pid()
        if pid is None or not hasattr(os, "pidfd_open"):
            is_alive = self.is_running()
            if is_alive and pid is not None:
                os.kill(pid, number)
            return is_alive
        try:
            process = os.pidfd_open(pid)
        except ProcessLookupError:
            return self.is_running()
        try:
            if (
                not self.is_running() or self._pid() != pid
            ):  # with the lock still held, `process` is its holder
                return False
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(process, number)
        finally:
            os.close(process)
        return True

    def _pid(self) -> int | None:
        with suppress(OSError, ValueError):
            return int((self.folder.path / PID).read_text()[:20])
        return None


def instances() -> list[Instance]:
    """All that have a folder, by name. Raises OSError, or UsageError for a user without a home."""
    place = all_daemons()
    if not place.is_dir():
        return []
    names = (path.name for path in place.iterdir() if path.is_dir())
    return [Instance(Folder(place / name)) for name in sorted(names) if _is_name(name)]


def _is_name(name: str) -> bool:
    with suppress(UsageError):
        return instance_name(name) == name
    return False
