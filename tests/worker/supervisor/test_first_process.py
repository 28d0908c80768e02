"""A supervisor that is process 1, as in a container: it gets its signals, and collects what others leave behind."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from moothall.worker.descendants import children_of
from tests.support.workers import Workplace, is_alive, until

NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
# Leaves an orphan that ends at once, then fails.
RUNNER = """
echo $$ >> "$STATE_DIR/runs"
(sh -c 'sleep 0.01' &)
exit 1
"""


def _can_be_first() -> bool:
    if shutil.which(NAMESPACE[0]) is None:
        return False
    return subprocess.run([*NAMESPACE, "true"], check=False, capture_output=True, timeout=60).returncode == 0


@pytest.fixture
def first(place: Workplace) -> Iterator["subprocess.Popen[bytes]"]:
    """The namespace with the supervisor in it."""
    if not _can_be_first():
        pytest.skip("not run: this user cannot make a namespace of processes")
    place.set_runner(RUNNER)
    place.folder.mkdir(mode=0o700)
    (place.folder / "state.json").write_text('{"backoff": 150}')  # the wait is 300 s
    words = [*NAMESPACE, str(place.programs / "agent-supervisor"), place.name, "Greet them."]
    with subprocess.Popen([*words, "--heartbeat", "0.2"], env=place.environment()) as process:
        try:
            yield process
        finally:
            process.kill()


def supervisor_below(process: "subprocess.Popen[bytes]") -> int:
    (pid,) = children_of(process.pid)
    return pid


def zombies_below(pid: int) -> list[int]:
    return [child for child in children_of(pid) if not is_alive(child) and Path(f"/proc/{child}").exists()]


def test_it_is_woken_stopped_and_leaves_no_zombies(
    place: Workplace, first: "subprocess.Popen[bytes]"
) -> None:
    assert place.until_status("crashed")["pid"] == 1
    pid = supervisor_below(first)
    until(lambda: zombies_below(pid) == [], "orphans are collected")
    os.kill(pid, signal.SIGUSR1)
    until(lambda: len(place.runs()) == 2, "the next run begins")
    os.kill(pid, signal.SIGTERM)
    assert first.wait(60) == 0
    assert place.state()["status"] == "stopped"
    place.until_nothing_is_left()
