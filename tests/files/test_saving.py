"""Unpacking: only under the folder, whatever names and links there are, and nothing is replaced."""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.hostile_archives import Surroundings, unpack_hostile
from hypothesis import HealthCheck, given, settings

from moothall.files import saving
from moothall.files.saving import unpack
from tests.files.trees import archive, trees


def text_archive(*names: str) -> list[bytes]:
    return [
        b"# --- SLURP v4 ---\n",
        *(f"\n=== {name} ===\n{name}\n=== END {name} ===\n".encode() for name in names),
    ]


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(trees)
def test_a_tree_arrives_as_it_was(tmp_path: Path, tree: dict[str, bytes]) -> None:
    folder = tmp_path / os.urandom(8).hex()
    folder.mkdir()
    found = unpack([archive(tree)], folder)
    assert found.skipped == []
    assert contents(folder) == tree
    assert {file.name: file.size for file in found.files} == {name: len(tree[name]) for name in tree}


def test_hostile_archives_do_no_harm(tmp_path: Path) -> None:
    """Some of those that benchmarks/hostile_archives.py makes by the million."""
    place = Surroundings.made(tmp_path)
    for number in range(2000):
        unpack_hostile(number, 0, place)


def test_bad_entries_are_skipped_and_reported(tmp_path: Path) -> None:
    names = (
        "../up",
        "/absolute",
        "C:x",
        "nul",
        "\u202ex",
        "x" * 10_000,
        ".moothall-x",
        "good",
        "Good",
        "good/x",
    )
    found = unpack(text_archive(*names), tmp_path)
    assert [file.name for file in found.files] == ["good"]
    assert [each.name for each in found.skipped] == [name[:1024] for name in names if name != "good"]
    assert all(each.reason for each in found.skipped)
    assert contents(tmp_path) == {"good": b"good\n"}


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    outside.mkdir()
    folder.mkdir()
    (outside / "file").write_text("untouched")
    (folder / "link").symlink_to(outside)
    (folder / "filelink").symlink_to(outside / "file")
    (folder / "dangling").symlink_to(outside / "new")
    found = unpack(text_archive("link/x", "filelink", "dangling", "sub/x"), folder)
    assert [file.name for file in found.files] == ["sub/x"]
    assert [each.reason for each in found.skipped] == [
        "'link' in the folder is a symbolic link",
        "there is a symbolic link of this name",
        "there is a symbolic link of this name",
    ]
    assert contents(outside) == {"file": b"untouched"}


def test_a_link_that_appears_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process puts a link in place of a folder, right after it was made."""
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    outside.mkdir()
    folder.mkdir()
    real = os.mkdir

    def mkdir(path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        real(path, mode, dir_fd=dir_fd)
        if path == "sub":
            os.rmdir(path, dir_fd=dir_fd)
            os.symlink(outside, path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", mkdir)
    found = unpack(text_archive("sub/x"), folder)
    assert found.files == []
    assert len(found.skipped) == 1
    assert contents(outside) == {}


def test_a_file_that_exists_is_kept(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    (tmp_path / "a (2).txt").write_text("old too")
    (tmp_path / "b").mkdir()
    found = unpack(text_archive("a.txt", "b"), tmp_path)
    assert {file.name: file.path for file in found.files} == {
        "a.txt": tmp_path / "a (3).txt",
        "b": tmp_path / "b (2)",
    }
    assert contents(tmp_path) == {
        "a (2).txt": b"old too",
        "a (3).txt": b"a.txt\n",
        "a.txt": b"old",
        "b (2)": b"b\n",
    }


def test_a_file_in_the_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("file")
    found = unpack(text_archive("a/b", "c"), tmp_path)
    assert [file.name for file in found.files] == ["c"]
    assert found.skipped[0].reason == os.strerror(errno.ENOTDIR).lower()


def test_no_file_is_executable_unless_asked(tmp_path: Path) -> None:
    unpack(text_archive("run.sh", "other.sh"), tmp_path, {"run.sh"})
    assert (tmp_path / "run.sh").stat().st_mode & stat.S_IXUSR
    assert not (tmp_path / "other.sh").stat().st_mode & 0o111


def test_numbers_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "MAX_FILES", 3)
    monkeypatch.setattr(saving, "MAX_REPORTED", 2)
    found = unpack(text_archive(*"abcdefgh"), tmp_path)
    assert len(found.files) == 3
    assert (len(found.skipped), found.more_skipped) == (2, 3)


def test_folders_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "MAX_FOLDERS", 3)
    found = unpack(text_archive("a/b/x", "c/x", "d/x", "y"), tmp_path)
    assert [file.name for file in found.files] == ["a/b/x", "c/x", "y"]


def test_files_of_the_same_name_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "MAX_NUMBER", 2)
    (tmp_path / "a").write_text("1")
    (tmp_path / "a (2)").write_text("2")
    assert unpack(text_archive("a"), tmp_path).skipped[0].reason == "there are 2 files of this name"


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(descriptor: int, block: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(OSError, match="No space"):
        unpack(text_archive("a"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def left_behind(folder: Path, number: int, *files: str, age: float = 2 * saving.LEFT_BEHIND) -> Path:
    """A temporary folder of a program that was killed so long ago."""
    temporary = folder / f".moothall-{number:016x}"
    temporary.mkdir()
    for name in files:
        (temporary / name).write_text("half")
    then = time.time() - age
    os.utime(temporary, (then, then))
    return temporary


def test_what_a_killed_program_left_is_removed(tmp_path: Path) -> None:
    killed = left_behind(tmp_path, 1, "0", "17")
    unpack([b""], tmp_path)
    assert not killed.exists()


def test_other_folders_are_left_alone(tmp_path: Path) -> None:
    young = left_behind(tmp_path, 1, "0", age=saving.LEFT_BEHIND / 2)
    foreign = left_behind(tmp_path, 2, "mine.txt")
    used = left_behind(tmp_path, 3, "0")
    (tmp_path / ".moothall-notes").mkdir()
    (tmp_path / f".moothall-{4:016x}").symlink_to(young)
    lock = os.open(used, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_SH)
    before = sorted(map(str, tmp_path.rglob("*")))
    unpack([b""], tmp_path)
    os.close(lock)
    assert sorted(map(str, tmp_path.rglob("*"))) == before
    assert (foreign / "mine.txt").exists()


def test_a_folder_is_locked_while_it_is_used(tmp_path: Path) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"=== a ===\n"
        [temporary] = tmp_path.glob(".moothall-*")
        os.utime(temporary, (0, 0))
        unpack([b"=== b ===\n2\n=== END b ===\n"], tmp_path)
        yield b"1\n=== END a ===\n"

    unpack(pieces(), tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_a_file_without_an_end_is_not_saved(tmp_path: Path) -> None:
    found = unpack([b"=== a ===\nhello\n"], tmp_path)
    assert (found.files, found.skipped[0].reason) == ([], "the archive ends in the middle of it")
    assert list(tmp_path.iterdir()) == []
