"""What people are shown of agents' files, which agents can fill with anything."""

import asyncio
import json

import pytest

from moothall.worker.agent_folder import GUARD_STATE, SESSION_NUMBER, STATE
from moothall.worker.crew.arrival import MAX_FAULT, Arrival
from moothall.worker.crew.overview import MAX_TEXT, overview
from moothall.worker.crew.places import Places
from moothall.worker.crew.processes import KILLED, Processes
from moothall.worker.crew.record import PROCESS, Record
from moothall.worker.crew.runtime import Recipe

BELL = "\x1b]0;owned\x07"


def shown(places: Places, recipe: Recipe) -> dict[str, object]:
    (agent,) = overview(places, Record(recipe.crew, {}, PROCESS), is_kept=False)["agents"]
    return {key: agent[key] for key in ("status", "last_error", "tokens", "session")}


@pytest.mark.parametrize(
    "junk", [[], {}, True, 1.5, -1, 10**400, None, [[]] * 1000], ids=lambda junk: repr(junk)[:20]
)
def test_values_of_another_kind_are_not_shown(places: Places, recipe: Recipe, junk: object) -> None:
    recipe.places.make()
    (recipe.places.state / STATE).write_text(json.dumps({"status": junk, "last_error": junk}))
    (recipe.places.state / GUARD_STATE).write_text(json.dumps({"tokensTotal": junk}))
    (recipe.places.state / SESSION_NUMBER).write_text("-3")
    assert set(shown(places, recipe).values()) == {None}


def test_long_texts_are_cut(places: Places, recipe: Recipe) -> None:
    recipe.places.make()
    (recipe.places.state / STATE).write_text(json.dumps({"status": "s" * 9999, "last_error": "e" * 9999}))
    found = shown(places, recipe)
    assert (found["status"], found["last_error"]) == ("s" * MAX_TEXT, "e" * MAX_TEXT)


def test_a_huge_file_is_not_read(places: Places, recipe: Recipe) -> None:
    recipe.places.make()
    with (recipe.places.state / STATE).open("wb") as file:
        file.write(b'{"status": "running", "x": "')
        file.truncate(1 << 40)
    assert shown(places, recipe)["status"] is None


async def test_what_an_agent_says_of_its_failure_steers_no_terminal(
    recipe: Recipe, runtime: Processes
) -> None:
    recipe.places.make()
    arrival = Arrival(recipe.places, runtime)
    (recipe.places.state / STATE).write_text(
        json.dumps({"status": "failed", "last_error": f"a\n{BELL}b{'c' * 9999}"})
    )
    fault = await asyncio.wait_for(arrival.wait(), 20)
    assert fault is not None
    assert fault.startswith("a  ]0;owned bccc")
    assert fault.isprintable()
    assert len(fault) <= MAX_FAULT


def test_a_state_without_sense_does_not_stop_the_keeper(recipe: Recipe, runtime: Processes) -> None:
    runtime.start(recipe)
    runtime.kill("one")
    pid = json.loads((recipe.places.run / "process.json").read_text())["pid"]
    (recipe.places.state / STATE).write_text(json.dumps({"pid": pid, "status": []}))
    (found,) = runtime.standing()
    assert found.exit_code == KILLED
