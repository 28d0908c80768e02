"""Process 1 of a container, as an ordinary process: what it starts, what it passes on, how it ends."""

import signal
import socket
import subprocess
from pathlib import Path

import pytest

from moothall.errors import UsageError
from moothall.worker import entry
from moothall.worker.crew.inside import Order, read
from tests.worker.processes import PATIENCE

MODULE = "moothall.worker.crew.inside"


def start(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*entry.program(MODULE), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    output, errors = process.communicate(timeout=PATIENCE)
    return process.returncode, output, errors


def test_the_command_line() -> None:
    assert read(["--door", "6667=/run/a.sock", "--door", "80=b", "--", "x", "--", "y"]) == Order(
        ["x", "--", "y"], {6667: Path("/run/a.sock"), 80: Path("b")}
    )


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--"],
        ["x"],
        ["--door", "--", "x"],
        ["--door", "1", "--", "x"],
        ["--door", "=a", "--", "x"],
        ["--door", "70000=a", "--", "x"],
        ["--window", "1=a", "--", "x"],
    ],
)
def test_a_wrong_command_line(arguments: list[str]) -> None:
    with pytest.raises(UsageError, match="usage: "):
        read(arguments)


def test_it_ends_with_the_exit_code_of_the_supervisor() -> None:
    assert end(start("--", "sh", "-c", "exit 7"))[0] == 7
    assert end(start("--", "sh", "-c", "kill -9 $$"))[0] == 128 + signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_go_to_the_supervisor(number: signal.Signals) -> None:
    name = number.name.removeprefix("SIG")
    script = f"trap 'echo got {name}; exit 3' {name}; echo ready; while :; do sleep 0.01; done"
    process = start("--", "sh", "-c", script)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    assert end(process)[:2] == (3, f"got {name}\n")


def test_what_cannot_be_done_is_said_in_one_line() -> None:
    assert end(start("--", "/no/such/program")) == (
        1,
        "",
        "error: /no/such/program: No such file or directory\n",
    )
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, _, errors = end(start("--door", f"{taken.getsockname()[1]}=a", "--", "true"))
    assert code == 1
    assert "in use" in errors
