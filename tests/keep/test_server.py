"""`ensure_server`: it finds a server or starts a hall, and stops nothing."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import keep
from moothall.keep import KeepClient, server
from tests.keep.scripted import PATIENCE, scripted


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """What it starts, which the test has to end because nothing else does."""
    processes: list[subprocess.Popen[bytes]] = []
    start = server._start

    def remembered(host: str, port: int) -> subprocess.Popen[bytes]:
        processes.append(start(host, port))
        return processes[-1]

    monkeypatch.setattr(server, "_start", remembered)
    yield processes
    for process in processes:
        process.kill()
        process.wait(PATIENCE)


def test_a_server_that_answers_is_enough(started: list[subprocess.Popen[bytes]], home: Path) -> None:
    with scripted() as running:
        assert keep.ensure_server("127.0.0.1", running.port) is True
        assert KeepClient.ensure_server("127.0.0.1", running.port, docker_image="whatever") is True
    assert started == []
    assert list(home.iterdir()) == []


@pytest.mark.slow
def test_a_hall_is_started_and_stays(
    started: list[subprocess.Popen[bytes]], home: Path, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "work").mkdir()
    (home / "work" / "moothall.toml").write_text("keep = false\n")  # of another hall
    monkeypatch.chdir(home / "work")
    assert keep.ensure_server("127.0.0.1", free_port) is True
    answer = KeepClient("127.0.0.1", free_port, timeout=PATIENCE).send("hello")
    assert answer is not None
    assert answer.body == "done"
    assert keep.ensure_server("127.0.0.1", free_port) is True
    (process,) = started
    assert process.poll() is None
    assert os.getsid(process.pid) == process.pid  # our Ctrl-C is not its
    assert (home / ".keep" / "hall" / str(free_port)).is_dir()
    assert "listening on" in (home / ".keep" / f"hall-{free_port}.log").read_text()
    assert sorted(entry.name for entry in (home / "work").iterdir()) == ["moothall.toml"]


@pytest.mark.slow
def test_it_outlives_the_program_that_started_it(home: Path, free_port: int) -> None:
    program = (
        "import keep; from moothall.keep import server; start = server._start\n"
        "def told(*where): process = start(*where); print(process.pid); return process\n"
        f"server._start = told; assert keep.ensure_server('127.0.0.1', {free_port})"
    )
    result = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    pid = int(result.stdout)
    try:
        assert (result.returncode, result.stderr) == (0, "")
        assert server.is_listening("127.0.0.1", free_port)
    finally:
        os.kill(pid, signal.SIGKILL)


def test_a_hall_that_does_not_start_is_said_so(
    home: Path, free_port: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "command", lambda *_: [sys.executable, "-c", "raise SystemExit('no room')"])
    monkeypatch.setattr(server, "LAST_LOOK", 0.0)
    assert server.ensure_server("127.0.0.1", free_port) is False
    assert str(home / ".keep" / f"hall-{free_port}.log") in caplog.text
    assert (home / ".keep" / f"hall-{free_port}.log").read_text() == "no room\n"


def test_one_that_never_answers_is_given_up_after_the_timeout(
    started: list[subprocess.Popen[bytes]], free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "command", lambda *_: ["sleep", "60"])
    assert server.ensure_server("127.0.0.1", free_port, timeout=0.05) is False
    (process,) = started
    assert process.poll() is None  # what it started it does not stop either


def test_a_home_that_cannot_be_written(free_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/dev/null")
    assert server.ensure_server("127.0.0.1", free_port) is False
