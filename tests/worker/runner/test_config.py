"""What a runner is told by its environment."""

from pathlib import Path

import pytest

from moothall.errors import UsageError
from moothall.worker.runner.config import Config

HALL = {"AGENTCHAT_URL": "ws://127.0.0.1:6667"}


def test_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    config = Config.read(HALL)
    assert (config.name, config.runtime, config.history_lines, config.is_public) == (
        "default",
        "cli",
        200,
        False,
    )
    assert config.folder.path == Path("/home/someone/.agentchat/agents/default")
    assert config.log_file == config.folder.path / "runner.log"
    assert config.personalities == Path("/home/someone/.claude/personalities")
    limits = dict(zip(config.limits[::2], config.limits[1::2], strict=True))
    assert (limits["--budget"], limits["--timeout"], limits["--max-sends"]) == ("1000000", "3600", "10")
    assert limits["--max-tool-calls"] == "30"


def test_variables_choose() -> None:
    config = Config.read(
        {
            **HALL,
            "AGENT_NAME": "bob",
            "MISSION": "Count.",
            "STATE_DIR": "/a",
            "LOG_FILE": "/b/log",
            "PERSONALITY_DIR": "/c",
            "MAX_TRANSCRIPT": "5",
            "NIKI_BUDGET": "7",
            "AGENTCHAT_PUBLIC": "true",
        }
    )
    assert (config.name, config.mission, config.folder.path) == ("bob", "Count.", Path("/a"))
    assert (config.log_file, config.personalities) == (Path("/b/log"), Path("/c"))
    assert (config.history_lines, config.is_public) == (5, True)
    assert config.limits[:2] == ("--budget", "7")


def test_history_can_be_left_out() -> None:
    assert Config.read({**HALL, "INJECT_TRANSCRIPT": "0"}).history_lines == 0


@pytest.mark.parametrize("text", ["x", "-1", "1e3", "99999", "²"])
def test_a_number_of_lines_is_a_number(text: str) -> None:
    with pytest.raises(UsageError, match="MAX_TRANSCRIPT"):
        Config.read({**HALL, "MAX_TRANSCRIPT": text})


def test_a_hall_is_needed() -> None:
    with pytest.raises(UsageError, match="AGENTCHAT_URL is missing"):
        Config.read({})
