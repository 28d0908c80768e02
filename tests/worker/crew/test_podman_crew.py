"""A crew in containers as its commands see it: up, a `kill -9` of its keeper, and the end of all."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from moothall.worker.crew import plan, record, runtimes
from moothall.worker.crew.containers import name_of
from moothall.worker.crew.office import Office
from moothall.worker.crew.overview import overview
from moothall.worker.crew.places import places_of
from tests.support.containers import STORAGE_VARIABLE, Yard, yard
from tests.support.crews import kill
from tests.support.workers import command_line

pytestmark = pytest.mark.slow

NAME = "guild"


@pytest.fixture(scope="module")
def place() -> Iterator[Yard]:
    with yard() as found:
        yield found


def keepers(folder: Path) -> list[int]:
    pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    words = (b"moothall.worker.crew.", str(folder).encode())
    return [pid for pid in pids if all(word in command_line(pid) for word in words)]


def test_a_crew_in_containers_survives_its_keeper_and_ends_as_a_whole(place: Yard) -> None:
    file = place.files / "crew.toml"
    file.write_text(f"""
        [crew]
        name = "{NAME}"
        isolation = "auto"
        rootfs = "{place.crew.rootfs}"
        [agents.mason]
        mission = "Wait."
        runtime = "command"
        command = "sleep 100000"
        environment = {{ PYTHONPATH = "{{crew}}/src" }}
    """)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(place.places.root),
        "MOOTHALL_CREWS": str(place.places.root / "crews"),
        STORAGE_VARIABLE: os.environ[STORAGE_VARIABLE],
    }
    places = places_of(NAME, environment)
    office = Office(places, environment)
    said: list[str] = []
    try:
        done = office.order({"do": "up", "tables": plan.document(file), "file": str(file)}, said.append)
        assert done == {"failed": []}, said
        assert runtimes.NO_ISOLATION not in said

        kept = record.read(places.record)
        assert kept is not None
        shown = overview(places, kept, is_kept=True)
        assert (shown["isolation"], shown["isolated"]) == ("podman", True)
        assert [(each["name"], each["state"]) for each in shown["agents"]] == [("mason", "running")]

        ask = ("exec", name_of(NAME, "mason"), "moothall", "channels", "--json")
        assert "#general" in place.podman(*ask).stdout
        [keeper] = [pid for pid in keepers(places.root) if b"crew.keeper" in command_line(pid)]
        kill(keeper)
        place.until(lambda: "#general" in place.podman(*ask).stdout, "the doors of the next keeper")
    finally:
        done = office.end({"do": "stop", "names": [], "at_once": True}, said.append)
    assert done["is_over"], said
    running = place.podman("ps", "--quiet").stdout
    assert (running, keepers(places.root)) == ("", [])


def test_without_podman_a_crew_that_leaves_it_open_runs_as_processes_and_says_why(
    place: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert runtimes.choose(place.crew) == ("podman", None)
    monkeypatch.setenv("PATH", "/nonexistent")
    isolation, note = runtimes.choose(
        plan.parse({"agents": {"a": {"mission": "x"}}}, place.files / "crew.toml")
    )
    assert isolation == "process"
    assert "podman is not installed" in str(note)
