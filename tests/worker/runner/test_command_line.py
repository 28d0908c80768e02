"""How the runner is started, under both of its names."""

import os
from collections.abc import Mapping

import pytest

from moothall import __version__
from moothall.worker.runner import service
from moothall.worker.runner.command_line import main
from moothall.worker.runner.config import Config
from moothall.worker.runner.verdict import FAILED


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """The sessions that would be run. Each ends with 7."""
    found: list[Config] = []

    def run(config: Config, environment: Mapping[str, str]) -> int:
        found.append(config)
        return 7

    monkeypatch.setattr(service, "run", run)
    monkeypatch.setattr(os, "environ", {"AGENTCHAT_URL": "ws://127.0.0.1:6667", "AGENT_RUNTIME": "api"})
    return found


def start(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["agent-runner", *arguments])
    return main()


def test_a_session_runs_as_the_variables_say(runs: list[Config], monkeypatch: pytest.MonkeyPatch) -> None:
    assert start(monkeypatch) == 7
    assert start(monkeypatch, "--use-claude-code") == 7
    assert [(config.name, config.runtime) for config in runs] == [("default", "api"), ("default", "cli")]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--use-gro"], "choose another AGENT_RUNTIME, such as cli or api"),
        (["alice"], "there is no option alice; usage: agent-runner"),
        (["--use-claude-code", "--verbose"], "there is no option --verbose; usage"),
    ],
)
def test_what_is_wrong_is_said(
    runs: list[Config],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    arguments: list[str],
    told: str,
) -> None:
    assert start(monkeypatch, *arguments) == FAILED
    assert told in capfd.readouterr().err
    assert not runs


def test_a_hall_is_needed(
    runs: list[Config], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(os.environ, "AGENTCHAT_URL")
    assert start(monkeypatch) == FAILED
    assert capfd.readouterr().err.startswith("error: AGENTCHAT_URL is missing: set it")


@pytest.mark.parametrize(("option", "told"), [("--version", f"moothall {__version__}"), ("-h", "usage: ")])
def test_help_and_version(
    runs: list[Config],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    option: str,
    told: str,
) -> None:
    assert start(monkeypatch, option) == 0
    assert capfd.readouterr().out.startswith(told)
    assert not runs
