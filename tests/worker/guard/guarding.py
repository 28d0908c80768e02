"""A guard as a process of its own, with its state file."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from moothall.worker.descendants import children_of
from moothall.worker.guard.command_line import program
from tests.worker.processes import PATIENCE, Meeting, assert_ended, started

# A guard on a machine where it may not create cgroups.
_PROGRAM = """
import sys
from moothall.worker.cgroup import Cgroup
Cgroup.create = lambda name: None
from moothall.worker.guard.command_line import main
sys.exit(main())
"""
WITHOUT_CGROUPS = [sys.executable, "-P", "-c", _PROGRAM]
QUIET = ("--startup-timeout", "0", "--stall-timeout", "0", "--dead-air-timeout", "0")


class Guarded:
    """A running guard."""

    def __init__(self, process: "subprocess.Popen[bytes]", state: Path) -> None:
        self.process = process
        self._state = state

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def keeper(self) -> int:
        (pid,) = children_of(self.pid)
        return pid

    @property
    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._state.read_bytes())
        return found

    def wait(self) -> int:
        return self.process.wait(PATIENCE)

    def finish(self) -> tuple[bytes, bytes]:
        """Read to the end, and wait for it."""
        output, errors = self.process.communicate(timeout=PATIENCE)
        return output or b"", errors or b""

    def kill(self) -> None:
        """Kill the guard, and wait for the keeper, which is then not a child of ours."""
        keeper = self.keeper
        self.process.send_signal(signal.SIGKILL)
        assert self.wait() == -signal.SIGKILL
        assert_ended([keeper])


@contextmanager
def guarded(
    folder: Path,
    command: list[str],
    *options: str,
    meeting: Meeting | None = None,
    by: Sequence[str] = (),
    **more: Any,
) -> Iterator[Guarded]:
    """A guard of the command, started `by` these words. Its state file is in the folder."""
    state = folder / "state.json"
    more.setdefault("stdout", subprocess.PIPE)
    more.setdefault("stderr", subprocess.PIPE)
    more["pass_fds"] = [*more.get("pass_fds", ()), *([meeting.writing] if meeting else ())]
    with started([*(by or program()), "--state", str(state), *options, "--", *command], **more) as process:
        yield Guarded(process, state)
