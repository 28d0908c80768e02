"""The supervisor as a process: each numbered step of the agent's lifecycle (seed 000), with a stand-in runner."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from moothall.errors import UsageError
from moothall.worker.descendants import descendants
from moothall.worker.supervisor.service import find_runner
from tests.support.server import PATIENCE
from tests.support.workers import (
    IDLE_RUNNER,
    Workplace,
    command_line,
    environment_of,
    finish,
    is_alive,
    parent_of,
    until,
)

TOKEN = "sk-ant-oat01-of-a-test"


def in_memory(pid: int) -> int:
    """Kilobytes, with a share of what several processes have in common."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))


def switches(pid: int) -> int:
    """How often a process has gone to sleep by itself."""
    text = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("voluntary_ctxt"))


# -- startup --------------------------------------------------------------------------------------------


def test_startup_1_it_is_given_a_name_and_a_mission(place: Workplace) -> None:
    process = place.supervise()
    place.until_running()
    state = place.until_status("running")
    assert (state["agent_name"], state["mission"], state["pid"]) == ("alice", "Greet them.", process.pid)


def test_startup_2_the_token_is_read_and_its_file_deleted(place: Workplace) -> None:
    place.token_file.write_text(f"{TOKEN}\n")
    place.set_runner(f'read token <&"$AGENT_LIFELINE"; echo "$token" > "$STATE_DIR/seen"\n{IDLE_RUNNER}')
    place.supervise()
    place.until_running()
    assert (place.folder / "seen").read_text() == f"{TOKEN}\n"
    assert not place.token_file.exists()


def test_startup_2_the_token_is_in_no_environment_argument_or_file(place: Workplace) -> None:
    place.token_file.write_text(TOKEN)
    process = place.supervise()
    runner = place.until_running()
    place.until_status("running")
    for pid in (process.pid, runner):
        for name in ("environ", "cmdline"):
            assert TOKEN.encode() not in Path(f"/proc/{pid}/{name}").read_bytes()
    for path in place.folder.iterdir():
        assert TOKEN.encode() not in path.read_bytes()


def test_startup_2_a_token_in_the_environment_leaves_it(place: Workplace) -> None:
    place.set_runner(f'read token <&"$AGENT_LIFELINE"; echo "$token" > "$STATE_DIR/seen"\n{IDLE_RUNNER}')
    process = place.supervise(CLAUDE_CODE_OAUTH_TOKEN=TOKEN)
    runner = place.until_running()
    assert (place.folder / "seen").read_text() == f"{TOKEN}\n"
    for pid in (process.pid, runner):
        assert environment_of(pid)
        assert "CLAUDE_CODE_OAUTH_TOKEN" not in environment_of(pid)
        assert TOKEN.encode() not in Path(f"/proc/{pid}/environ").read_bytes()


def test_startup_2_each_run_gets_the_token(place: Workplace) -> None:
    place.token_file.write_text(TOKEN)
    place.set_runner('read token <&"$AGENT_LIFELINE"; echo "$token" >> "$STATE_DIR/seen"; exit 1')
    place.supervise()
    seen = place.folder / "seen"
    until(lambda: seen.exists() and seen.read_text().count("\n") == 2, "two runs")
    assert seen.read_text() == f"{TOKEN}\n{TOKEN}\n"


def test_startup_2_the_identity_goes_to_the_runner_which_has_the_tools(place: Workplace) -> None:
    place.identity_file.write_text('{"key":\n"secret-of-a-test"}')
    reads = '{ read token; read identity; } <&"$AGENT_LIFELINE"'
    place.set_runner(f'{reads}; echo "$token:$identity" > "$STATE_DIR/seen"\n{IDLE_RUNNER}')
    process = place.supervise()
    runner = place.until_running()
    assert (place.folder / "seen").read_text() == ':{"key": "secret-of-a-test"}\n'
    assert not place.identity_file.exists()
    assert not (place.folder / "mcp.json").exists()
    for pid in (process.pid, runner):
        for name in ("environ", "cmdline"):
            assert b"secret-of-a-test" not in Path(f"/proc/{pid}/{name}").read_bytes()


def test_startup_2_secrets_that_the_host_is_about_to_put_there_are_waited_for(place: Workplace) -> None:
    place.set_runner(f'read token <&"$AGENT_LIFELINE"; echo "$token" > "$STATE_DIR/seen"\n{IDLE_RUNNER}')
    place.supervise(MOOTHALL_SECRETS="oauth-token")
    place.until_status("starting")
    assert place.runs() == []
    place.token_file.write_text(TOKEN)
    place.until_running()
    assert (place.folder / "seen").read_text() == f"{TOKEN}\n"


