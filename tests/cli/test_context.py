"""`moothall context`: a hall and a key file under one name, and commands that use them."""

import json
import multiprocessing
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from moothall import Identity, PrivateKey
from moothall.cli._addresses import hall_url
from moothall.cli._context_file import NAME_VARIABLE, PATH_VARIABLE, Context, ContextFile
from moothall.cli.main import app
from moothall.identity import load, save
from tests.support.server import HallProcess, run_moothall, running_hall

ALICE = PrivateKey(bytes(range(32)))
BOB = PrivateKey(bytes(range(1, 33)))
NOWHERE = "ws://127.0.0.1:1"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where contexts are kept; and the keys of alice and bob in the current folder, none at home."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("AGENTCHAT_URL", raising=False)
    monkeypatch.setenv(PATH_VARIABLE, str(tmp_path / "home" / "contexts.json"))
    monkeypatch.chdir(tmp_path)
    save(Identity(ALICE, name="alice"), tmp_path / "alice.json")
    save(Identity(BOB, name="bob"), tmp_path / "bob.json")
    return tmp_path / "home" / "contexts.json"


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    with running_hall(tmp_path_factory.mktemp("hall"), "--no-limits") as running:
        yield running


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(app, arguments, prog_name="moothall")
    assert "Traceback" not in result.output
    return result


