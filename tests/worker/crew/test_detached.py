"""Processes that outlive their parent: which process is meant, and none without its file."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from moothall.worker import state_file
from moothall.worker.crew import detached
from moothall.worker.crew.detached import Detached
from tests.support.workers import environment_of, is_alive, processes_with, until

MARK = "DETACHED_TEST"


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "process.json"
    for pid in processes_with(MARK, str(tmp_path)):
        os.kill(pid, signal.SIGKILL)
    detached.collect()


def start(file: Path, *words: str) -> Detached:
    return detached.start(
        file,
        words,
        environment={MARK: str(file.parent), "PATH": os.environ["PATH"]},
        folder=file.parent,
        log=file.parent / "log",
    )


def test_it_is_told_by_its_file_and_has_what_it_was_given(file: Path) -> None:
    made = start(file, "sh", "-c", "echo here; exec sleep 1000")
    assert Detached.read(file) == made
    process = made.process()
    assert process is not None
    assert os.getsid(process.pid) == process.pid
    assert environment_of(process.pid)[MARK] == str(file.parent)
    until(lambda: (file.parent / "log").read_text() == "here\n", "its output is in the log")
    assert not detached.wait(made, 0)
    detached.send(made, signal.SIGTERM)
    assert detached.wait(made, 30)
    assert made.process() is None


@pytest.mark.parametrize("other", [{"started": 1}, {"boot": "another"}, {"pid": 2**22 + 1}])
def test_another_process_with_its_id_is_not_meant(file: Path, other: dict[str, int | str]) -> None:
    made = start(file, "sleep", "1000")
    stranger = made._replace(**other)  # type: ignore[arg-type]
    assert stranger.process() is None
    assert detached.wait(stranger, 30)
    detached.send(stranger, signal.SIGKILL)
    detached.kill_with_descendants(stranger, 30)
    assert is_alive(made.pid)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"pid": 1}',
        '{"pid": "1", "started": 1, "since": 1.0, "boot": "", "restarts": 0, "is_stopped": 1}',
    ],
)
def test_a_damaged_file_means_no_process(file: Path, content: str) -> None:
    file.write_text(content)
    assert Detached.read(file) is None


def test_nothing_runs_if_the_parent_dies_before_it_has_written_the_file(file: Path) -> None:
    program = f"""
import os, signal
from pathlib import Path
from moothall.worker import state_file
from moothall.worker.crew import detached
state_file.write_object = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
detached.start(Path({str(file)!r}), ["touch", "ran"], environment={{"{MARK}": {str(file.parent)!r}}},
    folder=Path({str(file.parent)!r}), log=Path({str(file.parent / "log")!r}))
"""
    ended = subprocess.run([sys.executable, "-c", program], check=False, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    until(lambda: not processes_with(MARK, str(file.parent)), "the shell ends with the pipe")
    assert not (file.parent / "ran").exists()
    assert not file.exists()


def test_a_kill_takes_what_it_has_started_in_other_sessions(file: Path) -> None:
    made = start(file, "sh", "-c", "setsid sleep 1000 & setsid sleep 1000 & wait")
    until(lambda: len(processes_with(MARK, str(file.parent))) >= 3, "all have started")
    detached.kill_with_descendants(made, 30)
    assert processes_with(MARK, str(file.parent)) == []


def test_the_file_is_never_half_written(file: Path) -> None:
    made = start(file, "sleep", "1000")
    assert state_file.read_object(file) == made._asdict()
    assert not list(file.parent.glob(".*.new"))