def test_startup_2_a_wait_for_secrets_can_be_stopped(place: Workplace) -> None:
    process = place.supervise(MOOTHALL_SECRETS="identity")
    place.until_status("starting")
    process.terminate()
    assert finish(process)[0] == 0
    assert place.state()["status"] == "stopped"
    assert place.runs() == []


def test_startup_3_the_tools_are_registered(place: Workplace) -> None:
    place.supervise()
    place.until_running()
    (server,) = json.loads((place.folder / "mcp.json").read_text())["mcpServers"].items()
    assert server[0] == "agentchat"
    assert server[1]["env"] == {
        "MOOTHALL_NAME": "alice",
        "AGENTCHAT_URL": "ws://127.0.0.1:1",
        "MOOTHALL_BUDGET_FILE": str(place.folder / "niki-state.json"),
    }
    command = [server[1]["command"], *server[1]["args"], "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert "MCP server" in shown.stdout


def test_startup_4_the_runner_beside_the_program_is_taken(tmp_path: Path) -> None:
    runner = tmp_path / "agent-runner"
    runner.touch(mode=0o755)
    assert find_runner(tmp_path / "agent-supervisor") == runner


def test_startup_4_else_the_one_beside_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    runner = tmp_path / "agent-runner"
    runner.touch(mode=0o755)
    assert find_runner(Path("/nowhere/agent-supervisor")) == runner


def test_startup_4_without_a_runner_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(UsageError, match="there is no agent-runner in /nowhere: install moothall again"):
        find_runner(Path("/nowhere/agent-supervisor"))


def test_startup_5_a_second_supervisor_of_the_name_ends_at_once(place: Workplace) -> None:
    first = place.supervise()
    place.until_running()
    code, said = finish(place.supervise())
    assert code == 1
    assert f"a supervisor of alice runs already (pid {first.pid})" in said
    assert is_alive(first.pid)
    assert (place.folder / "supervisor.pid").read_text() == f"{first.pid}\n"


def test_startup_5_a_pid_file_of_another_process_does_not_matter(place: Workplace) -> None:
    """After a crash, or in a new container, the pid may belong to any program: here to this one."""
    place.folder.mkdir(mode=0o700)
    (place.folder / "supervisor.pid").write_text(f"{os.getpid()}\n")
    process = place.supervise()
    place.until_running()
    assert (place.folder / "supervisor.pid").read_text() == f"{process.pid}\n"


def test_a_token_that_cannot_be_a_token_ends_it_and_is_deleted(place: Workplace) -> None:
    place.token_file.write_text("two words")
    code, said = finish(place.supervise())
    assert (code, place.token_file.exists()) == (1, False)
    assert "holds more than one word" in said
    assert place.state()["status"] == "failed"
    assert "two words" not in said + (place.folder / "state.json").read_text()


# -- execution ------------------------------------------------------------------------------------------


def test_execution_1_and_2_the_runner_gets_its_configuration(place: Workplace) -> None:
    place.set_runner(f'env > "$STATE_DIR/environment"\n{IDLE_RUNNER}')
    place.supervise()
    place.until_running()
    lines = (place.folder / "environment").read_text().splitlines()
    assert {
        "AGENT_NAME=alice",
        "MISSION=Greet them.",
        f"STATE_DIR={place.folder}",
        f"LOG_FILE={place.folder}/runner.log",
    } <= set(lines)


def test_the_runner_has_no_signal_blocked_and_a_group_of_its_own(place: Workplace) -> None:
    place.supervise()
    runner = place.until_running()
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{runner}/status").read_text().splitlines())
    assert int(status["SigBlk"], 16) == 0
    assert os.getpgid(runner) == runner


def test_what_the_runner_writes_is_in_its_log(place: Workplace) -> None:
    place.set_runner(f"echo said; echo complained >&2\n{IDLE_RUNNER}")
    place.supervise()
    place.until_running()
    assert (place.folder / "runner.log").read_text() == "said\ncomplained\n"


def test_the_heartbeat_goes_on_during_a_run(place: Workplace) -> None:
    place.supervise()
    place.until_running()
    heartbeat = place.folder / ".heartbeat"
    first = heartbeat.stat().st_mtime_ns
    until(lambda: heartbeat.stat().st_mtime_ns > first, "another heartbeat")


# -- crash and restart ----------------------------------------------------------------------------------


def test_crash_2_and_4_the_exit_code_is_kept_and_a_wait_begins(place: Workplace) -> None:
    place.set_runner("exit 3")
    place.supervise()
    state = place.until_status("crashed")
    assert (state["last_error"], state["restart_count"], state["backoff"]) == ("exit_code=3", 1, 5)


def test_crash_2_a_runner_that_was_killed_has_the_exit_code_of_shells(place: Workplace) -> None:
    place.supervise()
    os.kill(place.until_running(), signal.SIGKILL)
    assert place.until_status("crashed")["last_error"] == "exit_code=137"


def test_crash_3_the_reason_of_the_guard_is_recorded(place: Workplace) -> None:
    place.set_runner("""echo '{"killedBy": "rate-sends"}' > "$STATE_DIR/niki-state.json"; exit 1""")
    place.supervise()
    state = place.until_status("killed")
    assert (state["last_error"], state["niki_reason"]) == ("niki_reason=rate-sends", "rate-sends")


def test_crash_3_the_reason_of_an_earlier_run_is_not_this_ones(place: Workplace) -> None:
    place.folder.mkdir(mode=0o700)
    (place.folder / "niki-state.json").write_text('{"killedBy": "timeout"}')
    place.set_runner("exit 1")
    place.supervise()
    assert place.until_status("crashed", "killed")["status"] == "crashed"
    assert (place.folder / "niki-state.prev.json").read_text() == '{"killedBy": "timeout"}'


def test_crash_3_an_abort_is_for_one_run(place: Workplace) -> None:
    place.set_runner("""echo '{"killedBy": "abort"}' > "$STATE_DIR/niki-state.json"; exit 1""")
    place.folder.mkdir(mode=0o700)
    (place.folder / "abort").touch()
    place.supervise()
    place.until_status("killed")
    assert not (place.folder / "abort").exists()


@pytest.mark.slow
def test_crash_6_the_runner_is_started_again_after_the_wait(place: Workplace) -> None:
    place.set_runner(f'[ -e "$STATE_DIR/runs" ] || {{ echo 0 > "$STATE_DIR/runs"; exit 1; }}\n{IDLE_RUNNER}')
    place.supervise()
    place.until_status("crashed")
    began = time.monotonic()
    place.until_running(2)
    assert time.monotonic() - began > 4
    assert place.until_status("running")["restart_count"] == 1


def test_the_wait_ends_with_sigusr1(place: Workplace) -> None:
    place.folder.mkdir(mode=0o700)
    (place.folder / "state.json").write_text('{"backoff": 150}')  # the wait is 300 s
    place.set_runner('echo $$ >> "$STATE_DIR/runs"; exit 1')
    supervisor = place.supervise()
    place.until_status("crashed")
    supervisor.send_signal(signal.SIGUSR1)
    place.until_running(2)
    assert supervisor.poll() is None


def test_crash_the_waits_are_read_back(place: Workplace) -> None:
    place.folder.mkdir(mode=0o700)
    (place.folder / "state.json").write_text('{"backoff": 40, "restart_count": 4}')
    place.set_runner("exit 1")
    place.supervise()
    state = place.until_status("crashed")
    assert (state["backoff"], state["restart_count"]) == (80, 5)


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"backoff": "x", "restart_count": -1}', '{"backoff": 1e99}']
)
def test_a_state_file_with_anything_in_it_is_no_obstacle(place: Workplace, text: str) -> None:
    place.folder.mkdir(mode=0o700)
    (place.folder / "state.json").write_text(text)
    place.set_runner('echo 1 >> "$STATE_DIR/runs"; exit 1')
    place.supervise()
    place.until_running()
    state = place.until_status("crashed")
    assert (state["backoff"], state["restart_count"]) == (5, 1)


