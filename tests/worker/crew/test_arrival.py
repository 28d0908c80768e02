"""When an agent is up, and what is told when it is not."""

import asyncio
import json
import os
from typing import Any

import pytest

from moothall.worker.crew import arrival
from moothall.worker.crew.arrival import Arrival
from moothall.worker.crew.places import Places
from moothall.worker.crew.processes import OUTPUT, Processes
from moothall.worker.crew.runtime import Recipe, Standing


class Started:
    """An agent of which only the files are there. At first all of them are those of an earlier start."""

    def __init__(self, recipe: Recipe, runtime: Processes) -> None:
        places = recipe.places
        places.make()
        self._files = {
            "state": places.state / "state.json",
            "guard": places.state / "niki-state.json",
            "runner": places.state / "runner.log",
            "output": places.run / OUTPUT,
        }
        self.write(state={"status": "running"}, guard={}, runner="error: old\n", output="error: old\n")
        for file in self._files.values():
            os.utime(file, (1, 1))
        self._arrival = Arrival(places, runtime)

    def write(self, **contents: Any) -> None:
        for name, content in contents.items():
            self._files[name].write_text(content if isinstance(content, str) else json.dumps(content))

    def fault(self) -> str | None:
        return asyncio.run(self._arrival.wait())


@pytest.fixture
def standings(monkeypatch: pytest.MonkeyPatch) -> list[Standing]:
    found = [Standing("one", True, 0.0, None, 0)]
    monkeypatch.setattr(Processes, "standing", lambda _: found)
    return found


@pytest.fixture
def started(recipe: Recipe, places: Places, standings: list[Standing]) -> Started:
    return Started(recipe, Processes(places))


@pytest.mark.parametrize("status", ["running", "starting", "crashed"])
def test_an_agent_is_up_when_its_guard_has_begun(started: Started, status: str) -> None:
    started.write(state={"status": status}, guard={})
    assert started.fault() is None


def test_a_supervisor_that_cannot_start_says_why(started: Started) -> None:
    started.write(state={"status": "failed", "last_error": "there is no token"})
    assert started.fault() == "there is no token"


@pytest.mark.parametrize("status", ["crashed", "fatal", "killed"])
def test_a_runner_that_cannot_start_a_session_says_why(started: Started, status: str) -> None:
    started.write(state={"status": status, "last_error": "exit_code=1"}, runner="x\nerror: no claude\n")
    assert started.fault() == "no claude"
    started.write(runner="2026-01-01T00:00:00Z session 1 ended\n")
    assert started.fault() == "exit_code=1"


def test_a_process_that_ended_leaves_its_last_words(started: Started, standings: list[Standing]) -> None:
    standings.clear()
    assert started.fault() == "it ended at once"
    started.write(output="error: the disk is full\n")
    assert started.fault() == "the disk is full"


def test_old_files_do_not_count(started: Started, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrival, "PATIENCE", 0.2)
    assert str(started.fault()).startswith("it has said nothing")
    started.write(state={"status": "running"})  # its runner may still wait for the session before
    assert started.fault() is None
