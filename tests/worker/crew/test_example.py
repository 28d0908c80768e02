"""The crew of examples/crew: one command starts it, it survives SIGKILL of each of its processes, one stops it."""

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from moothall import Agent
from tests.support.containers import STORAGE_VARIABLE, yard
from tests.support.example_crew import EXAMPLE, RunningCrew, example, running_crew
from tests.support.workers import until

TASKS = 3
PLAY = 180.0  # seconds; only a failing test waits that long

# Each process of a crew: those of the crew itself, and those of an agent. Three of them die in each task:
# when the coder has written its files, when the reviewer has them, and when the deal is settled.
VICTIMS = (
    (("model", "coder"), ("MCP server", "reviewer"), ("keeper", None)),
    (("hall", None), ("guard", "planner"), ("understudy", None)),
    (("runner", "reviewer"), ("supervisor", "coder"), ("guard's keeper", "planner")),
)


async def asked(url: str) -> str:
    """The answer to a question that one of the crew answers. It is asked as by `moothall ask`."""
    async with Agent("visitor").connected(url) as visitor:
        return (await visitor.ask("#general", "How far are you?", timeout=60)).content


def milestones(crew: RunningCrew, number: int) -> tuple[Callable[[], bool], ...]:
    """What can be seen of a task: its files are written, they are handed over, its deal is settled."""
    written = crew.folder / "workspaces" / "coder" / f"task-{number}"
    received = crew.folder / "workspaces" / "reviewer" / "received" / f"task-{number}"
    return (
        written.exists,
        lambda: any(received.glob(f"*/task-{number}")),
        lambda: len(crew.settlements()) >= number,
    )


def assert_played(crew: RunningCrew) -> None:
    """All tasks are settled, each of them once, and their files are where they should be."""
    until(lambda: len(crew.settlements()) >= TASKS, f"{TASKS} deals are settled", patience=PLAY)
    answer = asyncio.run(asked(crew.stands()["hall"]))
    assert answer
    settled = crew.settlements()
    assert len(settled) == len(set(settled)) == TASKS
    for number, name in enumerate(("primes", "leap_years", "roman"), 1):
        written = crew.folder / "workspaces" / "coder" / f"task-{number}" / f"{name}.txt"
        received = crew.folder / "workspaces" / "reviewer" / "received" / f"task-{number}"
        copies = [copy.read_text() for copy in received.glob(f"*/task-{number}/{name}.txt")]
        assert written.read_text() in copies


def assert_stopped(crew: RunningCrew) -> None:
    """One command, and nothing is left."""
    crew.command("stop")
    until(lambda: not crew.processes(), f"no process is left, but {crew.processes()}")


@pytest.mark.slow
def test_a_crew_survives_the_death_of_each_of_its_processes(tmp_path: Path) -> None:
    with running_crew(tmp_path, example(name='name = "crew"\nisolation = "process"')) as crew:
        for number, victims in enumerate(VICTIMS, 1):
            for is_reached, (part, agent) in zip(milestones(crew, number), victims, strict=True):
                until(is_reached, f"task {number} goes on, to kill the {part}", patience=PLAY)
                crew.kill(part, agent)
        assert_played(crew)
        assert_stopped(crew)


@pytest.mark.slow
def test_the_crew_plays_in_containers() -> None:
    with yard() as place:
        for name in ("stand_in.py", "actors", "personalities"):
            copy = shutil.copytree if (EXAMPLE / name).is_dir() else shutil.copy
            copy(EXAMPLE / name, place.files / name)
        text = example(
            crew_folder="{crew}",
            variables=', PYTHONPATH = "{crew}/src"',
            name=f'name = "crew"\nisolation = "podman"\nrootfs = "{place.crew.rootfs}"',
        )
        variables = {STORAGE_VARIABLE: os.environ[STORAGE_VARIABLE]}
        with running_crew(place.places.root, text, place.files / "crew.toml", variables) as crew:
            assert crew.stands()["isolated"]
            assert_played(crew)
            crew.command("stop")
            assert place.podman("ps", "--quiet").stdout == ""
