"""How the programs of an agent begin and end."""

import pytest

from moothall import __version__
from moothall.errors import UsageError
from moothall.worker import entry


def ended(monkeypatch: pytest.MonkeyPatch, *arguments: str, error: Exception | None = None) -> int:
    def act(words: list[str]) -> int:
        if error is not None:
            raise error
        return len(words)

    monkeypatch.setattr("sys.argv", ["program", *arguments])
    return entry.run("runner", "usage: it", act, 9)


def test_the_exit_code_is_that_of_the_act(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ended(monkeypatch, "a", "b", "c") == 3


def test_help_and_version_act_on_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    told = []
    for flag in ("--help", "-h", "--version"):
        assert ended(monkeypatch, flag, error=UsageError("it acted")) == 0
        told.append(capfd.readouterr().out)
    assert told == ["usage: it\n", "usage: it\n", f"moothall {__version__}\n"]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (UsageError("no such name"), "error: no such name\n"),
        (PermissionError(13, "Permission denied", "/folder"), "error: /folder: Permission denied\n"),
        (OSError(28, "No space left on device"), "error: the runner: No space left on device\n"),
    ],
)
def test_an_error_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], error: Exception, told: str
) -> None:
    assert ended(monkeypatch, error=error) == 9
    assert capfd.readouterr().err == told


def test_a_program_does_not_import_from_where_an_agent_can_write() -> None:
    assert entry.program("moothall.worker.runner")[1:] == ["-P", "-s", "-m", "moothall.worker.runner"]
    added = entry.no_user_modules({"A": "b"})
    assert added["PYTHONNOUSERSITE"]
    assert entry.of_the_user({"A": "b", **added}) == {"A": "b"}


def test_what_the_user_has_set_reaches_the_program_of_the_model() -> None:
    users = {"PYTHONNOUSERSITE": "1"}
    assert entry.no_user_modules(users) == {}
    assert entry.of_the_user(users) == users
