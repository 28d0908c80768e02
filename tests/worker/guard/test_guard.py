"""The guard as a program: what it passes on, counts, warns of, kills for and writes down."""

import json
import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path
from subprocess import DEVNULL, PIPE

import pytest

from tests.worker.guard.guarding import QUIET, Guarded, guarded
from tests.worker.processes import PATIENCE, Meeting, meeting, python

EVENT = {
    "type": "assistant",
    "message": {
        "id": "msg_1",
        "content": [{"type": "tool_use", "id": "t1", "name": "mcp__agentchat__agentchat_send"}],
        "usage": {"input_tokens": 3, "cache_creation_input_tokens": 2000, "output_tokens": 100},
    },
}


@pytest.fixture
def pipe() -> Iterator[Meeting]:
    with meeting() as made:
        yield made


def status(pid: int, field: str) -> int:
    """A number of /proc/PID/status."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1])
    raise AssertionError(field)


def read(descriptor: int, size: int) -> bytes:
    """So many bytes."""
    found = b""
    while len(found) < size:
        ready, _, _ = select.select([descriptor], [], [], PATIENCE)
        assert ready
        found += os.read(descriptor, size - len(found)) or pytest.fail("the output ended")
    return found


# -- what it passes on


def test_output_is_passed_on_unchanged(tmp_path: Path) -> None:
    program = "import os\nos.write(1, bytes(range(256)) * 1000 + b'end')\nos.write(2, b'\\xff\\0no newline')"
    with guarded(tmp_path, python(program)) as guard:
        assert guard.finish() == (bytes(range(256)) * 1000 + b"end", b"\xff\0no newline")
        assert guard.process.returncode == 0
        assert guard.state["gotFirstOutput"] is True


def test_output_arrives_while_the_command_runs(tmp_path: Path) -> None:
    with guarded(tmp_path, ["sh", "-c", "echo one; exec sleep 100"], *QUIET) as guard:
        assert guard.process.stdout is not None
        assert read(guard.process.stdout.fileno(), 4) == b"one\n"


def test_a_slow_reader_gets_everything_and_does_not_stop_the_guard(tmp_path: Path) -> None:
    """Nothing is read until the command was killed, and then all that it could write is there."""
    program = (
        "import os\nn = 0\nwhile True:\n    n += os.write(1, b'x' * 4096)\n    os.write(2, b'%d\\n' % n)"
    )
    with guarded(tmp_path, python(program), *QUIET, "--timeout", "1", stderr=DEVNULL) as guard:
        assert guard.process.stdout is not None
        assert select.select([guard.process.stdout], [], [], PATIENCE)[0]
        pid = os.pidfd_open(guard.keeper)
        assert select.select([pid], [], [], PATIENCE)[0]  # the command is over, although its output is stuck
        os.close(pid)
        output, _ = guard.finish()
        assert set(output) == {ord("x")}
        assert len(output) >= 512 * 1024
        assert guard.state["killedBy"] == "timeout"


def test_a_command_without_a_reader_gets_sigpipe(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with guarded(tmp_path, ["sh", "-c", "while :; do echo x; done"], *QUIET, stdout=writing) as guard:
        os.close(writing)
        assert guard.wait() == 1
        assert guard.state["exitSignal"] == "SIGPIPE"
        assert guard.state["killedBy"] is None


def test_output_to_a_file(tmp_path: Path) -> None:
    target = tmp_path / "output"
    target.write_text("before\n")
    with target.open("ab") as file, guarded(tmp_path, ["echo", "after"], stdout=file) as guard:
        assert guard.wait() == 0
    assert target.read_text() == "before\nafter\n"


def test_the_standard_input_of_the_command_is_empty(tmp_path: Path) -> None:
    with guarded(tmp_path, ["cat"], stdin=PIPE) as guard:
        assert guard.wait() == 0


# -- how it ends


@pytest.mark.parametrize(
    ("command", "code", "exit_code", "exit_signal"),
    [
        ("exit 0", 0, 0, None),
        ("exit 3", 3, 3, None),
        ("kill -TERM $$", 1, None, "SIGTERM"),
        ("kill -SEGV $$", 1, None, "SIGSEGV"),
    ],
)
def test_the_exit_code_is_that_of_the_command(
    tmp_path: Path, command: str, code: int, exit_code: int | None, exit_signal: str | None
) -> None:
    with guarded(tmp_path, ["sh", "-c", command]) as guard:
        assert guard.wait() == code
        assert (guard.state["exitCode"], guard.state["exitSignal"]) == (exit_code, exit_signal)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_are_passed_on(tmp_path: Path, pipe: Meeting, number: signal.Signals) -> None:
    program = f"""
    import os, signal
    signal.signal({number}, lambda *_: os._exit(42))
    os.write({pipe.writing}, b"%d\\n" % os.getpid())
    while True:
        signal.pause()
    """
    with guarded(tmp_path, python(program), *QUIET, meeting=pipe) as guard:
        pipe.next()
        guard.process.send_signal(number)
        assert guard.wait() == 42
        assert guard.state["killedBy"] is None


def test_a_command_has_the_cooldown_to_end(tmp_path: Path, pipe: Meeting) -> None:
    program = f"""
    import os, signal
    signal.signal(signal.SIGTERM, lambda *_: (print("tidy", flush=True), os._exit(5)))
    os.write({pipe.writing}, b"%d\\n" % os.getpid())
    while True:
        signal.pause()
    """
    options = (*QUIET, "--abort-file", str(tmp_path / "abort"), "--cooldown", "25")
    with guarded(tmp_path, python(program), *options, meeting=pipe) as guard:
        pipe.next()
        (tmp_path / "abort").touch()
        output, _ = guard.finish()
        assert output == b"tidy\n"
        assert guard.process.returncode == 5
        assert guard.state["killedBy"] == "abort"
        assert guard.state["exitCode"] == 5


# -- what it kills for


def kill_of(guard: Guarded) -> str:
    _, errors = guard.finish()
    state = guard.state
    assert f"guard: killed: {state['killedBy']}: {state['killDetail']}\n".encode() in errors
    assert state["exitSignal"] in ("SIGTERM", "SIGKILL")
    assert guard.process.returncode == 1
    reason: str = state["killedBy"]
    return reason


def test_a_token_budget_in_words(tmp_path: Path) -> None:
    command = "echo 'Input tokens: 850' >&2; echo 'Input tokens: 1001' >&2; exec sleep 100"
    with guarded(tmp_path, ["sh", "-c", command], *QUIET, "--budget", "1000") as guard:
        assert kill_of(guard) == "budget"
        assert guard.state["tokensTotal"] == 1001


def test_a_token_budget_in_events(tmp_path: Path) -> None:
    command = ["sh", "-c", 'echo "$1"; exec sleep 100', "sh", json.dumps(EVENT)]
    with guarded(tmp_path, command, *QUIET, "--budget", "2102") as guard:
        assert kill_of(guard) == "budget"
        assert (guard.state["tokensIn"], guard.state["tokensOut"]) == (2003, 100)
        assert (guard.state["toolCalls"], guard.state["sendCallsThisMinute"]) == (1, 1)


def test_words_on_standard_output_do_not_count(tmp_path: Path) -> None:
    with guarded(tmp_path, ["echo", "Using tool, Input tokens: 5000"], "--budget", "10") as guard:
        assert guard.wait() == 0
        assert (guard.state["tokensTotal"], guard.state["toolCalls"]) == (0, 0)


def test_a_line_without_a_newline_counts_at_the_end(tmp_path: Path) -> None:
    with guarded(tmp_path, ["sh", "-c", "printf 'Output tokens: 77' >&2"]) as guard:
        assert guard.wait() == 0
        assert guard.state["tokensOut"] == 77


def test_it_warns_at_80_percent(tmp_path: Path) -> None:
    with guarded(tmp_path, ["sh", "-c", "echo 'Input tokens: 80' >&2"], "--budget", "100") as guard:
        _, errors = guard.finish()
        assert errors.count(b"guard: 80% of a limit: tokens: 80 of 100\n") == 1
        assert guard.state["killedBy"] is None


@pytest.mark.parametrize(
    ("option", "line", "reason"),
    [
        ("--max-sends", "Using tool agentchat_send", "rate-sends"),
        ("--max-tool-calls", "Tool call: Bash", "rate-tools"),
    ],
)
def test_rates(tmp_path: Path, option: str, line: str, reason: str) -> None:
    command = f"for i in 1 2 3; do echo '{line}' >&2; done; exec sleep 100"
    with guarded(tmp_path, ["sh", "-c", command], *QUIET, option, "2") as guard:
        assert kill_of(guard) == reason


def test_the_wall_time(tmp_path: Path) -> None:
    with guarded(
        tmp_path, ["sh", "-c", "while :; do echo x; done"], "--timeout", "1", stdout=DEVNULL
    ) as guard:
        assert kill_of(guard) == "timeout"


def test_a_command_that_says_nothing_at_first(tmp_path: Path) -> None:
    with guarded(tmp_path, ["sleep", "100"], "--startup-timeout", "0.3", "--max-nudges", "1") as guard:
        assert kill_of(guard) == "stall"
        assert (guard.state["gotFirstOutput"], guard.state["nudges"]) == (False, 1)


def test_a_command_that_falls_silent(tmp_path: Path) -> None:
    options = ("--stall-timeout", "0.3", "--max-nudges", "0")
    with guarded(tmp_path, ["sh", "-c", "echo x; exec sleep 100"], *options) as guard:
        assert kill_of(guard) == "stall"
        assert (guard.state["gotFirstOutput"], guard.state["stallEvents"]) == (True, 1)


def test_a_silent_command_that_works_is_not_killed(tmp_path: Path) -> None:
    program = "import time\nend = time.monotonic() + 1.5\nwhile time.monotonic() < end: pass"
    options = ("--startup-timeout", "0.4", "--max-nudges", "0")
    with guarded(tmp_path, python(program), *options) as guard:
        assert guard.wait() == 0
        assert guard.state["stallEvents"] >= 1


def test_a_nudge_wakes_a_stopped_command(tmp_path: Path) -> None:
    options = ("--startup-timeout", "0.3", "--max-nudges", "50")
    with guarded(tmp_path, ["sh", "-c", "kill -STOP $$; echo awake"], *options) as guard:
        output, _ = guard.finish()
        assert output == b"awake\n"
        assert guard.state["nudges"] >= 1


def test_dead_air(tmp_path: Path) -> None:
    options = ("--startup-timeout", "0", "--dead-air-timeout", "0.02")
    with guarded(tmp_path, ["sleep", "100"], *options) as guard:
        assert kill_of(guard) == "dead-air"
        assert guard.state["deadAirChecks"] >= 1


def test_an_abort_file_that_is_there_already(tmp_path: Path) -> None:
    (tmp_path / "abort").touch()
    with guarded(tmp_path, ["sleep", "100"], *QUIET, "--abort-file", str(tmp_path / "abort")) as guard:
        assert kill_of(guard) == "abort"


def test_an_abort_file_that_says_budget(tmp_path: Path) -> None:
    (tmp_path / "abort").write_text("budget\nThis key has spent\x1b[2J 7 of 5 tokens\n")
    with guarded(tmp_path, ["sleep", "100"], *QUIET, "--abort-file", str(tmp_path / "abort")) as guard:
        assert kill_of(guard) == "budget"
        assert guard.state["killDetail"] == "This key has spent[2J 7 of 5 tokens"


def test_an_abort_file_in_a_folder_that_is_made_later(tmp_path: Path) -> None:
    """It cannot be watched, so it is looked for."""
    later = tmp_path / "later"
    options = (*QUIET, "--abort-file", str(later / "abort"), "--poll-interval", "20")
    with guarded(tmp_path, ["sh", "-c", "echo x; exec sleep 100"], *options) as guard:
        assert guard.process.stdout is not None
        read(guard.process.stdout.fileno(), 2)
        later.mkdir()
        (later / "abort").touch()
        assert kill_of(guard) == "abort"


# -- what it writes down


def test_the_state_has_the_fields_of_the_wire(tmp_path: Path) -> None:
    with guarded(tmp_path, ["true"]) as guard:
        guard.wait()
        assert set(guard.state) == {
            *("startedAt", "pid", "tokensIn", "tokensOut", "tokensTotal", "toolCalls", "sendCalls"),
            *("toolCallsThisMinute", "sendCallsThisMinute", "exitCode", "exitSignal", "killedBy", "duration"),
            *("stallEvents", "nudges", "deadAirChecks", "gotFirstOutput", "secondRuns"),
            *("session", "budget"),  # ours
        }


def test_an_old_reason_does_not_survive_the_start(tmp_path: Path, pipe: Meeting) -> None:
    (tmp_path / "state.json").write_text('{"killedBy": "budget"}')
    program = f"import os, signal\nos.write({pipe.writing}, b'%d\\n' % os.getpid())\nsignal.pause()"
    with guarded(tmp_path, python(program), *QUIET, meeting=pipe) as guard:
        pipe.next()
        assert guard.state["killedBy"] is None
        guard.kill()
        assert guard.state["killedBy"] is None
        assert guard.state["exitCode"] is None


def test_the_reason_is_on_disk_before_the_command_gets_a_signal(tmp_path: Path) -> None:
    program = f"""
    import os, signal
    def ended(*_):
        os.write(1, open({str(tmp_path / "state.json")!r}, "rb").read())
        os._exit(0)
    signal.signal(signal.SIGTERM, ended)
    os.write(2, b"Input tokens: 2\\n")
    while True:
        signal.pause()
    """
    with guarded(tmp_path, python(program), *QUIET, "--budget", "1") as guard:
        output, _ = guard.finish()
        assert json.loads(output)["killedBy"] == "budget"


def test_the_log_gets_what_the_guard_says(tmp_path: Path) -> None:
    log = tmp_path / "log"
    options = ("--log", str(log), "--nick", "alice", "--budget", "100")
    with guarded(tmp_path, ["sh", "-c", "echo 'Input tokens: 90' >&2"], *options) as guard:
        assert guard.finish() == (b"", b"Input tokens: 90\n")
    assert log.read_text().endswith("Z guard of alice: 80% of a limit: tokens: 90 of 100\n")


@pytest.mark.parametrize("option", ["--state", "--log"])
def test_a_file_that_cannot_be_written_is_told_before_the_start(tmp_path: Path, option: str) -> None:
    with guarded(tmp_path, ["touch", str(tmp_path / "started")], option, "/nowhere/file") as guard:
        _, errors = guard.finish()
        assert errors == b"error: the command was not started: /nowhere/file: No such file or directory\n"
        assert guard.process.returncode == 1
    assert not (tmp_path / "started").exists()


# -- what it costs


def test_a_gigabyte_without_a_newline_is_passed_on_in_bounded_memory(tmp_path: Path) -> None:
    program = """
    import os
    block = b"Using tool x" * 10000
    left = 1 << 30
    while left > 0:
        left -= os.write(1, block)
        os.write(2, block[:12])
    import signal
    os.write(1, b"!")
    signal.pause()
    """
    with (
        Path(os.devnull).open("wb") as nowhere,
        guarded(tmp_path, python(program), *QUIET, "--max-tool-calls", "1000000", stderr=nowhere) as guard,
    ):
        assert guard.process.stdout is not None
        output, block, taken = guard.process.stdout.fileno(), b"", 0
        while not block.endswith(b"!"):
            block = os.read(output, 1 << 20)
            assert block
            taken += len(block)
        assert taken > 1 << 30
        assert status(guard.pid, "VmHWM") < 30_000
        assert status(guard.keeper, "VmHWM") < 30_000


def test_an_idle_guard_sleeps(tmp_path: Path) -> None:
    """A command that waits wakes neither the guard nor the keeper, with all limits and files in use."""
    program = """
    import os, select
    os.write(1, b"a")
    select.select([], [], [], 2)
    os.write(1, b"b")
    select.select([], [], [])
    """
    options = ("--abort-file", str(tmp_path / "abort"))
    with guarded(tmp_path, python(program), *options) as guard:
        assert guard.process.stdout is not None
        read(guard.process.stdout.fileno(), 1)
        keeper = guard.keeper
        before = status(guard.pid, "voluntary_ctxt_switches"), status(keeper, "voluntary_ctxt_switches")
        read(guard.process.stdout.fileno(), 1)
        after = status(guard.pid, "voluntary_ctxt_switches"), status(keeper, "voluntary_ctxt_switches")
        assert after[0] - before[0] <= 6  # the end of the pause after `a`, and what comes with `b`
        assert after[1] == before[1]


def test_guard_and_keeper_are_small(tmp_path: Path) -> None:
    with guarded(tmp_path, ["sh", "-c", "echo x; exec sleep 100"], *QUIET) as guard:
        assert guard.process.stdout is not None
        read(guard.process.stdout.fileno(), 2)
        assert proportional(guard.pid) + proportional(guard.keeper) < 20_000


def proportional(pid: int) -> int:
    """Kilobytes, with a share of what several processes have in common."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    raise AssertionError
