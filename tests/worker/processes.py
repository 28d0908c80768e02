"""Real processes for the tests of workers: trees that report who is in them, and bounded waits for their end."""

import os
import select
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from moothall.worker.descendants import look_at

PATIENCE = 30.0  # seconds; only a failing test waits that long


def python(program: str) -> list[str]:
    """A command that runs the program with little to load."""
    return [sys.executable, "-IS", "-c", textwrap.dedent(program)]


def is_alive(pid: int) -> bool:
    return look_at(pid) is not None


def assert_ended(pids: Iterable[int]) -> None:
    """Wait until each has ended, or is a zombie."""
    deadline = time.monotonic() + PATIENCE
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            ready, _, _ = select.select([descriptor], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"process {pid} still runs: {Path(f'/proc/{pid}/cmdline').read_bytes()!r}"
        finally:
            os.close(descriptor)


class Meeting:
    """A pipe on which processes report their ids, one line each. Its end tells that all who had it are gone."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        self._waiting = b""
        self.pids: list[int] = []

    def next(self) -> int:
        while b"\n" not in self._waiting:
            ready, _, _ = select.select([self.reading], [], [], PATIENCE)
            assert ready, "no process reports"
            data = os.read(self.reading, 4096)
            assert data, "all processes have gone"
            self._waiting += data
        line, _, self._waiting = self._waiting.partition(b"\n")
        self.pids.append(int(line))
        return self.pids[-1]

    def take(self, count: int) -> list[int]:
        return [self.next() for _ in range(count)]

    def left_to_us(self) -> None:
        """Close our copy of the end that reports come from."""
        if self.writing >= 0:
            os.close(self.writing)
            self.writing = -1

    def assert_over(self) -> None:
        """Wait until no process has it any more."""
        self.left_to_us()
        deadline = time.monotonic() + PATIENCE
        while True:
            ready, _, _ = select.select([self.reading], [], [], max(0, deadline - time.monotonic()))
            assert ready, "a process still has the pipe"
            if not os.read(self.reading, 65536):
                return

    def close(self) -> None:
        self.left_to_us()
        os.close(self.reading)
        for pid in self.pids:  # what a failing test leaves behind
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextmanager
def meeting() -> Iterator[Meeting]:
    made = Meeting()
    try:
        yield made
    finally:
        made.close()


@contextmanager
def started(command: list[str], **options: object) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that is ended with the test."""
    with subprocess.Popen(command, **options) as process:  # type: ignore[call-overload]  # options vary
        try:
            yield process
        finally:
            process.kill()
