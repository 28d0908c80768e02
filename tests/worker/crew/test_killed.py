"""A keeper that is killed with SIGKILL at every point of an order: the next one finishes it, with one process each.

The points are operations of the process that carries out the order. It is killed just before each of them.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from moothall.worker.crew import record
from moothall.worker.crew.desk import Desk
from moothall.worker.crew.places import Places
from moothall.worker.crew.processes import Processes
from moothall.worker.crew.record import Wanted
from moothall.worker.crew.runtime import Recipe
from tests.support.workers import KILLED_AT, processes_with, until
from tests.worker.crew.conftest import STAND_IN

FIRST, SECOND, THIRD = 1, 2, 3

PROGRAM = f"""
{KILLED_AT}
import asyncio, json
from pathlib import Path
from moothall.worker.crew import processes
from moothall.worker.crew.control import carry_out
from moothall.worker.crew.desk import Desk
from moothall.worker.crew.places import Places
processes.program = lambda: ["/bin/sh", {str(STAND_IN)!r}]
asyncio.run(carry_out(Desk(Places(Path(sys.argv[1])), os.environ), json.loads(sys.argv[2]), print))
"""
# What is about to be done: the audit event, a part of its arguments, how many times it has come.
UP = {
    "note the crew": ("open", ".crew.json.new", FIRST),
    "put the note of the crew in place": ("os.rename", "crew.json", FIRST),
    "note that the agent is to start": ("os.rename", "crew.json", SECOND),
    "make the folders": ("os.mkdir", "agents/one", FIRST),
    "make the key": ("open", "identities", FIRST),
    "start the supervisor": ("subprocess.Popen", "-", FIRST),
    "note the process": ("open", ".process.json.new", FIRST),
    "put the note of the process in place": ("os.rename", "process.json", FIRST),
    "note that the agent runs": ("open", ".crew.json.new", THIRD),
    "put that note in place": ("os.rename", "crew.json", THIRD),
}
STOP = {
    "note that all is to end": ("open", ".crew.json.new", FIRST),
    "put that note in place": ("os.rename", "crew.json", FIRST),
    "note that the end is meant": ("open", ".process.json.new", FIRST),
    "put the note of the process in place": ("os.rename", "process.json", FIRST),
}


def variables(point: tuple[str, str, int]) -> dict[str, str]:
    return dict(os.environ) | {"KILLED_AT": " ".join(map(str, point))}


def killed(places: Places, order: dict[str, Any], point: tuple[str, str, int]) -> None:
    command = [sys.executable, "-c", PROGRAM, str(places.root), json.dumps(order)]
    ended = subprocess.run(command, env=variables(point), check=False, capture_output=True, timeout=60)
    assert ended.returncode == -signal.SIGKILL, ended


def up_order(recipe: Recipe) -> dict[str, Any]:
    agent = {"mission": "Work.", "runtime": "command", "command": "true"}
    tables = {
        "crew": {"name": "demo", "hall": "ws://127.0.0.1:1", "isolation": "process"},
        "agents": {"one": agent},
    }
    return {"do": "up", "tables": tables, "file": str(recipe.crew.file)}


def supervisors(recipe: Recipe) -> list[int]:
    """The stand-ins that run, without what they have started."""
    found = processes_with("STATE_DIR", str(recipe.places.state))
    return [pid for pid in found if str(STAND_IN).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()]


def files_are_whole(places: Places) -> bool:
    for file in [places.record, *places.root.glob("run/*/process.json")]:
        assert not file.exists() or json.loads(file.read_text())
    return True


async def go_on(places: Places) -> list[str]:
    """What the understudy does."""
    said: list[str] = []
    await Desk(places, os.environ).take_over(said.append, finish=True)
    return said


@pytest.mark.parametrize("point", UP.values(), ids=UP)
@pytest.mark.usefixtures("runtime")
def test_an_up_is_finished_by_the_next_keeper(
    places: Places, recipe: Recipe, point: tuple[str, str, int]
) -> None:
    killed(places, up_order(recipe), point)
    assert files_are_whole(places)

    async def go_on_and_up() -> None:
        desk = Desk(places, os.environ)
        await desk.take_over(print, finish=True)
        order = up_order(recipe)
        assert await desk.up(order["tables"], Path(order["file"]), print) == []  # the command asks again

    asyncio.run(go_on_and_up())
    until(lambda: len(supervisors(recipe)) == 1, f"one supervisor, but {supervisors(recipe)}")
    found = record.read(places.record)
    assert found is not None
    assert found.aims["one"].wanted is Wanted.RUNNING


@pytest.mark.parametrize("point", STOP.values(), ids=STOP)
def test_a_stop_is_finished_by_the_next_keeper(
    places: Places, recipe: Recipe, runtime: Processes, point: tuple[str, str, int]
) -> None:
    async def up() -> None:
        order = up_order(recipe)
        assert await Desk(places, os.environ).up(order["tables"], Path(order["file"]), print) == []

    asyncio.run(up())
    killed(places, {"do": "stop", "names": [], "at_once": False}, point)
    assert files_are_whole(places)
    asyncio.run(go_on(places))
    found = record.read(places.record)
    assert found is not None
    (stands,) = runtime.standing()
    # Before anything was noted, nothing was wanted. After that, all is done.
    assert stands.is_running is not found.is_ending
    assert len(supervisors(recipe)) == int(stands.is_running)
