"""crew.json: what is wanted of a crew, kept and read back."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.errors import UsageError
from moothall.worker.crew import plan, record
from moothall.worker.crew.record import Record, Wanted

FILE = Path("/somewhere/demo/crew.toml")
TABLES: dict[str, Any] = {
    "defaults": {"mission": "Work.", "environment": {"A": "b"}},
    "agents": {"one": {}, "two": {"budget": 5}},
}


def of(tables: dict[str, Any] = TABLES) -> Record:
    return Record(plan.parse(tables, FILE), tables, record.PROCESS)


@given(
    st.lists(st.tuples(st.sampled_from(["one", "two", "three"]), st.sampled_from(list(Wanted)))),
    st.none() | st.integers(1, 65535),
    st.booleans(),
)
def test_what_is_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, aims: list[tuple[str, Wanted]], port: int | None, ending: bool
) -> None:
    file = tmp_path_factory.mktemp("record") / "crew.json"
    made = Record(of().crew, TABLES, record.PODMAN, port, is_ending=ending)
    for name, wanted in aims:
        made = made.aimed(name, wanted, {"budget": 1})
    made.write(file)
    assert record.read(file) == made


def test_no_file_is_no_crew_and_a_damaged_one_is_told(tmp_path: Path) -> None:
    file = tmp_path / "crew.json"
    assert record.read(file) is None
    of().write(file)
    whole = file.read_text()
    for damaged in (
        "",
        "[]",
        "{}",
        whole.replace('"process"', '"magic"'),
        whole.replace('"port": null', '"port": "x"'),
    ):
        file.write_text(damaged)
        with pytest.raises(UsageError, match="is damaged"):
            record.read(file)


def test_agents_that_run_with_other_keys_than_the_file_has_now() -> None:
    before = of()
    for member in before.crew.members:
        before = before.aimed(member.name, Wanted.RUNNING, member.fields())
    assert before.changes(before.crew) == {}
    after = plan.parse(TABLES | {"agents": {"one": {"budget": 7, "mission": "Rest."}}}, FILE)
    assert before.changes(after) == {"one": ["mission", "budget"]}
    assert before.aimed("one", Wanted.STOPPED).changes(after) == {}
    assert Record(after, {}, record.PROCESS, aims=before.aims).left_over() == ["two"]


def test_an_agent_keeps_what_it_was_started_with() -> None:
    started = of().aimed("one", Wanted.STARTING, {"budget": 1}).aimed("one", Wanted.RUNNING)
    assert started.aims["one"].started_with == {"budget": 1}
    assert started.to_run() == ["one"]
    assert started.without("one").aims == {}


def test_the_hall_is_the_one_of_the_file_or_on_the_port() -> None:
    assert Record(of().crew, TABLES, record.PROCESS, 7000).hall == "ws://127.0.0.1:7000"
    assert of(TABLES | {"crew": {"hall": "ws://a:1"}}).hall == "ws://a:1"
