"""Agents as plain processes: start and end, the restart policy, and what they are told."""

import json
import os
import signal
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from moothall.errors import UsageError
from moothall.worker.crew import processes
from moothall.worker.crew.detached import Detached
from moothall.worker.crew.processes import GOOD_RUN, Processes, environment
from moothall.worker.crew.runtime import Recipe, Standing
from tests.support.workers import environment_of, processes_with, until


def pid_of(recipe: Recipe) -> int:
    found = Detached.read(recipe.places.run / processes.RECORD)
    assert found is not None
    return found.pid


def standing(runtime: Processes) -> Standing:
    (found,) = runtime.standing()
    return found


def until_up(recipe: Recipe) -> None:
    state = recipe.places.state / "state.json"
    until(lambda: state.exists() and json.loads(state.read_text())["pid"] == pid_of(recipe), "it is up")


def kill(runtime: Processes, recipe: Recipe) -> None:
    os.kill(pid_of(recipe), signal.SIGKILL)
    until(lambda: not standing(runtime).is_running, "it has ended")


def test_an_agent_is_started_once_stopped_and_started_again(runtime: Processes, recipe: Recipe) -> None:
    assert runtime.standing() == []
    runtime.start(recipe)
    until_up(recipe)
    pid = pid_of(recipe)
    runtime.start(recipe)  # it runs: nothing happens
    assert pid_of(recipe) == pid
    assert standing(runtime)[:2] == ("one", True)
    runtime.stop("one", 30)
    assert (standing(runtime).is_running, standing(runtime).exit_code) == (False, 0)
    assert runtime.tend([recipe]) == []
    runtime.start(recipe)
    assert standing(runtime).is_running
    runtime.kill("one")
    assert processes_with("STATE_DIR", str(recipe.places.state)) == []
    assert runtime.tend([recipe]) == []  # its end was meant
    runtime.remove("one")
    assert runtime.standing() == []
    for act in (runtime.kill, runtime.wake, runtime.remove):
        act("one")  # it does not run
    runtime.stop("one", 0)


def test_what_does_not_end_by_itself_is_killed(runtime: Processes, recipe: Recipe) -> None:
    runtime.start(recipe)
    until_up(recipe)
    os.kill(pid_of(recipe), signal.SIGSTOP)
    runtime.stop("one", 0.1)
    assert not standing(runtime).is_running


def test_a_failure_is_followed_by_three_restarts_and_no_more(runtime: Processes, recipe: Recipe) -> None:
    runtime.start(recipe)
    for restarts in (1, 2, 3):
        until_up(recipe)
        kill(runtime, recipe)
        assert runtime.tend([]) == []  # not one of those that are to run
        assert runtime.tend([recipe]) == [f"one ended with 137: restart {restarts} of 3"]
        assert standing(runtime).restarts == restarts
    until_up(recipe)
    kill(runtime, recipe)
    assert runtime.tend([recipe]) == []
    runtime.start(recipe)  # by the user: the count begins anew
    assert (standing(runtime).is_running, standing(runtime).restarts) == (True, 0)


def test_a_long_run_makes_the_next_restart_the_first(runtime: Processes, recipe: Recipe) -> None:
    file = recipe.places.run / processes.RECORD
    runtime.start(recipe)
    until_up(recipe)
    kill(runtime, recipe)
    ended = Detached.read(file)
    assert ended is not None
    ended._replace(restarts=3, since=ended.since - GOOD_RUN - 1).write(file)
    assert runtime.tend([recipe]) == ["one ended with 137: restart 1 of 3"]


@pytest.mark.parametrize(
    ("status", "code"), [("stopped", 0), ("fatal", 0), ("failed", 1), ("running", 137), ("crashed", 137)]
)
def test_the_state_file_tells_the_exit_code(
    runtime: Processes, recipe: Recipe, status: str, code: int
) -> None:
    recipe.places.make()
    Detached(2**22 + 1, 1, 5.0, "an earlier boot").write(recipe.places.run / processes.RECORD)
    assert standing(runtime).exit_code == 1  # it never wrote its state
    state = recipe.places.state / "state.json"
    state.write_text(json.dumps({"status": status, "pid": 2**22 + 1}))
    assert standing(runtime) == Standing("one", False, state.stat().st_mtime, code, 0)


def test_a_wake_reaches_the_supervisor(runtime: Processes, recipe: Recipe) -> None:
    runtime.start(recipe)
    runtime.wake("one")  # may be too early, and then does no harm
    until_up(recipe)
    runtime.wake("one")
    until((recipe.places.state / "woken").exists, "it was woken")
    assert standing(runtime).is_running


def test_the_token_is_a_file_that_is_there_for_each_start(
    runtime: Processes, recipe: Recipe, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("secret-token\n")
    with_token = replace(recipe, crew=replace(recipe.crew, token=token))
    given = recipe.places.secrets / "oauth-token"
    for _ in range(2):
        runtime.start(with_token)
        until_up(recipe)
        assert given.read_text() == "secret-token\n"
        assert stat.S_IMODE(given.stat().st_mode) == 0o600
        assert "secret-token" not in str(environment_of(pid_of(recipe)))
        given.unlink()  # as the supervisor does
        runtime.kill("one")
    assert f"one Work. --token-file {given}" in (recipe.places.state / "starts").read_text()
    for text, says in (("", "is empty"), ("x" * 20_000, "too long")):
        token.write_text(text)
        with pytest.raises(UsageError, match=says):
            runtime.start(with_token)
    token.unlink()
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        runtime.start(with_token)


def test_each_agent_has_a_key_that_stays(runtime: Processes, recipe: Recipe) -> None:
    runtime.start(recipe)
    key = recipe.places.identity.read_bytes()
    assert stat.S_IMODE(recipe.places.identity.stat().st_mode) == 0o600
    runtime.kill("one")
    runtime.start(recipe)
    assert recipe.places.identity.read_bytes() == key


def test_of_the_users_environment_an_agent_gets_what_programs_need(recipe: Recipe) -> None:
    own = {
        "PATH": "/bin",
        "HOME": "/h",
        "LC_ALL": "C",
        "https_proxy": "p",
        "OPENAI_API_KEY": "k",
        "AWS_SECRET": "s",
    }
    told = environment(recipe, own)
    assert {key: told[key] for key in ("HOME", "LC_ALL", "https_proxy")} == {
        "HOME": "/h",
        "LC_ALL": "C",
        "https_proxy": "p",
    }
    assert told["PATH"].endswith(":/bin")
    assert not {"OPENAI_API_KEY", "AWS_SECRET"} & told.keys()
    assert told["CREW_FOLDER"] == str(recipe.crew.folder)
    assert told["MOOTHALL_IDENTITY"] == str(recipe.places.identity)


def test_a_command_runs_in_the_workspace(runtime: Processes, recipe: Recipe) -> None:
    script = 'pwd > here; echo "$AGENTCHAT_URL" >> here; exit 7'
    assert runtime.exec(recipe, ["sh", "-c", script]) == 7
    told = (recipe.places.workspace / "here").read_text().splitlines()
    assert told == [str(recipe.places.workspace), "ws://127.0.0.1:1"]
    assert runtime.exec(recipe, ["sh", "-c", "kill -9 $$"]) == 137
    with pytest.raises(UsageError, match="no-such-program cannot be started: No such file"):
        runtime.exec(recipe, ["no-such-program"])
