"""How the supervisor is started, under both of its names."""

import subprocess
from pathlib import Path

import pytest

from moothall import __version__
from moothall.errors import UsageError
from moothall.worker.supervisor.command_line import MAX_MISSION, read
from tests.support.server import PATIENCE, PROGRAM
from tests.support.workers import Workplace, finish


@pytest.fixture(autouse=True)
def _has_runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "agent-runner").touch(mode=0o755)
    monkeypatch.setattr("sys.argv", [str(tmp_path / "agent-supervisor")])


def test_what_is_given_is_the_plan(tmp_path: Path) -> None:
    flags = ["--token-file", "/a/token", "--identity-file=/a/key"]
    flags += ["--state-dir=/a/state", "--heartbeat", "3", "--give-up-after", "7"]
    plan = read(["alice", *flags, "Greet them."], {})
    assert (plan.name, plan.mission, plan.folder.path) == ("alice", "Greet them.", Path("/a/state"))
    assert plan.sources[:2] == (Path("/a/token"), Path("/a/key"))
    assert (plan.heartbeat, plan.give_up_after) == (3, 7)
    assert plan.runner == tmp_path / "agent-runner"


def test_what_is_not_given_has_a_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    plan = read(["alice", "Greet them."], {})
    assert plan.folder.path == Path("/home/someone/.agentchat/agents/alice")
    assert plan.sources[:2] == (Path("/run/secrets/oauth-token"), Path("/run/secrets/identity"))
    assert not plan.sources.expected
    assert (plan.heartbeat, plan.give_up_after) == (10, 0)


def test_the_state_folder_may_come_from_the_environment() -> None:
    assert read(["alice", "x"], {"STATE_DIR": "/a/state"}).folder.path == Path("/a/state")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "a name and a mission are needed"),
        (["alice"], "a name and a mission are needed"),
        (["alice", "greet", "them"], "as one word for the shell"),
        (["al ice", "x"], "cannot be the name of an agent"),
        (["../alice", "x"], "cannot be the name of an agent"),
        (["alice", "x", "--tokn", "y"], "there is no option --tokn"),
        (["alice", "x", "--heartbeat", "never"], "--heartbeat 'never': give a number from 0.1 to 3,600"),
        (["alice", "x", "--heartbeat"], "--heartbeat '': give a number"),
        (["alice", "x" * (MAX_MISSION + 1)], "at most 16,384 characters"),
    ],
)
def test_what_is_wrong_is_said(arguments: list[str], complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(arguments, {})
    assert complaint in str(caught.value)


def test_what_the_host_will_put_there_comes_from_the_environment() -> None:
    sources = read(["alice", "x"], {"MOOTHALL_SECRETS": "oauth-token identity"}).sources
    assert sources.awaited({}) == [sources.token_file, sources.identity_file]
    proxy = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9999", "ANTHROPIC_API_KEY": "proxy-managed"}
    assert sources.awaited(proxy) == [sources.identity_file]
    with pytest.raises(
        UsageError, match="MOOTHALL_SECRETS names 'key': it may name oauth-token and identity"
    ):
        read(["alice", "x"], {"MOOTHALL_SECRETS": "key"})


def test_the_program_says_its_version(place: Workplace) -> None:
    process = subprocess.run(
        [place.programs / "agent-supervisor", "--version"], capture_output=True, text=True, check=True
    )
    assert process.stdout == f"moothall {__version__}\n"


def test_a_fault_of_the_configuration_ends_with_1(place: Workplace) -> None:
    place.name = "not a name"
    code, said = finish(place.supervise())
    assert (code, said.count("\n")) == (1, 1)
    assert said.startswith("error: 'not a name' cannot be the name of an agent")


def test_moothall_worker_supervise_is_the_same(place: Workplace) -> None:
    """The process that the user started becomes the supervisor, so it can be signalled."""
    place.folder.mkdir(mode=0o700)
    (place.folder / "stop").touch()
    started = subprocess.Popen(
        [PROGRAM, "worker", "supervise", "bob", "Stop.", "--token-file", str(place.token_file)],
        env=place.environment(),
    )
    assert started.wait(PATIENCE) == 0
    assert place.state()["pid"] == started.pid
    assert place.state()["agent_name"] == "bob"
