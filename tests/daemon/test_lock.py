"""The lock that says which process acts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from moothall.daemon import lock
from tests.support.server import PATIENCE

HOLDER = """
import sys
from pathlib import Path
from moothall.daemon import lock
with lock.held(Path(sys.argv[1])) as is_ours:
    print(is_ours, flush=True)
    sys.stdin.read()
"""


def test_one_at_a_time(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    assert not lock.is_held(file)
    assert not file.exists()
    with lock.held(file) as first, lock.held(file) as second:
        assert (first, second, lock.is_held(file)) == (True, False, True)
        assert lock.take(file) is None
    assert not lock.is_held(file)
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_look_takes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    with lock.held(file):
        pass
    assert not lock.is_held(file)
    with lock.held(file) as is_ours:
        assert is_ours


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        assert lock.is_held(file)
        holder.kill()
        holder.wait(PATIENCE)
        with lock.held(file) as is_ours:
            assert is_ours


def test_who_waits_gets_it_when_it_is_free(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    first = lock.take(file)
    assert first is not None
    with lock.held(file, PATIENCE, between=lambda: os.close(first)) as is_ours:
        assert is_ours


def test_what_is_raised_in_between_ends_the_wait(tmp_path: Path) -> None:
    def stop() -> None:
        raise InterruptedError

    file = tmp_path / "lock"
    before = os.listdir("/proc/self/fd")  # noqa: PTH208
    with lock.held(file), pytest.raises(InterruptedError):
        lock.take(file, PATIENCE, stop)
    assert len(os.listdir("/proc/self/fd")) == len(before)  # noqa: PTH208


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        lock.take(tmp_path / "lock")
    assert not (tmp_path / "elsewhere").exists()
