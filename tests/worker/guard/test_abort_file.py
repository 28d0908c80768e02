"""The abort file: the kernel tells when it appears."""

import select
from pathlib import Path

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
