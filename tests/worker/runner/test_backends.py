"""How the programs of models are started."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from moothall.errors import UsageError
from moothall.worker.runner.backends import MAX_ARGUMENT, Cli, Command, Session, named
from moothall.worker.runner.conversation import Conversation


def session(prompt: str = "prompt", system: str = "") -> Session:
    return Session("alice", 3, prompt, system, Path("/p"), Path("/s"), Path("/m"), "a-model")


def program(path: Path) -> Path:
    path.touch(mode=0o755)
    return path


def test_in_a_container_claude_has_another_name(tmp_path: Path) -> None:
    program(tmp_path / "claude")
    hidden = program(tmp_path / ".claude-supervisor")
    launch = Cli(hidden).launch(session(), {"PATH": str(tmp_path)})
    assert launch.words[:5] == [str(hidden), "-p", "prompt", "--model", "a-model"]
    assert launch.has_events


def test_elsewhere_it_is_in_the_path(tmp_path: Path) -> None:
    found = program(tmp_path / "claude")
    launch = Cli(tmp_path / ".claude-supervisor").launch(session(), {"PATH": str(tmp_path)})
    assert launch.words[0] == str(found)


def test_a_settings_file_is_passed_on(tmp_path: Path) -> None:
    words = Cli(program(tmp_path / "c")).launch(session(), {"SETTINGS_FILE": "/x.json"}).words
    assert words[words.index("--settings") + 1] == "/x.json"
    assert "--append-system-prompt" not in words


def test_an_agent_that_fetches_has_neither_shell_nor_files(tmp_path: Path) -> None:
    binary = program(tmp_path / "c")
    fetcher = replace(session(), name="page-fetcher")
    words = Cli(binary).launch(fetcher, {}).words
    denied = json.loads(words[words.index("--settings") + 1])["permissions"]["deny"]
    assert {"Bash", "Write", "Edit"} <= set(denied)
    words = Cli(binary).launch(fetcher, {"SETTINGS_FILE": "/x.json"}).words
    assert words[words.index("--settings") + 1] == "/x.json"
    assert "--settings" not in Cli(binary).launch(session(), {}).words


def test_a_conversation_is_created_once_and_then_resumed(tmp_path: Path) -> None:
    binary = program(tmp_path / "c")

    def flags() -> list[str]:
        words = Cli(binary).launch(replace(session(), conversation=Conversation(tmp_path)), {}).words
        return [word for word in words if word in ("--session-id", "--resume", Conversation(tmp_path).id)]

    first = Conversation(tmp_path)
    assert flags() == ["--session-id", first.id]
    first.begin()
    assert flags() == ["--resume", first.id]


def test_one_claude_runs_at_a_time_but_for_the_tools_in_it(tmp_path: Path) -> None:
    launch = Cli(program(tmp_path / "c")).launch(session(), {})
    assert (launch.only_one, launch.also_as) == (str(tmp_path / "c"), ("rg", "bfs", "ugrep"))


@pytest.mark.parametrize("tokens", ["many", "10", "99999999999"])
def test_the_length_of_a_conversation_over_an_api_is_a_number(tokens: str) -> None:
    variables = {"AGENT_MODEL": "a-model"}
    assert named("openai").launch(session(), variables).words[-1] == "100000"
    assert (
        named("openai").launch(session(), {**variables, "AGENT_CONTEXT_TOKENS": "32768"}).words[-1] == "32768"
    )
    with pytest.raises(UsageError, match="AGENT_CONTEXT_TOKENS"):
        named("openai").launch(session(), {**variables, "AGENT_CONTEXT_TOKENS": tokens})


def test_a_prompt_that_no_program_can_be_given_is_refused(tmp_path: Path) -> None:
    binary = program(tmp_path / "c")
    Cli(binary).launch(session("x" * MAX_ARGUMENT), {})
    with pytest.raises(UsageError, match="shorten the mission or the personality"):
        Cli(binary).launch(session("x" * (MAX_ARGUMENT + 1)), {})


def test_a_command_is_split_as_shells_do_and_told_where_its_files_are() -> None:
    launch = Command().launch(session(), {"AGENT_COMMAND": "python 'my agent.py' --fast"})
    assert launch.words == ["python", "my agent.py", "--fast"]
    assert launch.variables == {
        "AGENT_SESSION": "3",
        "AGENT_PROMPT_FILE": "/p",
        "AGENT_SYSTEM_FILE": "/s",
        "AGENT_MCP_CONFIG": "/m",
    }
    assert not launch.has_events


def test_an_unknown_runtime_is_refused_with_the_known_ones() -> None:
    assert isinstance(named("command"), Command)
    with pytest.raises(UsageError, match="'x' is not known: choose one of cli, command, api, openai"):
        named("x")
    with pytest.raises(UsageError, match="gro is not offered here: choose one of"):
        named("gro")
