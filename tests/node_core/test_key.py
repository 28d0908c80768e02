"""The key file of a node."""

import os
from pathlib import Path

import pytest

from moothall.errors import KeyFileError
from moothall.identity import PrivateKey
from moothall.node.key import load_or_create


def test_a_key_is_made_once(tmp_path: Path) -> None:
    path = tmp_path / "new" / "zerox1-identity.key"
    seed = load_or_create(path)
    assert path.read_bytes() == seed
    assert len(seed) == 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_or_create(path) == seed


def test_a_file_of_64_bytes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "key"
    seed = bytes(range(32))
    path.write_bytes(seed + PrivateKey(seed).public.raw)
    path.chmod(0o600)
    assert load_or_create(path) == seed
    path.write_bytes(seed + seed)
    with pytest.raises(KeyFileError, match="second half"):
        load_or_create(path)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "key"
    path.write_bytes(bytes(32))
    path.chmod(mode)
    with pytest.raises(KeyFileError, match="chmod 600"):
        load_or_create(path)


def test_what_is_not_a_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name in ("text", "pipe", "dangling"):
        with pytest.raises(KeyFileError):
            load_or_create(tmp_path / name)