def test_a_runner_that_cannot_recover_is_not_started_again(place: Workplace) -> None:
    place.set_runner('echo 1 >> "$STATE_DIR/runs"; exit 2')
    process = place.supervise()
    assert finish(process)[0] == 0  # or a container with the policy on-failure would start it again
    state = place.state()
    assert (state["status"], state["last_error"], len(place.runs())) == ("fatal", "exit_code=2", 1)
    assert not (place.folder / "supervisor.pid").exists()


# -- stop -----------------------------------------------------------------------------------------------


def test_stop_file_before_a_run(place: Workplace) -> None:
    place.folder.mkdir(mode=0o700)
    (place.folder / "stop").touch()
    assert finish(place.supervise())[0] == 0
    assert (place.state()["status"], place.runs()) == ("stopped", [])
    assert not (place.folder / "supervisor.pid").exists()
    assert not (place.folder / "stop").exists()


def test_stop_file_during_a_run(place: Workplace) -> None:
    process = place.supervise()
    runner = place.until_running()
    (place.folder / "stop").touch()
    assert finish(process)[0] == 0
    assert place.state()["status"] == "stopped"
    assert not is_alive(runner)
    place.until_nothing_is_left()


def test_stop_file_after_a_run(place: Workplace) -> None:
    place.set_runner("exit 1")
    process = place.supervise()
    place.until_status("crashed")
    (place.folder / "stop").touch()
    assert finish(process)[0] == 0
    assert place.state()["status"] == "stopped"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_before_a_run(place: Workplace, number: signal.Signals) -> None:
    """It arrives while the supervisor reads the token."""
    place.token_file.write_text(TOKEN)
    signalled = {"KILLED_AT": "open /token' 1", "KILLED_WITH": str(int(number))}
    assert finish(place.supervise(program="killed-supervisor", **signalled))[0] == 0
    assert (place.state()["status"], place.runs()) == ("stopped", [])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_during_a_run(place: Workplace, number: signal.Signals) -> None:
    process = place.supervise()
    place.until_running()
    process.send_signal(number)
    assert finish(process)[0] == 0
    assert place.state()["status"] == "stopped"
    assert not (place.folder / "supervisor.pid").exists()
    place.until_nothing_is_left()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_after_a_run(place: Workplace, number: signal.Signals) -> None:
    place.set_runner("exit 1")
    process = place.supervise()
    place.until_status("crashed")
    process.send_signal(number)
    assert finish(process)[0] == 0
    assert place.state()["status"] == "stopped"


