"""The process that starts the command: what the command gets, and what is told if it cannot be started.

That it leaves no process behind is in `test_containment.py`.
"""

import os
from pathlib import Path

import pytest

from tests.worker.guard.guarding import Guarded, guarded


def test_a_command_that_does_not_exist(tmp_path: Path) -> None:
    with guarded(tmp_path, ["no-such-program"]) as guard:
        assert guard.finish() == (b"", b"guard: cannot run 'no-such-program': No such file or directory\n")
        assert guard.process.returncode == 127
        assert guard.state["exitCode"] == 127


def test_a_command_that_is_not_a_program(tmp_path: Path) -> None:
    with guarded(tmp_path, [str(tmp_path)]) as guard:
        _, errors = guard.finish()
        assert b"Permission denied" in errors
        assert guard.process.returncode == 126


def test_a_command_leads_a_session_and_has_default_signals(tmp_path: Path) -> None:
    with guarded(tmp_path, ["sh", "-c", "grep SigIgn /proc/self/status; ps -o sid=,pgid=,pid= $$"]) as guard:
        output, _ = guard.finish()
    ignored, ids = output.decode().splitlines()
    assert int(ignored.split()[1], 16) & (1 << 12 | 1 << 24) == 0  # SIGPIPE, SIGXFSZ
    assert len(set(ids.split())) == 1


def environments(guard: Guarded) -> list[bytes]:
    return [Path(f"/proc/{pid}/environ").read_bytes() for pid in (guard.pid, guard.keeper)]


def test_a_secret_variable_is_in_the_environment_of_the_command_alone(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"very secret\n")
    command = ["sh", "-c", "printenv TOKEN; ls /proc/self/fd | wc -l; exec sleep 100"]
    with guarded(tmp_path, command, "--env-fd", f"TOKEN={reading}", pass_fds=[reading]) as guard:
        os.close(reading)
        os.close(writing)
        assert guard.process.stdout is not None
        assert guard.process.stdout.readline() == b"very secret\n"
        assert int(guard.process.stdout.readline()) <= 4  # of `ls`: three and the folder
        assert not any(b"TOKEN" in found for found in environments(guard))


@pytest.mark.parametrize("option", [("--env-fd", "TOKEN=99"), ("--lifeline", "99")])
def test_a_descriptor_that_is_not_there(tmp_path: Path, option: tuple[str, str]) -> None:
    with guarded(tmp_path, ["true"], *option) as guard:
        _, errors = guard.finish()
        assert errors == b"error: the command was not started: Bad file descriptor\n"
        assert guard.process.returncode == 1
