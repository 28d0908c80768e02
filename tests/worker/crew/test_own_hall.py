"""The crew's own hall: its port, its restarts and its log, with a stand-in that only listens."""

import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from moothall.errors import UsageError
from moothall.worker.crew import own_hall
from moothall.worker.crew.detached import Detached
from moothall.worker.crew.own_hall import HOST, OwnHall
from tests.support.workers import until

LISTEN = (
    "import signal, socket, sys; s = socket.create_server((sys.argv[1], int(sys.argv[2]))); signal.pause()"
)


@pytest.fixture
def hall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnHall]:
    monkeypatch.setattr(
        own_hall, "command", lambda port, _: [sys.executable, "-IS", "-c", LISTEN, HOST, str(port)]
    )
    found = OwnHall(tmp_path / "hall", {})
    yield found
    found.stop()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def test_it_gets_a_free_port_which_is_noted_before_it_starts(hall: OwnHall) -> None:
    noted: list[tuple[int, bool]] = []
    hall.open(None, lambda port: noted.append((port, listens(port))), keep_port=False)
    ((port, listened),) = noted
    assert not listened
    assert listens(port)
    assert hall.is_running()
    hall.open(port, lambda _: pytest.fail("it runs already"), keep_port=True)
    hall.stop()
    assert not hall.is_running()
    hall.open(port, lambda again: noted.append((again, False)), keep_port=True)
    assert noted[-1][0] == port


def test_a_port_that_another_program_has_is_given_up_only_if_no_agent_knows_it(hall: OwnHall) -> None:
    with socket.create_server((HOST, 0)) as other:
        taken = other.getsockname()[1]
        with pytest.raises(UsageError, match=f"another program has its port {taken}"):
            hall.open(taken, lambda _: pytest.fail("it cannot start"), keep_port=True)
        noted: list[int] = []
        hall.open(taken, noted.append, keep_port=False)
        assert taken not in noted
        assert listens(noted[-1])


def test_a_hall_that_ends_at_once_is_told(hall: OwnHall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_hall, "command", lambda *_: ["false"])
    noted: list[int] = []
    with pytest.raises(UsageError, match=r"the hall does not start: .*hall\.log says why"):
        hall.open(None, noted.append, keep_port=False)
    assert len(noted) == own_hall.TRIES


def test_it_is_started_again_at_once_and_then_with_pauses(
    hall: OwnHall, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(own_hall, "command", lambda *_: ["true"])
    file = tmp_path / "hall" / own_hall.RECORD
    assert "started again on port 7000" in str(hall.tend(7000))
    until(lambda: not hall.is_running(), "it ends at once")
    assert hall.tend(7000) is None  # not yet
    ended = Detached.read(file)
    assert ended is not None
    ended._replace(since=time.time() - 2).write(file)
    assert hall.tend(7000) is not None


def test_its_log_is_bounded(hall: OwnHall, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hall.open(None, lambda _: None, keep_port=False)
    monkeypatch.setattr(own_hall, "MAX_LOG", 10)
    log = tmp_path / "hall" / own_hall.LOG
    log.write_text("a long line of the log\n")
    assert hall.tend(1) is None
    assert log.read_text() == ""
    assert log.with_name("hall.log.1").read_text() == "a long line of the log\n"
