"""`moothall worker up`, `ps`, `logs` and the rest, as users type them, around a crew that does not run."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from moothall.cli import _exits
from moothall.cli.main import app
from moothall.worker.crew import plan, record
from moothall.worker.crew.places import Places, places_of
from moothall.worker.crew.processes import Processes
from moothall.worker.crew.record import Record, Wanted
from moothall.worker.crew.runtime import Standing

FILE = """
[crew]
name = "demo"
hall = "ws://127.0.0.1:1"
isolation = "process"
[defaults]
mission = "Work."
[agents.planner]
[agents.coder]
protected = true
"""

Run = Callable[..., Any]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MOOTHALL_CREWS", str(tmp_path / "crews"))
    monkeypatch.setenv("HOME", str(tmp_path))

    def invoke(*words: str) -> Any:
        return CliRunner().invoke(app, ["worker", *words])

    return invoke


@pytest.fixture
def places(run: Run, tmp_path: Path) -> Places:
    """A crew that was up and was stopped."""
    file = tmp_path / "crew.toml"
    file.write_text(FILE)
    found = places_of("demo", {"MOOTHALL_CREWS": str(tmp_path / "crews")})
    found.make()
    for name in ("planner", "coder"):
        found.member(name).make()
    made = Record(plan.read(file), plan.document(file), record.PROCESS)
    made.aimed("planner", Wanted.STOPPED, {}).write(found.record)
    return found


def assert_error(result: Any, *words: str) -> None:
    assert result.exit_code == _exits.USAGE, result.output
    assert result.stderr.startswith("error: ")
    for word in words:
        assert word in result.stderr


@pytest.mark.parametrize(
    "words", [("ps",), ("logs",), ("stop",), ("kill",), ("wake", "a"), ("rm", "a"), ("exec", "a", "ls")]
)
def test_without_a_crew_each_command_says_what_to_do(run: Run, words: tuple[str, ...]) -> None:
    assert_error(run(*words), "there is no crew.toml in this folder", "--crew")


def test_up_names_what_is_wrong_with_the_file(run: Run, tmp_path: Path) -> None:
    assert_error(run("up"), "there is no file", "crew.toml")
    (tmp_path / "crew.toml").write_text("[agents.a]\nmision = 'x'")
    assert_error(run("up"), "perhaps you mean mission")
    assert_error(run("up", "."), "perhaps you mean mission")
    assert not (tmp_path / "crews").exists()


@pytest.mark.usefixtures("places")
@pytest.mark.parametrize("words", [("logs",), ("stop",), ("kill",), ("rm",), ("exec",)])
def test_an_unknown_agent_is_told_with_the_nearest_name(run: Run, words: tuple[str, ...]) -> None:
    command = ("ls",) if words == ("exec",) else ()
    assert_error(run(*words, "planer", *command), "perhaps you mean planner")


@pytest.mark.usefixtures("places")
def test_ps_shows_agents_and_says_that_nothing_isolates_them(run: Run) -> None:
    shown = run("ps")
    assert shown.exit_code == _exits.OK
    assert "crew demo, hall ws://127.0.0.1:1, process, no keeper" in shown.stderr
    assert "no isolation" in shown.stderr
    assert [line.split()[0] for line in shown.stdout.splitlines()] == ["planner", "coder"]
    assert "not started" in shown.stdout
    found = json.loads(run("ps", "--json", "--crew", "demo").stdout)
    assert (found["crew"], found["isolated"], found["keeper_running"]) == ("demo", False, False)
    assert [(each["name"], each["protected"]) for each in found["agents"]] == [
        ("planner", False),
        ("coder", True),
    ]


@pytest.mark.parametrize(
    ("code", "state", "shown"),
    [
        (None, {"status": "starting"}, "running"),
        (None, {"status": "starting", "backoff": 5.0}, "waiting after an end"),
        (None, {"status": "crashed", "last_error": "exit_code=1"}, "waiting after a crash"),
        (0, {"status": "fatal", "last_error": "exit_code=2", "niki_reason": "budget"}, "failed for good"),
        (0, {"status": "stopped"}, "stopped"),
        (137, {"status": "running"}, "killed"),
        (1, {"status": "failed", "last_error": "no token"}, "ended with 1"),
    ],
)
def test_ps_says_how_each_agent_is_and_where_to_look(
    run: Run,
    places: Places,
    monkeypatch: pytest.MonkeyPatch,
    code: int | None,
    state: dict[str, Any],
    shown: str,
) -> None:
    own = places.member("planner")
    (own.state / "state.json").write_text(json.dumps(state))
    found = Standing("planner", code is None, 0.0, code, 0)
    monkeypatch.setattr(Processes, "standing", lambda _: [found])
    told = run("ps")
    row = told.stdout.splitlines()[0]
    assert [cell.strip() for cell in row.split("  ") if cell][:2] == ["planner", shown]
    assert ("`moothall worker logs planner` may say why" in told.stderr) == ("last_error" in state)
    assert ("exit_code=2, guard: budget" in row) == ("niki_reason" in state)


def test_logs_shows_transcripts_and_nothing_that_steers_a_terminal(run: Run, places: Places) -> None:
    own = places.member("planner").state
    (own / "transcript.log").write_text("one\ntwo\n\x1b]0;title\x07three\n")
    event = '{"type": "assistant", "message": {"content": [{"type": "text", "text": "four\\nlines"}]}}'
    (places.member("coder").state / "transcript.log").write_text(f"{event}\n")
    (own / "supervisor.log").write_text("started\n")
    assert run("logs", "planner", "-n", "2").stdout == "two\n]0;titlethree\n"
    assert run("logs", "-n", "1").stdout == "planner: ]0;titlethree\ncoder: four lines\n"
    assert run("logs", "planner", "--supervisor").stdout == "started\n"
    nothing = run("logs", "planner", "--runner")
    assert nothing.stdout == ""
    assert nothing.stderr == "planner has no runner.log yet\n"
    assert_error(run("logs", "planner", "--runner", "--supervisor"), "choose one")


def test_logs_begin_with_the_session_before_if_there_is_room(run: Run, places: Places) -> None:
    own = places.member("planner").state
    (own / "transcript.prev.log").write_text("one\ntwo\n")
    assert "coder has no transcript.log yet: --runner" in run("logs").stderr
    assert run("logs", "planner").stdout == "one\ntwo\n"  # a session that has said nothing yet
    (own / "transcript.log").write_text("three\n")
    assert run("logs", "planner", "-n", "2").stdout == "two\nthree\n"
    assert run("logs", "planner", "-n", "1").stdout == "three\n"


def test_logs_go_on_until_ctrl_c(run: Run, places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    transcript = places.member("planner").state / "transcript.log"
    transcript.write_text("one\n")
    steps = iter(["two\n"])

    def sleep(_: float) -> None:
        text = next(steps, None)
        if text is None:
            raise KeyboardInterrupt
        with transcript.open("a") as file:
            file.write(text)

    monkeypatch.setattr(time, "sleep", sleep)
    result = run("logs", "planner", "-f")
    assert (result.exit_code, result.stdout) == (_exits.OK, "one\ntwo\n")


def test_exec_runs_in_the_workspace_and_passes_the_exit_code_on(run: Run, places: Places) -> None:
    result = run("exec", "planner", "--", "sh", "-c", "echo $CREW_FOLDER > out; exit 3")
    assert result.exit_code == 3
    told = (places.member("planner").workspace / "out").read_text().strip()
    assert told == str(Path.cwd())


def test_a_crew_that_does_not_run_can_be_stopped_and_its_agents_removed(run: Run, places: Places) -> None:
    stopped = run("stop")
    assert (stopped.exit_code, stopped.stdout) == (_exits.OK, "the crew is down\n")
    removed = run("rm", "planner", "--state")
    assert removed.stdout == "planner removed, with its folders\n"
    assert not places.member("planner").state.exists()
