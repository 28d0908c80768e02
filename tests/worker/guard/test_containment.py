"""No process of a guarded command outlives it, whatever it does and whatever ends."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import DEVNULL
from typing import NamedTuple

import pytest

from moothall.worker.cgroup import own_directory
from moothall.worker.descendants import children_of
from moothall.worker.guard.command_line import program
from tests.worker.guard.guarding import QUIET, WITHOUT_CGROUPS, Guarded, guarded
from tests.worker.processes import Meeting, assert_ended, is_alive, meeting, python, started

REPORT = """
import os, signal, sys
def report(and_then=signal.pause):
    os.write(FD, b"%d\\n" % os.getpid())
    while True:
        and_then()
"""
IGNORE = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"


class Family(NamedTuple):
    """What the command starts, and how many of it report. The command itself reports too, at last."""

    program: str
    reports: int


FAMILIES = {
    "alone": Family("", 0),
    "children": Family("for _ in range(3):\n    os.fork() or report()\n", 3),
    "own sessions": Family("for _ in range(3):\n    os.fork() or os.setsid() or report()\n", 3),
    "daemon": Family("if os.fork() == 0:\n    os.setsid()\n    os.fork() and os._exit(0)\n    report()\n", 1),
    "ignores SIGTERM": Family(IGNORE + "for _ in range(2):\n    os.fork() or os.setsid() or report()\n", 2),
    "is stopped": Family("os.fork() or report(lambda: os.kill(os.getpid(), signal.SIGSTOP))\n", 1),
    "closes its pipes": Family(
        "os.closerange(0, 3)\nfor _ in range(2):\n    os.fork() or os.setsid() or report()\n", 2
    ),
    "forks and leaves": Family(
        "if os.fork() == 0:\n    os.setsid()\n    os.write(FD, b'%d\\n' % os.getpid())\n"
        "    while True:\n        os.fork() and os._exit(0)\n",
        1,
    ),
    "fills its output": Family("os.fork() or report(lambda: os.write(1, b'x' * 65536))\n", 1),
}

OPTIONS = (*QUIET, "--cooldown", "0.2")


@pytest.fixture
def pipe() -> Iterator[Meeting]:
    with meeting() as made:
        yield made


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> Family:
    return FAMILIES[request.param]


def command(pipe: Meeting, family: Family, end: str = "report()") -> list[str]:
    return python((REPORT + family.program + end).replace("FD", str(pipe.writing)))


def cgroup_of(pid: int) -> Path:
    """The cgroup that the guard made for this process. Without one the test is not run."""
    here = own_directory()
    place = own_directory(own=Path(f"/proc/{pid}/cgroup"))
    if here is None or place is None or "moothall-guard" not in place.name:
        pytest.skip("not run: this user may not create cgroups")
    assert place.parent == here
    return place


def all_of(pipe: Meeting, family: Family) -> list[int]:
    """Wait until all of them are there."""
    return pipe.take(family.reports + 1)


def stop_guard(guard: Guarded, _: Path) -> None:
    guard.process.send_signal(signal.SIGTERM)


def interrupt_guard(guard: Guarded, _: Path) -> None:
    guard.process.send_signal(signal.SIGINT)


def kill_guard(guard: Guarded, _: Path) -> None:
    guard.process.send_signal(signal.SIGKILL)


def kill_keeper(guard: Guarded, _: Path) -> None:
    os.kill(guard.keeper, signal.SIGKILL)


def stop_keeper(guard: Guarded, folder: Path) -> None:
    """A keeper that does not go on is replaced by the guard."""
    os.kill(guard.keeper, signal.SIGSTOP)
    (folder / "abort").touch()


def abort(_: Guarded, folder: Path) -> None:
    (folder / "abort").touch()


@pytest.mark.parametrize("end", [stop_guard, interrupt_guard, kill_guard, kill_keeper, abort])
def test_nothing_outlives_the_guard(
    tmp_path: Path, pipe: Meeting, family: Family, end: Callable[[Guarded, Path], None]
) -> None:
    options = (*OPTIONS, "--abort-file", str(tmp_path / "abort"))
    with guarded(
        tmp_path,
        command(pipe, family),
        *options,
        meeting=pipe,
        by=WITHOUT_CGROUPS,
        stdout=DEVNULL,
        stderr=DEVNULL,
    ) as guard:
        pids = [*all_of(pipe, family), guard.keeper]
        end(guard, tmp_path)
        guard.wait()
        pipe.assert_over()
        assert_ended(pids)
        assert not any(map(is_alive, pids))


@pytest.mark.parametrize("end", [kill_guard, kill_keeper])
def test_nothing_outlives_the_guard_of_a_cgroup(
    tmp_path: Path, pipe: Meeting, family: Family, end: Callable[[Guarded, Path], None]
) -> None:
    with guarded(
        tmp_path, command(pipe, family), *OPTIONS, meeting=pipe, stdout=DEVNULL, stderr=DEVNULL
    ) as guard:
        pids = [*all_of(pipe, family), guard.keeper]
        group = cgroup_of(pids[0]) if family is not FAMILIES["forks and leaves"] else None
        end(guard, tmp_path)
        guard.wait()
        pipe.assert_over()
        assert_ended(pids)
        assert group is None or not group.exists()


def test_nothing_outlives_the_command(tmp_path: Path, pipe: Meeting, family: Family) -> None:
    """It ends by itself, and leaves others behind."""
    reading, writing = os.pipe()
    ending = f"os.write(FD, b'%d\\n' % os.getpid())\nos.read({reading}, 1)\nos._exit(7)"
    with guarded(
        tmp_path,
        command(pipe, family, ending),
        *OPTIONS,
        by=WITHOUT_CGROUPS,
        meeting=pipe,
        pass_fds=[reading],
        stdout=DEVNULL,
        stderr=DEVNULL,
    ) as guard:
        pids = all_of(pipe, family)
        os.close(writing)
        os.close(reading)
        assert guard.wait() == 7
        pipe.assert_over()
        assert not any(map(is_alive, pids))
        assert guard.state["exitCode"] == 7
        assert guard.state["killedBy"] is None


def test_nothing_outlives_a_guard_whose_parent_was_killed(
    tmp_path: Path, pipe: Meeting, family: Family
) -> None:
    """The pipe of the lifeline ends with the process that holds its other end, whatever that died of."""
    reading, writing = os.pipe()
    with guarded(
        tmp_path,
        command(pipe, family),
        *OPTIONS,
        "--lifeline",
        str(reading),
        meeting=pipe,
        pass_fds=[reading],
        stdout=DEVNULL,
        stderr=DEVNULL,
    ) as guard:
        os.close(reading)
        pids = all_of(pipe, family)
        os.close(writing)
        guard.wait()
        pipe.assert_over()
        assert not any(map(is_alive, pids))
        assert guard.state["killedBy"] == "orphaned"


def test_a_keeper_that_was_stopped_is_replaced(tmp_path: Path, pipe: Meeting) -> None:
    family = FAMILIES["own sessions"]
    options = (*OPTIONS, "--abort-file", str(tmp_path / "abort"))
    with guarded(tmp_path, command(pipe, family), *options, meeting=pipe) as guard:
        pids = all_of(pipe, family)
        stop_keeper(guard, tmp_path)
        guard.wait()
        pipe.assert_over()
        assert not any(map(is_alive, pids))
        assert guard.state["killedBy"] == "abort"


def test_the_reason_is_told_when_the_keeper_was_killed(tmp_path: Path, pipe: Meeting) -> None:
    with guarded(tmp_path, command(pipe, FAMILIES["alone"]), *OPTIONS, meeting=pipe) as guard:
        pipe.next()
        kill_keeper(guard, tmp_path)
        assert guard.wait() == 1
        assert guard.state["killedBy"] == "keeper-lost"


def test_children_of_a_shell_that_became_the_guard_are_spared(tmp_path: Path, pipe: Meeting) -> None:
    """`cmd & exec niki -- ...`: the process id of the guard had children before."""
    stranger = python(f"import os, signal\nos.write({pipe.writing}, b'%d\\n' % os.getpid())\nsignal.pause()")
    starting = (
        "import os, sys\n"
        "if os.fork() == 0:\n"
        f"    os.execv({stranger[0]!r}, {stranger!r})\n"
        "os.execv(sys.argv[1], sys.argv[1:])\n"
    )
    words = [*python(starting), *program(), *OPTIONS, "--", *command(pipe, FAMILIES["alone"])]
    with started(words, pass_fds=[pipe.writing], stderr=DEVNULL) as process:
        found = set(pipe.take(2))
        (other,) = found & set(children_of(process.pid))
        (guarded_one,) = found - {other}
        keeper = next(pid for pid in children_of(process.pid) if pid != other)
        os.kill(keeper, signal.SIGKILL)
        process.wait(30)
        assert not is_alive(guarded_one)
        assert is_alive(other)


@pytest.mark.parametrize("file", [".state.json.new", "log"])
def test_a_pipe_in_the_place_of_its_file_does_not_stop_the_guard(tmp_path: Path, file: str) -> None:
    """The guard would wait for a reader, and its limits would not hold."""
    trap = f"import os, time; os.mkfifo('trap'); os.rename('trap', {file!r}); time.sleep(600)"
    options = (*OPTIONS, "--timeout", "1", "--log", str(tmp_path / "log"))
    with guarded(tmp_path, python(trap), *options, cwd=tmp_path) as guard:
        guard.wait()
        assert guard.state["killedBy"] == "timeout"
