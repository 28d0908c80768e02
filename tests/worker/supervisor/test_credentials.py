"""Where the secrets come from: files, a pipe, or a proxy that has the token."""

import os
from pathlib import Path

import pytest

from moothall.errors import UsageError
from moothall.worker import lifeline
from moothall.worker.lifeline import Secrets
from moothall.worker.supervisor import credentials
from moothall.worker.supervisor.credentials import Sources

TOKEN = "sk-ant-oat01-of-a-test"
PROXY = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9999", "ANTHROPIC_API_KEY": "proxy-managed"}


def sources(folder: Path, *, needs_token: bool = True) -> Sources:
    return Sources(folder / "token", folder / "identity", needs_token=needs_token)


def test_both_secrets_come_from_files(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"  {TOKEN}\n")
    (tmp_path / "identity").write_text('{\n  "name": "alice"\n}\n')
    assert credentials.load(sources(tmp_path), {}) == Secrets(TOKEN, '{"name": "alice"}')
    assert list(tmp_path.iterdir()) == []


def test_a_proxy_has_the_real_key(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    assert credentials.load(sources(tmp_path), PROXY) == Secrets()


def test_without_a_file_the_token_of_the_pipe_is_taken(tmp_path: Path) -> None:
    reading, writing = lifeline.with_secrets(Secrets(TOKEN))
    os.close(writing)
    assert credentials.load(sources(tmp_path), {lifeline.VARIABLE: str(reading)}) == Secrets(TOKEN)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(reading)


def test_a_container_needs_a_token(tmp_path: Path) -> None:
    assert credentials.load(sources(tmp_path, needs_token=False), {}) == Secrets()
    with pytest.raises(UsageError, match="there is no token: put it into the file"):
        credentials.load(sources(tmp_path), {})


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
