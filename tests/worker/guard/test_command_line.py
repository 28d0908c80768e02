"""`niki`: its flags, its defaults and its usage (agentchat wire 19.5)."""

import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from moothall.worker.guard.command_line import OPTIONS, Misused, main, program, split, task, usage
from moothall.worker.guard.guard import Task
from moothall.worker.guard.limits import Limits


def parsed(*arguments: str) -> Any:
    return task(*split([*arguments, "--", "cmd", "--flag"]))


def test_the_defaults_are_those_of_the_wire() -> None:
    assert parsed() == Task(
        ["cmd", "--flag"],
        Limits(
            budget=1_000_000,
            timeout=3600,
            max_sends=10,
            max_tool_calls=30,
            stall_timeout=3600,
            startup_timeout=180,
            dead_air_timeout=300,
            max_nudges=3,
            cooldown=5,
        ),
        poll_interval=1.0,
    )


@pytest.mark.parametrize(
    ("arguments", "field", "value"),
    [
        (["--budget", "5"], "budget", 5),
        (["--budget=5"], "budget", 5),
        (["--timeout", "2.5"], "timeout", 2.5),
        (["--max-sends", "0"], "max_sends", 0),
        (["--max-tool-calls", "7"], "max_tool_calls", 7),
        (["--stall-timeout", "0"], "stall_timeout", 0),
        (["--startup-timeout", "600"], "startup_timeout", 600),
        (["--dead-air-timeout", "1440"], "dead_air_timeout", 1440 * 60),
        (["--max-nudges", "1"], "max_nudges", 1),
        (["--cooldown", "0"], "cooldown", 0),
        (["--budget", "5", "--budget", "6"], "budget", 6),
    ],
)
def test_limits(arguments: list[str], field: str, value: float) -> None:
    assert getattr(parsed(*arguments).limits, field) == value


def test_files_and_the_rest() -> None:
    found = parsed(
        *("--log", "l", "--state", "s", "--abort-file", "a", "--poll-interval", "250"),
        *("--nick", "alice", "--lifeline", "5", "--env-fd", "A=3", "--env-fd", "B_2=4"),
    )
    assert (found.log, found.state, found.abort_file) == (Path("l"), Path("s"), Path("a"))
    assert (found.poll_interval, found.nick, found.lifeline) == (0.25, "alice", 5)
    assert found.variables == {"A": 3, "B_2": 4}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "there is no -- before the command"),
        (["cmd"], "there is no -- before the command"),
        (["--"], "there is no command after --"),
        (["--no-such", "--", "cmd"], "there is no option --no-such"),
        (["word", "--", "cmd"], "there is no option word"),
        (["--budget", "--", "cmd"], "--budget needs a value: TOKENS"),
        (["--budget", "x", "--", "cmd"], "--budget 'x': give a whole number of 1 or more"),
        (["--budget", "0", "--", "cmd"], "--budget '0': give a whole number of 1 or more"),
        (["--timeout", "nan", "--", "cmd"], "--timeout 'nan': give a number of 1 or more"),
        (["--cooldown", "inf", "--", "cmd"], "--cooldown 'inf': give a number of 0 or more"),
        (["--env-fd", "A", "--", "cmd"], "--env-fd 'A': give NAME=FD, such as TOKEN=3"),
        (
            ["--env-fd=A=3", "--env-fd=B=3", "--", "cmd"],
            "--env-fd: give each variable a descriptor of its own",
        ),
    ],
)
def test_misuse_is_explained_and_ends_with_1(
    arguments: list[str], complaint: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Misused, match=r".*"):
        task(*split(arguments))
    assert main(arguments) == 1
    assert capfd.readouterr().err == f"error: {complaint}\n{usage()}\n"


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help(flag: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([flag]) == 0
    shown = capfd.readouterr().out
    assert shown.startswith("usage: niki [options] -- COMMAND")
    for option in OPTIONS:
        assert f"  {option.flag} {option.metavar}\n" in shown


def test_help_of_the_command_is_not_ours() -> None:
    command = ["sh", "-c", 'echo "$1"', "sh", "--help"]
    result = subprocess.run([*program(), "--", *command], capture_output=True, timeout=60, check=True)
    assert result.stdout == b"--help\n"


def test_closed_standard_descriptors_are_no_harm(tmp_path: Path) -> None:
    closing = f"exec 0<&- 1>&- 2>&-; exec \"$@\" -- sh -c 'echo x >{tmp_path}/x; echo y; echo z >&2'"
    subprocess.run(["sh", "-c", closing, "sh", *program()], timeout=60, check=True)
    assert (tmp_path / "x").read_text() == "x\n"


def test_niki_is_a_script_of_the_package() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert EntryPoint("niki", project["scripts"]["niki"], "console_scripts").load() is main


def test_a_module_in_the_working_directory_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('from the working directory')")
    result = subprocess.run(
        [*program(), "--", "echo", "fine"], cwd=tmp_path, capture_output=True, timeout=60, check=True
    )
    assert result.stdout == b"fine\n"


def test_little_is_imported() -> None:
    """The guard stays in memory with each agent."""
    program = (
        "import sys, moothall.worker.guard.guard, moothall.worker.guard.command_line; print(*sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    heavy = {"asyncio", "dataclasses", "inspect", "socket", "ssl", "subprocess", "typer", "msgspec", "nacl"}
    assert heavy.isdisjoint(result.stdout.split())
