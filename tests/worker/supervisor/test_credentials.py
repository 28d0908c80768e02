"""Where the token comes from, and that its file is gone afterwards."""

import os
from pathlib import Path

import pytest

from moothall.errors import UsageError
from moothall.worker import lifeline
from moothall.worker.supervisor import credentials

TOKEN = "sk-ant-oat01-of-a-test"


def test_the_token_is_a_word_in_a_file_that_is_deleted(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"  {TOKEN}\n")
    assert credentials.load(file, {}, is_required=True) == TOKEN
    assert not file.exists()


def test_a_proxy_has_the_real_key(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    proxy = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9999", "ANTHROPIC_API_KEY": "proxy-managed"}
    assert credentials.load(file, proxy, is_required=True) is None


def test_without_a_file_the_token_of_the_pipe_is_taken(tmp_path: Path) -> None:
    reading, writing = lifeline.with_token(TOKEN)
    os.close(writing)
    assert credentials.load(tmp_path / "token", {lifeline.VARIABLE: str(reading)}, is_required=True) == TOKEN
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(reading)


def test_a_container_needs_a_token(tmp_path: Path) -> None:
    assert credentials.load(tmp_path / "token", {}, is_required=False) is None
    with pytest.raises(UsageError, match="there is no token: mount it as the file"):
        credentials.load(tmp_path / "token", {}, is_required=True)


@pytest.mark.parametrize("content", ["two words", "one\nper line", "x" * (lifeline.MAX_TOKEN + 1)])
def test_what_is_not_a_token_is_refused_without_showing_it(tmp_path: Path, content: str) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    with pytest.raises(UsageError, match="it is not a token") as caught:
        credentials.load(file, {}, is_required=True)
    assert content not in str(caught.value)
    assert not file.exists()


def test_a_folder_or_a_pipe_is_not_a_token_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(UsageError, match=r"is not a regular file|Is a directory"):
            credentials.load(path, {}, is_required=True)


def test_a_file_that_cannot_be_removed_is_emptied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret of a container can be a mount of its own."""
    file = tmp_path / "token"
    file.write_text(TOKEN)

    def busy(path: Path) -> None:
        raise OSError(16, "Device or resource busy", str(path))

    monkeypatch.setattr(Path, "unlink", busy)
    assert credentials.load(file, {}, is_required=True) == TOKEN
    assert file.read_bytes() == b""


def test_a_file_that_stays_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)

    def read_only(path: Path, *_: object) -> None:
        raise OSError(30, "Read-only file system", str(path))

    monkeypatch.setattr(Path, "unlink", read_only)
    monkeypatch.setattr(os, "truncate", read_only)
    with pytest.raises(
        UsageError, match=r"cannot be deleted .Read-only file system., so the model could read it"
    ):
        credentials.load(file, {}, is_required=True)


@pytest.mark.parametrize(("text", "expected"), [("0::/libpod-12ab\n", True), ("0::/init.scope\n", False)])
def test_a_container_is_told_by_its_first_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, expected: bool
) -> None:
    monkeypatch.setattr(credentials, "_MARKS", ())
    monkeypatch.setattr(credentials, "_FIRST_PROCESS", tmp_path / "cgroup")
    (tmp_path / "cgroup").write_text(text)
    assert credentials.is_in_container() is expected


def test_a_container_is_told_by_its_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".containerenv").touch()
    monkeypatch.setattr(credentials, "_MARKS", (tmp_path / ".containerenv",))
    assert credentials.is_in_container()
