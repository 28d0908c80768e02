"""A file in the user's home that several programs read and change."""

import os
import stat
from pathlib import Path

import pytest

from moothall import user_file
from moothall.errors import UsageError
from moothall.user_file import UserFile

VARIABLE = "MADE_UP_PATH"


def at(path: Path) -> UserFile:
    return UserFile(Path("~/unused"), VARIABLE, "a list of birds", path)


def test_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(VARIABLE, raising=False)
    assert UserFile(Path("~/birds"), VARIABLE, "").path == tmp_path / "birds"
    monkeypatch.setenv(VARIABLE, str(tmp_path / "other"))
    assert UserFile(Path("~/birds"), VARIABLE, "").path == tmp_path / "other"


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = at(tmp_path / "folder" / "birds")
    assert file.read() is None
    with file.locked():
        file.write(b"wren")
    assert file.read() == b"wren"
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700


def test_what_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = at(tmp_path / "birds")
    os.mkfifo(file.path)
    with pytest.raises(UsageError, match="not a list of birds"):
        file.read()
    file.path.unlink()
    (tmp_path / "other").touch()
    file.path.symlink_to(tmp_path / "other")
    with pytest.raises(UsageError, match="symbolic links"):
        file.read()
    file.path.unlink()
    file.write(b"x" * 9)
    monkeypatch.setattr(user_file, "MAX_FILE", 8)
    with pytest.raises(UsageError, match="not a list of birds"):
        file.read()


def test_others_must_not_change_it(tmp_path: Path) -> None:
    file = at(tmp_path / "my birds")
    file.write(b"")
    file.path.chmod(0o620)
    with pytest.raises(UsageError, match=f"chmod 600 '{file.path}'"):
        file.read()