@pytest.mark.slow
def test_a_runner_that_ignores_sigterm_is_killed_after_the_grace(place: Workplace) -> None:
    place.set_runner(f"trap '' TERM\n{IDLE_RUNNER}\nwhile :; do sleep 0.1; done")
    process = place.supervise()
    place.until_running()
    process.terminate()
    assert finish(process)[0] == 0
    place.until_nothing_is_left()


def test_stop_4_the_transcript_stays(place: Workplace) -> None:
    place.set_runner(f'echo hello > "$STATE_DIR/transcript.log"\n{IDLE_RUNNER}')
    process = place.supervise()
    place.until_running()
    process.terminate()
    finish(process)
    assert (place.folder / "transcript.log").read_text() == "hello\n"


# -- cost -----------------------------------------------------------------------------------------------


def test_an_idle_supervisor_is_small_and_wakes_up_for_heartbeats_only(place: Workplace) -> None:
    process = place.supervise("--heartbeat", "1")
    place.until_running()
    place.until_status("running")
    heartbeat = place.folder / ".heartbeat"

    def next_beat() -> None:
        last = heartbeat.stat().st_mtime_ns
        until(lambda: heartbeat.stat().st_mtime_ns != last, "a heartbeat")

    next_beat()
    before = switches(process.pid)
    for _ in range(3):
        next_beat()
    assert switches(process.pid) - before <= 3 * 3  # a beat may wait for the disk besides
    assert in_memory(process.pid) < 20_000


def test_supervisor_and_guard_together_are_small(place: Workplace) -> None:
    """The whole chain for real: supervisor, runner, guard, and a program that stands in for the model's."""
    (place.programs / "agent-runner").unlink()
    (place.programs / "real-runner").rename(place.programs / "agent-runner")
    model = place.write_program("model", "echo ready; exec sleep 1000", "/bin/sh")
    process = place.supervise(AGENT_COMMAND=str(model))
    until(lambda: "ready" in place.transcript(), "the model")
    (runner,) = [pid for pid in place.left() if parent_of(pid) == process.pid]
    guards = [pid for pid in descendants(runner) if b"moothall.worker.guard" in command_line(pid)]
    assert guards
    assert sum(map(in_memory, (process.pid, *guards))) < 40_000
    process.terminate()
    assert finish(process)[0] == 0
    place.until_nothing_is_left()


def test_the_whole_chain_ends_with_the_supervisor(place: Workplace) -> None:
    (place.programs / "agent-runner").unlink()
    (place.programs / "real-runner").rename(place.programs / "agent-runner")
    model = place.write_program("model", "setsid sleep 1000 & echo ready; sleep 1000", "/bin/sh")
    process = place.supervise(AGENT_COMMAND=str(model))
    until(lambda: "ready" in place.transcript(), "the model")
    process.kill()
    finish(process)
    place.until_nothing_is_left()
