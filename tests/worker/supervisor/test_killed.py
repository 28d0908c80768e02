"""A supervisor that is killed with SIGKILL, at every point of its life: nothing stays behind, another takes over.

The points are operations of the supervisor. It is killed just before each of them, so the point before the next
operation is also the point after this one.
"""

import json
import os
import signal
from contextlib import suppress

import pytest

from tests.support.workers import IDLE_RUNNER, Workplace, finish

TOKEN = "sk-ant-oat01-of-a-test"
FAILING_RUNNER = "exit 1"
FIRST, SECOND, THIRD = 1, 2, 3

# What the supervisor is about to do: the audit event, a part of its arguments, how many times it has come.
STARTUP = {
    "take the lock": ("fcntl.flock", "-", FIRST),
    "write the pid file": ("open", ".supervisor.pid.new", FIRST),
    "put the pid file in place": ("os.rename", "supervisor.pid", FIRST),
    "write the first state": ("open", ".state.json.new", FIRST),
    "put the first state in place": ("os.rename", "/state.json", FIRST),
    "read the token": ("open", "/token'", FIRST),
    "delete the token": ("os.remove", "/token'", FIRST),
    "write the list of tools": ("open", ".mcp.json.new", FIRST),
    "put the list of tools in place": ("os.rename", "mcp.json", FIRST),
    "touch the heartbeat": ("open", ".heartbeat", FIRST),
    "say that it runs": ("os.rename", "/state.json", SECOND),
    "forget the last reason of the guard": ("os.rename", "niki-state.json", FIRST),
    "open the log of the runner": ("open", "runner.log", FIRST),
    "start the runner": ("os.posix_spawn", "-", FIRST),
    "log that the runner was started": ("open", "supervisor.log", FIRST),
}
AFTER_A_RUN = {
    "look at the guard's state": ("open", "niki-state.json", FIRST),
    "log the end": ("open", "supervisor.log", SECOND),
    "write the state after a run": ("open", ".state.json.new", THIRD),
    "put the state after a run in place": ("os.rename", "/state.json", THIRD),
}
STOPPING = {
    "log the stop": ("open", "supervisor.log", SECOND),
    "write the last state": ("open", ".state.json.new", THIRD),
    "put the last state in place": ("os.rename", "/state.json", THIRD),
    "remove the stop file": ("os.remove", "/stop", FIRST),
    "remove the pid file": ("os.remove", "supervisor.pid", FIRST),
}


def variables(point: tuple[str, str, int]) -> dict[str, str]:
    return {"KILLED_AT": " ".join(map(str, point))}


def assert_killed_without_a_trace(place: Workplace, code: int) -> None:
    """All files are whole, no process is left, and the next supervisor runs the agent."""
    assert code == -signal.SIGKILL
    place.until_nothing_is_left()
    place.state()
    with suppress(FileNotFoundError):
        json.loads((place.folder / "mcp.json").read_text())
    place.set_runner(IDLE_RUNNER)
    (place.folder / "stop").unlink(missing_ok=True)
    before = len(place.runs())
    process = place.supervise()
    place.until_running(before + 1)
    assert place.until_status("running")["pid"] == process.pid
    assert not place.token_file.exists()
    assert not [path for path in place.folder.iterdir() if path.name.endswith(".new")]
    process.terminate()
    assert finish(process)[0] == 0
    place.until_nothing_is_left()


@pytest.mark.parametrize("point", STARTUP.values(), ids=STARTUP)
def test_killed_during_startup(place: Workplace, point: tuple[str, str, int]) -> None:
    place.token_file.write_text(TOKEN)
    code, _ = finish(place.supervise(program="killed-supervisor", **variables(point)))
    assert_killed_without_a_trace(place, code)


def test_killed_while_the_runner_runs(place: Workplace) -> None:
    process = place.supervise()
    place.until_running()
    process.kill()
    assert_killed_without_a_trace(place, finish(process)[0])


@pytest.mark.parametrize("point", AFTER_A_RUN.values(), ids=AFTER_A_RUN)
def test_killed_after_a_run(place: Workplace, point: tuple[str, str, int]) -> None:
    place.set_runner(FAILING_RUNNER)
    code, _ = finish(place.supervise(program="killed-supervisor", **variables(point)))
    assert_killed_without_a_trace(place, code)


def test_killed_while_it_waits(place: Workplace) -> None:
    place.set_runner(FAILING_RUNNER)
    process = place.supervise()
    place.until_status("crashed")
    process.kill()
    assert_killed_without_a_trace(place, finish(process)[0])


@pytest.mark.parametrize("point", STOPPING.values(), ids=STOPPING)
def test_killed_while_it_stops(place: Workplace, point: tuple[str, str, int]) -> None:
    process = place.supervise(program="killed-supervisor", **variables(point))
    place.until_running()
    (place.folder / "stop").touch()
    assert_killed_without_a_trace(place, finish(process)[0])


def test_killed_before_it_forwards_the_stop(place: Workplace) -> None:
    process = place.supervise(program="killed-supervisor", **variables(("os.kill", "-", FIRST)))
    place.until_running()
    process.terminate()
    assert_killed_without_a_trace(place, finish(process)[0])


def test_a_runner_that_is_killed_leaves_nothing_behind(place: Workplace) -> None:
    """What it started is ended by the supervisor, also in a session of its own."""
    place.set_runner(f"setsid sleep 1000 &\nsleep 1000 &\n{IDLE_RUNNER}")
    process = place.supervise()
    runner = place.until_running()
    assert len(place.left()) >= 4
    os.kill(runner, signal.SIGKILL)
    place.until_status("crashed")
    assert place.left() == [process.pid]
