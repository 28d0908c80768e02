"""`moothall worker guard`: the flags of `niki`, and the same program behind them."""

import os
import resource
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer

from moothall.cli.main import app
from moothall.worker.descendants import children_of
from moothall.worker.guard.command_line import OPTIONS, Option
from tests.support.server import PROGRAM, environment
from tests.worker.processes import started


def guard_command() -> Any:
    group = typer.main.get_command(app).get_command(typer.Context(typer.main.get_command(app)), "worker")  # type: ignore[attr-defined]
    return group.commands["guard"]


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.flag)
def test_it_has_the_flags_and_defaults_of_niki(option: Option) -> None:
    (found,) = [param for param in guard_command().params if option.flag in param.opts]
    assert found.metavar == option.metavar
    assert (found.default or None) == (option.default or None)
    assert found.multiple == option.many


def run(*arguments: str, **more: Any) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [PROGRAM, "worker", "guard", *arguments],
        env=environment(),
        capture_output=True,
        timeout=60,
        check=False,
        **more,
    )


@pytest.mark.parametrize("between", [["--"], []])
def test_options_reach_the_guard_and_the_rest_is_the_command(tmp_path: Path, between: list[str]) -> None:
    log = tmp_path / "log"
    script = 'echo "$@"; echo "Input tokens: 9" >&2; exit 6'
    result = run(
        "--budget", "10", "--log", str(log), *between, "sh", "-c", script, "sh", "--budget", "--", "-h"
    )
    assert (result.returncode, result.stdout, result.stderr) == (6, b"--budget -- -h\n", b"Input tokens: 9\n")
    assert "tokens: 9 of 10" in log.read_text()


def test_a_variable_from_a_descriptor(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"secret")
    os.close(writing)
    result = run("--env-fd", f"TOKEN={reading}", "printenv", "TOKEN", pass_fds=[reading], cwd=tmp_path)
    os.close(reading)
    assert result.stdout == b"secret\n"


@pytest.mark.parametrize("arguments", [[], ["--"], ["--budget", "x", "true"], ["--budget", "0", "true"]])
def test_misuse_is_one_line(arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.returncode == 2
    assert result.stderr.startswith(b"error: ")
    assert result.stderr.count(b"\n") == 1


def kilobytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 1024


def test_what_read_the_options_does_not_stay_in_memory(tmp_path: Path) -> None:
    command = [PROGRAM, "worker", "guard", "--", "sh", "-c", "echo x; exec sleep 100"]
    with started(command, env=environment(), stdout=subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"x\n"
        assert kilobytes(process.pid) < 25_000
        assert b"moothall.worker.guard" in Path(f"/proc/{process.pid}/cmdline").read_bytes()
        assert len(children_of(process.pid)) == 1
