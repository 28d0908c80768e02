"""What can be asked of a crew, with a runtime and a service that only remember."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from moothall.errors import UsageError
from moothall.worker.crew import record, runtimes, services
from moothall.worker.crew.arrival import Arrival
from moothall.worker.crew.desk import Desk, Over
from moothall.worker.crew.places import Places
from moothall.worker.crew.record import Wanted
from moothall.worker.crew.runtime import Recipe, Standing

TABLES: dict[str, Any] = {
    "crew": {"name": "demo", "hall": "ws://127.0.0.1:1"},
    "defaults": {"mission": "Work."},
    "agents": {"one": {}, "two": {"protected": True}},
}
FILE = Path("/somewhere/crew.toml")


class Memory:
    """A runtime and a service in one: `done` is what they were asked, in order."""

    isolates = True
    period = 0.1

    def __init__(self) -> None:
        self.done: list[str] = []
        self.running: set[str] = set()
        self.broken: set[str] = set()

    def start(self, recipe: Recipe) -> None:
        name = recipe.member.name
        if name in self.broken:
            raise UsageError("the image is missing")
        self.done.append(f"start {name}")
        self.running.add(name)

    def stop(self, name: str, patience: float) -> None:
        self.done.append(f"stop {name}")
        self.running.discard(name)

    def kill(self, name: str) -> None:
        self.done.append(f"kill {name}")
        self.running.discard(name)

    def wake(self, name: str) -> None:
        self.done.append(f"wake {name}")

    def remove(self, name: str) -> None:
        self.done.append(f"remove {name}")

    def standing(self) -> list[Standing]:
        return [Standing(name, True, 0.0) for name in sorted(self.running)]

    def exec(self, recipe: Recipe, words: Sequence[str]) -> int:
        raise NotImplementedError

    def tend(self, recipes: Sequence[Recipe]) -> list[str]:
        self.done.append(f"tend {' '.join(recipe.member.name for recipe in recipes)}")
        return []

    async def begin(self, recipe: Recipe) -> None:
        self.done.append(f"begin {recipe.member.name}")

    async def end(self, name: str) -> None:
        self.done.append(f"end {name}")

    async def close(self) -> None:
        self.done.append("close")


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Memory:
    found = Memory()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(runtimes, "choose", lambda _: runtimes.Choice(record.PODMAN))
    monkeypatch.setattr(runtimes, "open_runtime", lambda *_: found)
    monkeypatch.setattr(services, "services_of", lambda *_, **__: [found])

    async def at_once(_: Arrival) -> None:
        return None

    monkeypatch.setattr(Arrival, "wait", at_once)
    return found


@pytest.fixture
def desk(memory: Memory, places: Places) -> Desk:
    return Desk(places, {})


def ignore(_: str) -> None:
    pass


async def test_ways_are_open_before_an_agent_starts_and_closed_after_its_end(
    desk: Desk, memory: Memory
) -> None:
    assert await desk.up(TABLES, FILE, ignore) == []
    assert memory.done.index("begin one") < memory.done.index("start one")
    memory.done.clear()
    await desk.tend(ignore)
    assert memory.done == ["tend one two"]
    memory.done.clear()
    assert await desk.stop(["one"], ignore, at_once=False) == []
    assert memory.done == ["stop one", "end one"]
    await desk.close()
    assert memory.done[-1] == "close"


async def test_a_new_keeper_opens_the_ways_of_agents_that_run(
    desk: Desk, memory: Memory, places: Places
) -> None:
    await desk.up(TABLES, FILE, ignore)
    memory.done.clear()
    await Desk(places, {}).take_over(ignore, finish=True)
    assert memory.done == ["begin one", "begin two"]


async def test_an_agent_that_cannot_be_started_does_not_keep_the_others(desk: Desk, memory: Memory) -> None:
    memory.broken.add("one")
    said: list[str] = []
    assert await desk.up(TABLES, FILE, said.append) == ["one"]
    assert "one cannot be started: the image is missing" in said
    assert memory.running == {"two"}
    memory.broken.clear()
    assert await desk.up(TABLES, FILE, ignore) == []
    assert memory.running == {"one", "two"}


async def test_without_names_the_protected_stay_and_the_last_end_is_the_end(
    desk: Desk, memory: Memory
) -> None:
    await desk.up(TABLES, FILE, ignore)
    assert await desk.stop([], ignore, at_once=True) == ["two"]
    assert (memory.running, desk.is_over) == ({"two"}, False)
    await desk.stop(["two"], ignore, at_once=False)
    assert desk.is_over
    with pytest.raises(Over):
        await desk.up(TABLES, FILE, ignore)


async def test_by_name_the_last_agent_does_not_end_the_crew(desk: Desk) -> None:
    await desk.up(TABLES, FILE, ignore)
    await desk.stop(["one", "two"], ignore, at_once=False)
    assert not desk.is_over
    assert not desk.is_idle


async def test_a_wake_is_for_an_agent_that_runs_and_a_start_for_one_that_does_not(
    desk: Desk, memory: Memory
) -> None:
    await desk.up(TABLES, FILE, ignore)
    memory.done.clear()
    await desk.wake("one", ignore)
    assert memory.done == ["wake one"]
    await desk.stop(["one"], ignore, at_once=False)
    memory.done.clear()
    await desk.wake("one", ignore)
    assert memory.done == ["begin one", "start one"]


async def test_names_that_do_not_exist_are_told(desk: Desk) -> None:
    for order in (desk.wake("one", ignore), desk.stop([], ignore, at_once=False)):
        with pytest.raises(UsageError, match="the crew demo was never up"):
            await order
    await desk.up(TABLES, FILE, ignore)
    for order in (
        desk.wake("tow", ignore),
        desk.stop(["one", "tow"], ignore, at_once=False),
        desk.remove("tow", ignore, with_folders=False),
    ):
        with pytest.raises(UsageError, match="no agent 'tow' in the crew demo, perhaps you mean two"):
            await order


async def test_another_file_cannot_take_a_crew_that_runs(desk: Desk) -> None:
    await desk.up(TABLES, FILE, ignore)
    with pytest.raises(UsageError, match=r"the crew demo is up from /somewhere/crew\.toml"):
        await desk.up(TABLES, Path("/elsewhere/crew.toml"), ignore)
    await desk.stop(["one", "two"], ignore, at_once=False)
    assert await desk.up(TABLES, Path("/elsewhere/crew.toml"), ignore) == []


async def test_the_kill_switch_is_obeyed_once(desk: Desk, memory: Memory, tmp_path: Path) -> None:
    await desk.up(TABLES, FILE, ignore)
    (tmp_path / ".agentchat").mkdir()
    (tmp_path / ".agentchat" / "KILL").touch()
    said: list[str] = []
    await desk.tend(said.append)
    assert said[0] == "the kill switch is on: stopping one"
    assert memory.running == {"two"}
    await desk.tend(said.append)
    assert len(said) == 2
    with pytest.raises(UsageError, match="the kill switch is on: remove"):
        await desk.wake("one", ignore)


async def test_what_was_to_start_and_is_no_longer_in_the_file_is_left_alone(
    desk: Desk, memory: Memory, places: Places
) -> None:
    await desk.up(TABLES, FILE, ignore)
    found = record.read(places.record)
    assert found is not None
    found.aimed("gone", Wanted.STARTING, {}).write(places.record)
    memory.done.clear()
    await Desk(places, {}).take_over(ignore, finish=True)
    assert "start gone" not in memory.done
