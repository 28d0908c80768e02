"""The abort file: the kernel tells when it appears."""

import os
import select
from pathlib import Path

import pytest

from moothall.worker.guard.abort_file import AbortFile


def is_told(file: AbortFile) -> bool:
    assert file.descriptor is not None
    return bool(select.select([file.descriptor], [], [], 0)[0])


def test_the_kernel_tells_of_a_new_file(tmp_path: Path) -> None:
    file = AbortFile(tmp_path / "abort", 1)
    assert not file.exists()
    assert not is_told(file)
    (tmp_path / "abort").touch()
    assert is_told(file)
    file.drain()
    assert file.exists()
    assert not is_told(file)
    file.close()


def test_a_file_that_is_moved_there_counts(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").touch()
    (tmp_path / "folder").mkdir()
    file = AbortFile(tmp_path / "folder" / "abort", 1)
    (tmp_path / "elsewhere").rename(tmp_path / "folder" / "abort")
    assert is_told(file)
    file.close()


def test_a_link_counts_wherever_it_leads(tmp_path: Path) -> None:
    file = AbortFile(tmp_path / "abort", 1)
    (tmp_path / "abort").symlink_to("nowhere")
    assert file.exists()
    file.close()


def test_without_its_folder_it_is_looked_for(tmp_path: Path) -> None:
    file = AbortFile(tmp_path / "later" / "abort", 1)
    assert file.descriptor is None
    file.drain()
    assert not file.exists()


def test_a_folder_that_is_replaced_is_not_watched_any_more(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    file = AbortFile(folder / "abort", 1)
    folder.rename(tmp_path / "old")
    folder.mkdir()
    assert is_told(file)
    file.drain()
    assert file.descriptor is None
    (folder / "abort").touch()
    assert file.exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ("", "")),
        (b"budget", ("budget", "")),
        (b" budget \r\n why\nand more", ("budget", "why")),
        (b"\xff\0\n" + b"x" * 5000, ("\ufffd", "x" * 1021)),
    ],
)
def test_its_words_are_read_within_bounds(tmp_path: Path, content: bytes, words: tuple[str, str]) -> None:
    file = AbortFile(tmp_path / "abort", 1)
    (tmp_path / "abort").write_bytes(content)
    assert file.words() == words
    file.close()


def test_what_is_not_a_file_has_no_words(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "abort")
    (tmp_path / "secret").write_text("budget")
    (tmp_path / "link").symlink_to("secret")
    for name in ("abort", "link", "missing", "."):
        file = AbortFile(tmp_path / name, 1)
        assert file.words() == ("", "")
        file.close()
