"""crew.toml: what it may say, what it means, and how each fault is told."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.errors import UsageError
from moothall.worker.crew import plan
from moothall.worker.crew.places import Places
from moothall.worker.crew.plan import Crew, Member
from moothall.worker.crew.runtime import Recipe
from moothall.worker.runner.config import LIMITS

FILE = Path("/somewhere/demo/crew.toml")
SMALL = '[agents.planner]\nmission = "Plan."\n'


def crew_of(text: str, file: Path = FILE) -> Crew:
    return plan.parse(tomllib.loads(text), file)


def test_a_small_file_is_enough() -> None:
    crew = crew_of(SMALL)
    assert crew == Crew(name="demo", file=FILE, members=(Member("planner", "Plan."),))
    assert (crew.hall, crew.isolation, crew.image, crew.folder) == (
        None,
        "auto",
        "moothall-worker:latest",
        FILE.parent,
    )
    (member,) = crew.members
    assert (member.memory, member.cpus, member.processes, member.protected) == ("4g", 2, 256, False)


def test_everything_that_a_file_may_say() -> None:
    crew = crew_of(
        """
        [crew]
        name = "other"
        hall = "127.0.0.1:7000"
        isolation = "process"
        rootfs = "root"
        token = "/secrets/token"
        model_url = "http://127.0.0.1:8000"
        model_proxy = false
        [defaults]
        runtime = "command"
        model = "small"
        command = "python3 {crew}/stand_in.py 'two words'"
        budget = 1000
        timeout = 60
        max_sends = 5
        max_tool_calls = 6
        stall_timeout = 0
        startup_timeout = 9
        memory = "512M"
        cpus = 0.5
        processes = 64
        environment = { COLOUR = "red", SIZE = "1" }
        [agents.planner]
        mission = "Plan."
        [agents.coder]
        mission = "Code."
        budget = 2000
        protected = true
        environment = { COLOUR = "blue", HERE = "{crew}/x", JSON = "{}" }
        """
    )
    assert (crew.name, crew.hall, crew.rootfs, crew.token, crew.model_proxy) == (
        "other",
        "ws://127.0.0.1:7000",
        FILE.parent / "root",
        Path("/secrets/token"),
        False,
    )
    planner, coder = crew.members
    assert (planner.budget, coder.budget, coder.memory, coder.protected) == (1000, 2000, "512m", True)
    recipe = Recipe(crew, coder, Places(Path("/crews/other")).member("coder"), "ws://127.0.0.1:7000")
    assert recipe.variables(Path("/a crew"), Path("/state")) == {
        "AGENTCHAT_URL": "ws://127.0.0.1:7000",
        "AGENT_RUNTIME": "command",
        "AGENT_MODEL": "small",
        "AGENT_COMMAND": "python3 '/a crew/stand_in.py' 'two words'",
        "STATE_DIR": "/state",
        "CREW_FOLDER": "/a crew",
        "NIKI_BUDGET": "2000",
        "NIKI_TIMEOUT": "60",
        "NIKI_MAX_SENDS": "5",
        "NIKI_MAX_TOOLS": "6",
        "NIKI_STALL_TIMEOUT": "0",
        "NIKI_STARTUP_TIMEOUT": "9",
        "COLOUR": "blue",
        "SIZE": "1",
        "HERE": "/a crew/x",
        "JSON": "{}",
    }


def test_limits_are_variables_that_the_runner_reads() -> None:
    assert set(plan.LIMITS.values()) <= {variable for variable, _, _ in LIMITS}


def test_limits_that_are_not_given_are_left_to_the_runner() -> None:
    told = plan.variables(Member("a", "m"), hall="ws://h", crew_folder=Path("/crew"), state=Path("/state"))
    assert not [name for name in told if name.startswith("NIKI_")]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "1 to 200 agents"),
        ("[agents]", "1 to 200 agents"),
        ("[crew]\nisolaton = 'auto'\n" + SMALL, r"\[crew\] has the unknown key 'isolaton'.*mean isolation"),
        ("[agent.planner]\nmission = 'x'", "the file has the unknown key 'agent': perhaps you mean agents"),
        ("[agents.a]\nmision = 'x'", r"\[agents.a\] has the unknown key 'mision': perhaps you mean mission"),
        ("[agents.a]\nqqqq = 'x'", r"unknown key 'qqqq': it may have mission, runtime"),
        ("[defaults]\nbudgets = 1\n" + SMALL, "perhaps you mean budget"),
        ("[agents.a]\nmission = ''", r"\[agents.a\] mission: must be a text"),
        ("[agents.a]\nmission = 3", "must be a text"),
        ("[agents.a]\nmission = 'a\\u0000'".replace("'", '"'), "code 0"),
        ("[agents.a]", r"\[agents.a\] has no mission"),
        ("agents.a = 3", r"\[agents.a\] must be a table"),
        ("agents = 3", r"\[agents\] must be a table"),
        ("[agents.'a b']\nmission = 'x'", "'a b' cannot be a name"),
        ("[agents.-x]\nmission = 'x'", "cannot be a name"),
        ("[crew]\nname = '../x'\n" + SMALL, r"\[crew\] name: '../x' cannot be a name"),
        ("[crew]\nhall = 'ftp://x'\n" + SMALL, "not the address of a hall"),
        ("[crew]\nisolation = 'docker'\n" + SMALL, "choose one of auto, podman, process"),
        ("[crew]\nisolation = ['auto']\n" + SMALL, "choose one of auto, podman, process"),
        ("[crew]\nimage = 'x'\nrootfs = 'y'\n" + SMALL, "both image and rootfs"),
        ("[crew]\nimage = '--privileged'\n" + SMALL, "must not begin with -"),
        ("[crew]\nmodel_url = 'api'\n" + SMALL, "not a web address"),
        ("[crew]\nmodel_url = 'http://[x'\n" + SMALL, "not a web address"),
        ("[crew]\nmodel_proxy = 1\n" + SMALL, "true or false"),
        ("[defaults]\nruntime = 'gro'\n" + SMALL, "choose one of cli, command, api, openai"),
        ("[defaults]\nruntime = 'command'\n" + SMALL, r"\[agents.planner\] has the runtime command, and no"),
        ('[defaults]\ncommand = "a \'b"\n' + SMALL, "cannot be read: No closing quotation"),
        ("[defaults]\nbudget = 0\n" + SMALL, "whole number from 1"),
        ("[defaults]\nbudget = 1.5\n" + SMALL, "whole number"),
        ("[defaults]\ntimeout = true\n" + SMALL, "whole number"),
        ("[defaults]\nprocesses = 2\n" + SMALL, "whole number from 16"),
        ("[defaults]\nmemory = '4'\n" + SMALL, "not an amount of memory"),
        ("[defaults]\nmemory = '1k'\n" + SMALL, 'at least "64m"'),
        ("[defaults]\ncpus = 0\n" + SMALL, "number of processors"),
        ("[defaults]\ncpus = nan\n" + SMALL, "number of processors"),
        ("[defaults]\nenvironment = 'A=b'\n" + SMALL, "must be a table"),
        ("[defaults]\nenvironment = { 'A-B' = 'x' }\n" + SMALL, "cannot be the name of a variable"),
        ("[defaults]\nenvironment = { A = 1 }\n" + SMALL, "A must be a text"),
        ("[defaults]\nenvironment = { AGENT_MODEL = 'x' }\n" + SMALL, "cannot be set here: use model"),
        ("[defaults]\nenvironment = { OPENAI_API_KEY = 'x' }\n" + SMALL, "use token in"),
    ],
)
def test_a_fault_names_the_file_the_key_and_what_to_do(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        crew_of(text)
    assert str(caught.value).startswith(f"{FILE}: ")


def test_a_folder_whose_name_no_crew_can_have() -> None:
    with pytest.raises(UsageError, match=r'"a b" cannot|\'a b\' cannot .* add name'):
        crew_of(SMALL, Path("/somewhere/a b/crew.toml"))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file"):
        plan.read(tmp_path / "crew.toml")
    with pytest.raises(UsageError, match="Is a directory"):
        plan.read(tmp_path)
    broken = tmp_path / "crew.toml"
    broken.write_text("[crew")
    with pytest.raises(UsageError, match="is not TOML"):
        plan.read(broken)
    broken.write_bytes(b"\xff")
    with pytest.raises(UsageError, match="is not TOML"):
        plan.read(broken)


def test_a_relative_file_gets_its_full_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "crew.toml").write_text(f"[crew]\nname = 'x'\ntoken = '~/t'\n{SMALL}")
    monkeypatch.setenv("HOME", "/home/me")
    crew = plan.read(Path("crew.toml"))
    assert (crew.file, crew.token) == (tmp_path / "crew.toml", Path("/home/me/t"))


def test_an_agent_is_found_by_name_or_the_nearest_is_named() -> None:
    crew = crew_of(SMALL)
    assert crew.member("planner").mission == "Plan."
    with pytest.raises(UsageError, match="no agent 'planer' in the crew demo, perhaps you mean planner"):
        crew.member("planer")
    with pytest.raises(UsageError, match="it has planner"):
        crew.member("zzz")


def test_all_keys_of_an_agent_can_be_kept_as_json() -> None:
    (member,) = crew_of(f"[defaults]\nenvironment = {{ A = 'b' }}\nbudget = 7\n{SMALL}").members
    kept = json.loads(json.dumps(member.fields()))
    assert kept == member.fields()
    assert (kept["name"], kept["budget"], kept["environment"]) == ("planner", 7, {"A": "b"})


_TOML: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["crew", "agents", "defaults", "name", "mission", "command", "environment", "a", "-"]
            )
            | st.text(max_size=5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["crew", "agents", "defaults", "x"]), _TOML, max_size=3))
def test_any_tables_are_a_crew_or_an_error_for_the_user(tables: dict[str, Any]) -> None:
    try:
        crew = plan.parse(tables, FILE)
    except UsageError as error:
        told = str(error)
    else:
        told = f"{FILE}: {crew.name}"
        for member in crew.members:
            own = plan.variables(member, hall="ws://h", crew_folder=Path("/crew"), state=Path("/state"))
            assert own["AGENTCHAT_URL"] == "ws://h"
            assert all("\0" not in key + value for key, value in own.items())
    assert told.startswith(f"{FILE}: ")
