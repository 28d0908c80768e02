"""Files with secrets: what is in them, that they are gone afterwards, and how long they are waited for."""

import os
import signal
import threading
from pathlib import Path

import pytest

from moothall.errors import UsageError
from moothall.worker import lifeline
from moothall.worker.supervisor.secret_files import take_identity, take_token, wait_for

TOKEN = "sk-ant-oat01-of-a-test"


@pytest.mark.parametrize("content", ["two words", "one\nper line", "x" * (lifeline.MAX_TOKEN + 1)])
def test_what_is_not_a_token_is_refused_without_showing_it(tmp_path: Path, content: str) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    with pytest.raises(UsageError, match="it is not a token") as caught:
        take_token(file)
    assert content not in str(caught.value)
    assert not file.exists()


def test_a_folder_or_a_pipe_is_not_a_token_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(UsageError, match=r"is not a regular file|Is a directory"):
            take_token(path)


def test_a_file_that_cannot_be_removed_is_emptied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret of a container can be a mount of its own."""
    file = tmp_path / "token"
    file.write_text(TOKEN)

    def busy(path: Path) -> None:
        raise OSError(16, "Device or resource busy", str(path))

    monkeypatch.setattr(Path, "unlink", busy)
    assert take_token(file) == TOKEN
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
        take_token(file)


@pytest.mark.parametrize("content", ["not json", "[1, 2]", "{" * 100_000])
def test_what_is_not_a_key_file_is_refused_without_showing_it(tmp_path: Path, content: str) -> None:
    file = tmp_path / "identity"
    file.write_text(content)
    with pytest.raises(UsageError, match="is not a key file") as caught:
        take_identity(file)
    assert content not in str(caught.value)
    assert not file.exists()


def test_an_empty_file_is_none(tmp_path: Path) -> None:
    file = tmp_path / "identity"
    file.touch()
    assert take_identity(file) is None
    assert take_identity(tmp_path / "missing") is None


def test_a_file_that_does_not_come_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.touch()  # it was emptied, and has not been filled again
    with pytest.raises(UsageError, match=r"token did not come within 0\.05 seconds"):
        wait_for([file], (), patience=0.05)


def test_nothing_is_waited_for_that_is_there(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    assert wait_for([file], (), patience=0) is None


def test_a_stop_signal_ends_the_wait(tmp_path: Path) -> None:
    stop = (signal.SIGUSR1,)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, stop)
    try:
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)  # other threads of the tests would end
        assert wait_for([tmp_path / "token"], stop, patience=30) == signal.SIGUSR1
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
