"""The programs in docs/mesh.md run, and print what is promised."""

import asyncio
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from moothall import PrivateKey
from moothall.mesh import MeshAgent
from tests.client.meeting import soon
from tests.support.server import PATIENCE, PROGRAM, HallProcess, environment, run_moothall, running_hall

PAGE = (Path(__file__).parents[2] / "docs" / "mesh.md").read_text()
ADDRESS = "ws://127.0.0.1:6667"


def section(title: str) -> str:
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def block(text: str, kind: str) -> str:
    (found,) = re.findall(rf"^```{kind}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return str(found)


def program(text: str, hall: HallProcess) -> list[str]:
    path = hall.folder / "program.py"
    path.write_text(block(text, "py").replace(ADDRESS, hall.url))
    return [sys.executable, "-W", "error", str(path)]


def test_a_whole_deal(tmp_path: Path) -> None:
    text = section("A whole deal in Python")
    with running_hall(tmp_path) as hall:
        for line in block(text, "sh").splitlines():
            name, *words = shlex.split(line)
            assert name == Path(PROGRAM).name
            result = run_moothall(tmp_path, *words, environ={"MOOTHALL_DATA_DIR": "data"})
            assert result.returncode == 0, result.stderr
        done = subprocess.run(
            program(text, hall),
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    assert done.stdout == block(text, "text"), done.stderr
    assert done.returncode == 0


async def test_an_agent_in_ten_lines(tmp_path: Path) -> None:
    ada = MeshAgent("ada", key=PrivateKey(bytes([21]) * 32))
    with running_hall(tmp_path) as hall:
        mirror = await asyncio.create_subprocess_exec(
            *program(section("An agent in ten lines"), hall),
            cwd=tmp_path,
            env=environment(),
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            assert mirror.stderr is not None
            said = [await soon(mirror.stderr.readline()) for _ in range(2)]
            assert [line.split()[0] for line in said] == [b"made", b"connected"]
            async with ada.connected(hall.url):
                (found,) = await ada.discover("mirror")
                deal = await ada.propose(found.agent_id, "abc")
                await soon(deal.wait_for("DELIVERED"))
                delivery = deal.last("DELIVER")
                assert delivery is not None
                assert delivery.text == "cba"
        finally:
            mirror.send_signal(signal.SIGINT)
            _, errors = await soon(mirror.communicate())
    assert (mirror.returncode, errors.split()[0]) == (0, b"disconnected")


@pytest.mark.parametrize("code", re.findall(r"^```py\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))
def test_every_program_is_python(code: str) -> None:
    compile(code, "docs/mesh.md", "exec")
