"""Which hall, key file and name a command uses: option, MOOTHALL_*, AGENTCHAT_*, context, default."""

from itertools import product
from pathlib import Path

import pytest
from typer.testing import CliRunner

from moothall import Identity, PrivateKey
from moothall.cli import _chosen, doctor
from moothall.cli._context_file import Context, ContextFile
from moothall.cli.main import app
from moothall.errors import KeyFileMissing
from moothall.identity import save
from moothall.settings import load
from tests.support.server import running_hall

KEY = PrivateKey(bytes(range(32)))


@pytest.fixture
def context() -> None:
    ContextFile().add("work", Context("ws://context", Path("context.json")), replace=False)
    ContextFile().use("work")


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize("said", list(product((True, False), repeat=3)))
def test_the_first_that_says_something_names_the_hall(said: tuple[bool, bool, bool]) -> None:
    option, moothall, agentchat = said
    variables = {
        "MOOTHALL_URL": "ws://moothall" if moothall else "",
        "AGENTCHAT_URL": "ws://agentchat" if agentchat else "",
    }
    ranked = (
        (option, ("ws://option", "option")),
        (moothall, ("ws://moothall", "$MOOTHALL_URL")),
        (agentchat, ("ws://agentchat", "$AGENTCHAT_URL")),
        (True, ("ws://context", "context work")),
    )
    expected = next(choice for speaks, choice in ranked if speaks)
    assert _chosen.url("ws://option" if option else None, variables) == expected


@pytest.mark.usefixtures("context")
def test_the_first_that_says_something_names_the_key_file() -> None:
    variables = {"MOOTHALL_IDENTITY": "variable.json"}
    assert _chosen.named_key_file(Path("option.json"), variables) == (Path("option.json"), "option")
    assert _chosen.named_key_file(None, variables) == (Path("variable.json"), "$MOOTHALL_IDENTITY")
    assert _chosen.named_key_file(None, {"MOOTHALL_IDENTITY": ""}) == (Path("context.json"), "context work")


def test_the_first_that_says_something_is_the_name() -> None:
    variables = {"MOOTHALL_NAME": "ada"}
    assert _chosen.name("grace", variables) == ("grace", "option")
    assert _chosen.name(None, variables) == ("ada", "$MOOTHALL_NAME")
    assert _chosen.name(None, {"MOOTHALL_NAME": ""}) == (None, "default")


def test_nothing_was_chosen() -> None:
    assert _chosen.url(None, {}) == (None, "default")
    assert _chosen.key_file(None, {}) == (None, "default")
    ContextFile().add("hall-only", Context("ws://context"), replace=False)
    ContextFile().use("hall-only")
    assert _chosen.key_file(None, {}) == (None, "default")


def test_a_key_file_that_is_missing_comes_with_the_variable_that_names_it(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.json")
    with pytest.raises(KeyFileMissing, match=r"\$MOOTHALL_IDENTITY names it"):
        _chosen.key_file(None, {"MOOTHALL_IDENTITY": missing})
    with pytest.raises(KeyFileMissing) as raised:
        _chosen.key_file(Path(missing), {"MOOTHALL_IDENTITY": "other.json"})
    assert "MOOTHALL_IDENTITY" not in str(raised.value)


def test_commands_go_where_the_variables_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(Identity(KEY, name="in-the-file"), tmp_path / "key.json")
    with running_hall(tmp_path, "--no-limits") as hall:
        monkeypatch.setenv("MOOTHALL_URL", hall.url)
        monkeypatch.setenv("AGENTCHAT_URL", "ws://127.0.0.1:1")
        monkeypatch.setenv("MOOTHALL_IDENTITY", str(tmp_path / "key.json"))
        monkeypatch.setenv("MOOTHALL_NAME", "ada")
        said = CliRunner().invoke(app, ["send", "-v", "general", "hello"], prog_name="moothall").stderr
    assert f"@{KEY.public.agent_id()} (ada)" in said


def test_a_hall_does_not_take_them_for_settings() -> None:
    variables = {"MOOTHALL_URL": "ws://hall", "MOOTHALL_IDENTITY": "key.json", "MOOTHALL_NAME": "ada"}
    assert load({}, variables).ignored == ()


@pytest.mark.parametrize("command", ["send", "propose", "chat"])
def test_help_names_the_variables(command: str) -> None:
    shown = CliRunner().invoke(app, [command, "--help"], prog_name="moothall").stdout
    for variable in ("$MOOTHALL_URL", "$AGENTCHAT_URL", "$MOOTHALL_IDENTITY", "$MOOTHALL_NAME"):
        assert variable in shown


def test_doctor_says_what_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOTHALL_URL", "ws://127.0.0.1:1")
    monkeypatch.setenv("MOOTHALL_NAME", "ada")
    (line,) = [
        finding.found
        for finding in doctor.examine(None, Path("key.json"), 1.0)
        if finding.subject == "commands use"
    ]
    assert (
        line == "hall ws://127.0.0.1:1 ($MOOTHALL_URL), key file key.json (option), name ada ($MOOTHALL_NAME)"
    )


def test_the_context_list_warns_of_variables_that_win(monkeypatch: pytest.MonkeyPatch) -> None:
    ContextFile().add("work", Context("ws://context"), replace=False)
    for variable in ("MOOTHALL_URL", "AGENTCHAT_URL", "MOOTHALL_IDENTITY"):
        monkeypatch.setenv(variable, "something")
        shown = CliRunner().invoke(app, ["context", "list"], prog_name="moothall")
        assert f"${variable} is set and wins over" in shown.stderr


@pytest.mark.parametrize(
    ("variable", "value"), [("MOOTHALL_URL", "gopher://hall"), ("MOOTHALL_NAME", "not a name")]
)
def test_an_error_names_the_variable_that_is_wrong(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    result = CliRunner().invoke(app, ["channels"], prog_name="moothall")
    assert result.exit_code == 2
    assert result.stderr.endswith(f"; it comes from ${variable}\n")
