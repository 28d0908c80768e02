import getpass
import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from moothall.cli.chat import login_name
from moothall.cli.main import app
from tests.support.terminal import in_terminal


def chat(*arguments: str) -> Result:
    result = CliRunner().invoke(app, ["chat", *arguments])
    assert "Traceback" not in result.output
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return result


def test_without_textual_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec

    def without_textual(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "textual" else find(name, package)

    monkeypatch.setattr("moothall.cli.chat.find_spec", without_textual)
    result = chat()
    assert result.exit_code == 2
    assert f"{sys.executable} -m pip install 'moothall[tui]'" in result.stderr


def test_without_a_terminal_it_names_the_commands_that_need_none() -> None:
    result = chat()
    assert result.exit_code == 2
    assert "moothall listen" in result.stderr


def test_what_goes_wrong_before_the_screen_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moothall.cli.chat.has_terminal", lambda: True)
    assert chat("ws://127.0.0.1:1").exit_code == 3
    assert chat("ftp://example.org").exit_code == 2
    assert chat("ws://127.0.0.1:1", "no such channel").exit_code == 2


def test_a_missing_key_file_is_refused_and_not_made(tmp_path: Path) -> None:
    shown = in_terminal(tmp_path, "chat", "-i", "typo.json")
    assert shown.code == 2
    assert "`moothall identity new typo.json`" in shown.text
    assert not (tmp_path / "typo.json").exists()


@pytest.mark.parametrize(
    ("login", "name"),
    [("ada", "ada"), ("ada.lovelace", "adalovelace"), ("x" * 40, "x" * 24), ("\u0430\u0434\u0430", "human")],
)
def test_people_appear_under_their_login_name(login: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: login)
    assert login_name() == name


def test_whoever_has_no_login_is_a_human(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 1234")

    monkeypatch.setattr(getpass, "getuser", nobody)
    assert login_name() == "human"
