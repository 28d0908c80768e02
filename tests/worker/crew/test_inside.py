"""Process 1 of a container, as an ordinary process: what it starts, what it passes on, how it ends."""

import signal
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from moothall.errors import UsageError
from moothall.worker import entry
from moothall.worker.crew.inside import Order, put, read, secrets_from
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
    assert read(["--secrets", "/run/s.sock", "--", "x"]) == Order(["x"], {}, Path("/run/s.sock"))


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
        ["--secrets", "", "--", "x"],
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


def test_secrets_come_from_the_host_as_files_for_the_supervisor_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # paths of sockets are short
    assert secrets_from(Path("none.sock")) is None
    with socket.socket(socket.AF_UNIX) as host:
        host.bind("secrets.sock")
        host.listen()
        with ThreadPoolExecutor() as pool:
            for answer, expected in (
                (b'{"identity": "abc"}', {"identity": "abc"}),
                (b"", None),
                (b"[]", None),
            ):
                asked = pool.submit(secrets_from, Path("secrets.sock"))
                connection, _ = host.accept()
                connection.sendall(answer)
                connection.close()
                assert asked.result(PATIENCE) == expected
    put({"identity": "abc"}, tmp_path)
    assert (tmp_path / "identity").read_text() == "abc"
    assert (tmp_path / "identity").stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        put({"identity": "other"}, tmp_path)


def test_it_can_be_stopped_while_it_waits_for_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as host:
        host.bind("secrets.sock")
        host.listen()
        host.settimeout(PATIENCE)
        process = start("--secrets", "secrets.sock", "--", "echo", "started")
        for _ in range(2):  # it asks again when it gets no answer
            host.accept()[0].close()
        process.send_signal(signal.SIGTERM)
        assert end(process) == (0, "", "")
