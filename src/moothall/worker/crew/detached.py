"""A process that outlives the one that started it, and the file that says which one it is.

A process id can get a new owner, so the file also has the start time and the boot of the machine. The process is a
small shell at first, which waits for a line from its parent. The parent writes the file, and then the line. If the
parent is killed before that, the shell sees the end of the pipe and ends. So each process that goes on is on file.
"""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, NamedTuple

from moothall.worker import descendants, state_file
from moothall.worker.descendants import Process
from moothall.worker.log_lines import LogFile

_GATE: Final = ("/bin/sh", "-c", 'read -r go && exec "$@" </dev/null', "sh")
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")

_children: list["subprocess.Popen[bytes]"] = []  # those of this process, to be collected when they have ended


class Detached(NamedTuple):
    """What the file says."""

    pid: int
    started: int  # in ticks since the boot, as /proc has it
    since: float  # seconds since 1970
    boot: str
    restarts: int = 0
    is_stopped: bool = False  # on purpose: it is not started again

    @classmethod
    def read(cls, file: Path) -> "Detached | None":
        """None if there is no file, or one that was edited into something else. Raises OSError."""
        fields = state_file.read_object(file) or {}
        kinds = {"pid": int, "started": int, "since": float, "boot": str, "restarts": int, "is_stopped": bool}
        if fields.keys() != kinds.keys() or not all(isinstance(fields[key], kinds[key]) for key in kinds):
            return None
        return cls(**fields)

    def write(self, file: Path) -> None:
        """Raises OSError."""
        state_file.write_object(file, self._asdict())

    def process(self) -> Process | None:
        """None if it has ended."""
        collect()
        if self.boot != _boot():
            return None
        found = descendants.look_at(self.pid)
        return found if found is not None and found.started == self.started else None


def start(
    file: Path,
    words: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path,
    log: Path,
    restarts: int = 0,
) -> Detached:
    """Start a program in a session of its own. What it prints goes to the log. Raises OSError."""
    with ExitStack() as opened:
        output = LogFile(log).open()
        opened.callback(os.close, output)
        waiting, writing = os.pipe()
        opened.callback(os.close, writing)
        try:
            child = subprocess.Popen(  # noqa: S603  # our own words
                [*_GATE, *words],
                env=environment,
                cwd=folder,
                stdin=waiting,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        finally:
            os.close(waiting)
        _children.append(child)
        seen = descendants.look_at(child.pid)
        made = Detached(child.pid, seen.started if seen else 0, time.time(), _boot(), restarts)
        made.write(file)
        with suppress(BrokenPipeError):  # it was killed: the next look finds that out
            os.write(writing, b"go\n")
    return made


def send(detached: Detached, number: int) -> None:
    """Signal it, and no other process that has its id now."""
    process = detached.process()
    if process is not None:
        descendants.send(process, number)


def wait(detached: Detached, seconds: float) -> bool:
    """True when it has ended, False if it runs after so many seconds."""
    process = detached.process()
    return process is None or descendants.wait(process, seconds)


def kill_with_descendants(detached: Detached, seconds: float) -> None:
    """SIGKILL it and all processes below it, in whatever session. They are stopped first, so none escapes.

    Returns when they have ended, and after so many seconds in any case.
    """
    process = detached.process()
    if process is None:
        return
    deadline = time.monotonic() + seconds
    descendants.send(process, signal.SIGSTOP)
    below = descendants.kill_tree(process.pid)
    descendants.send(process, signal.SIGKILL)
    for each in (process, *below):
        descendants.wait(each, deadline - time.monotonic())


def collect() -> None:
    """Take the children of this process that have ended off the list of the kernel."""
    for child in list(_children):
        if child.poll() is not None:
            with suppress(ValueError):  # another thread was faster
                _children.remove(child)


def _boot() -> str:
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""
