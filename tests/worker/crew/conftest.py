"""Crews whose supervisors are stand-ins, which start nothing and cost little."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from moothall.worker.crew import detached, plan, processes
from moothall.worker.crew.places import Places
from moothall.worker.crew.runtime import Recipe
from tests.support.workers import processes_with

STAND_IN = Path(__file__).parents[2] / "support" / "stand_in_supervisor.sh"


@pytest.fixture
def places(tmp_path: Path) -> Places:
    found = Places(tmp_path / "crews" / "demo")
    found.make()
    return found


@pytest.fixture
def recipe(places: Places, tmp_path: Path) -> Recipe:
    agent = {"mission": "Work.", "runtime": "command", "command": "true"}
    crew = plan.parse({"crew": {"name": "demo"}, "agents": {"one": agent}}, tmp_path / "crew.toml")
    return Recipe(crew, crew.members[0], places.member("one"), "ws://127.0.0.1:1")


@pytest.fixture
def runtime(places: Places, recipe: Recipe, monkeypatch: pytest.MonkeyPatch) -> Iterator[processes.Processes]:
    monkeypatch.setenv("HOME", str(places.root.parent))
    monkeypatch.setattr(processes, "program", lambda: ["/bin/sh", str(STAND_IN)])
    found = processes.Processes(places)
    yield found
    found.kill("one")
    for pid in processes_with("STATE_DIR", str(recipe.places.state)):  # of supervisors that a test has killed
        os.kill(pid, signal.SIGKILL)
    detached.collect()