def succeed(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def complaint(*arguments: str) -> str:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def contexts() -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(succeed("context", "list", "--json"))
    return found


# -- the commands ----------------------------------------------------------------------------------------


def test_a_context_is_added_used_listed_and_removed(path: Path, tmp_path: Path) -> None:
    assert "context add" in run("context", "list").stderr
    succeed("context", "add", "work", "--url", "hall.example.org", "--identity", "alice.json")
    succeed("context", "add", "home", "-u", "https://localhost:7000")
    work = {"name": "work", "url": "ws://hall.example.org:6667", "identity": str(tmp_path / "alice.json")}
    home = {"name": "home", "url": "wss://localhost:7000", "identity": None}
    assert contexts() == [{**work, "in_use": False}, {**home, "in_use": False}]
    assert hall_url(None) == "ws://127.0.0.1:6667"
    succeed("context", "use", "work")
    assert contexts() == [{**work, "in_use": True}, {**home, "in_use": False}]
    assert [line.split()[:2] for line in succeed("context", "list").splitlines()] == [
        ["work", "yes"],
        ["home", "-"],
    ]
    assert hall_url(None) == "ws://hall.example.org:6667"
    succeed("context", "use", "home")
    assert hall_url(None) == "wss://localhost:7000"
    succeed("context", "remove", "home")
    assert contexts() == [{**work, "in_use": False}]
    assert hall_url(None) == "ws://127.0.0.1:6667"
    assert (tmp_path / "alice.json").exists()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.usefixtures("path")
def test_an_unknown_name_is_answered_with_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "moothall context add" in complaint("context", "use", "work")
    succeed("context", "add", "work", "-u", NOWHERE)
    for command in ("use", "remove"):
        assert "perhaps you mean work" in complaint("context", command, "wrok")
    assert "moothall context list" in complaint("context", "use", "elsewhere")
    monkeypatch.setenv(NAME_VARIABLE, "wrok")
    assert "perhaps you mean work" in complaint("channels")


@pytest.mark.usefixtures("path")
def test_what_cannot_be_a_context() -> None:
    assert "--url" in complaint("context", "add", "work")
    assert "letters" in complaint("context", "add", "no name", "-u", NOWHERE)
    assert "address of a hall" in complaint("context", "add", "work", "-u", "ftp://example.org")
    assert "moothall identity new" in complaint("context", "add", "work", "-i", "typo.json")
    assert not Path("typo.json").exists()
    succeed("context", "add", "work", "-u", NOWHERE)
    assert "--force" in complaint("context", "add", "work", "-u", "ws://other")
    assert contexts()[0]["url"] == NOWHERE
    succeed("context", "add", "work", "-u", "ws://other", "--force")
    assert contexts()[0]["url"] == "ws://other"


# -- what commands make of it ----------------------------------------------------------------------------


@pytest.mark.usefixtures("path")
def test_commands_use_the_hall_and_the_key(hall: HallProcess) -> None:
    succeed("context", "add", "alice", "-u", hall.url, "-i", "alice.json")
    succeed("context", "use", "alice")
    succeed("skills", "register", "painting")
    assert f"@{ALICE.public.agent_id()}" in succeed("skills", "search", "painting")
    assert ALICE.public.fingerprint in succeed("identity", "show")
    succeed("create", "council", "--private")
    succeed("send", "council", "hello")
    assert BOB.public.agent_id() in succeed("rating", "-i", "bob.json")
    assert run("send", "council", "hello", "-i", "bob.json").exit_code == 4
    assert run("channels", "-u", NOWHERE).exit_code == 3


@pytest.mark.usefixtures("path")
def test_variables_win_over_the_context_in_use(hall: HallProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    succeed("context", "add", "nowhere", "-u", NOWHERE)
    succeed("context", "add", "hall", "-u", hall.url)
    succeed("context", "use", "nowhere")
    assert run("channels").exit_code == 3
    monkeypatch.setenv(NAME_VARIABLE, "hall")
    assert "#general" in succeed("channels")
    assert [entry["in_use"] for entry in contexts()] == [False, True]
    monkeypatch.setenv("AGENTCHAT_URL", NOWHERE)
    assert run("channels").exit_code == 3
    assert "$AGENTCHAT_URL is set" in run("context", "list").stderr


@pytest.mark.usefixtures("path")
def test_a_key_file_that_is_gone_is_not_made_anew() -> None:
    succeed("context", "add", "alice", "-u", NOWHERE, "-i", "alice.json")
    succeed("context", "use", "alice")
    Path("alice.json").unlink()
    for command in (("send", "general", "hello"), ("proposals",), ("identity", "show")):
        refused = complaint(*command)
        assert "moothall identity new" in refused
        assert "moothall context list" in refused
    assert not Path("alice.json").exists()


def test_new_makes_its_key_where_it_says(path: Path) -> None:
    """Not in the place of the context's."""
    succeed("context", "add", "alice", "-i", "alice.json")
    succeed("context", "use", "alice")
    succeed("identity", "new")
    assert load(path.parent / ".agentchat" / "identity.json").key != ALICE
    assert ALICE.public.fingerprint in succeed("identity", "show")


def test_doctor_looks_at_the_context(path: Path) -> None:
    succeed("context", "add", "alice", "-u", NOWHERE, "-i", "alice.json")
    succeed("context", "use", "alice")
    checks = json.loads(run("doctor", "--json").stdout)["checks"]
    found = {check["check"]: check["level"] for check in checks}
    assert (found["context"], found["hall"], found["key file"]) == ("ok", "fail", "ok")
    path.write_text("{}")
    checks = json.loads(run("doctor", "--json").stdout)["checks"]
    assert {check["check"]: check["level"] for check in checks}["context"] == "fail"


# -- the file --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"contexts": []}',
        '{"contexts": {"a": 5}}',
        '{"contexts": {"a b": {}}}',
        '{"contexts": {"a": {"url": 5}}}',
        '{"contexts": {"a": {"identity": []}}}',
        '{"contexts": {}, "in_use": 5}',
        "[" * 100_000,
    ],
)
def test_a_damaged_file_is_named(path: Path, content: str) -> None:
    path.parent.mkdir()
    path.write_text(content)
    path.chmod(0o600)
    for command in (("context", "list"), ("context", "use", "a"), ("channels",)):
        assert str(path) in complaint(*command)
    assert path.read_text() == content


def test_a_file_that_others_can_change_is_refused(path: Path) -> None:
    """It says which hall gets the user's signatures."""
    succeed("context", "add", "work", "-u", NOWHERE)
    path.chmod(0o666)
    assert f"chmod 600 {path}" in complaint("channels")


def test_a_folder_that_cannot_be_written(path: Path) -> None:
    path.parent.write_text("")
    assert str(path) in complaint("context", "add", "work", "-u", NOWHERE)


def _add(number: int) -> None:
    ContextFile().add(f"c{number}", Context(NOWHERE), replace=False)


@pytest.mark.usefixtures("path")
def test_programs_that_add_at_the_same_time_lose_nothing() -> None:
    with multiprocessing.get_context("fork").Pool(4) as pool:
        pool.map(_add, range(16))
    assert {entry["name"] for entry in contexts()} == {f"c{number}" for number in range(16)}


def test_a_real_process_keeps_its_contexts_in_the_home_folder(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path), PATH_VARIABLE: ""}
    assert run_moothall(tmp_path, "context", "add", "work", "-u", NOWHERE, environ=home).returncode == 0
    assert (tmp_path / ".agentchat" / "contexts.json").exists()
    assert "work" in run_moothall(tmp_path, "context", "list", environ=home).stdout
