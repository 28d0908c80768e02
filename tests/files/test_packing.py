"""Packing: files and folders, without links, and within the limits of a transfer."""

import hashlib
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from moothall.errors import UsageError
from moothall.files import control, packing, slurp
from moothall.files.packing import Packed, pack
from moothall.files.saving import unpack
from moothall.files.spool import Spool
from tests.files.trees import CREATED, read_all


def whole(packed: Packed) -> bytes:
    text = "".join(packed.chunk("x", idx).data for idx in range(packed.chunks))
    return text.encode()


def test_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "folder" / "sub").mkdir(parents=True)
    (tmp_path / "folder" / "sub" / "b.txt").write_text("b\n")
    (tmp_path / "folder" / "a.bin").write_bytes(b"\0" * 500_000)
    (tmp_path / "single").write_bytes(b"")
    with pack([tmp_path / "single", str(tmp_path / "folder")], CREATED) as packed:
        assert [(file.name, file.size) for file in packed.files] == [
            ("single", 0),
            ("folder/a.bin", 500_000),
            ("folder/sub/b.txt", 2),
        ]
        found = whole(packed)
        assert hashlib.sha256(found).hexdigest() == packed.sha256
        assert read_all(found) == [
            ("single", b"", None),
            ("folder/a.bin", b"\0" * 500_000, None),
            ("folder/sub/b.txt", b"b\n", None),
        ]
        offer = packed.offer("tid", "alice")
        assert (offer.total_size, offer.chunks, offer.resume) == (500_002, packed.chunks, True)
        assert packed.chunks == 3


def test_links_in_folders_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a").write_text("a\n")
    (tmp_path / "secret").write_text("secret\n")
    (tmp_path / "folder" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "folder" / "up").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "folder" / "pipe")
    with pack([tmp_path / "folder"], CREATED) as packed:
        assert [file.name for file in packed.files] == ["folder/a"]
        assert {Path(each).name for each in packed.skipped} == {"link", "up", "pipe"}
    (tmp_path / "named").symlink_to(tmp_path / "secret")
    with pack([tmp_path / "named"], CREATED) as packed:  # the user asked for this one
        assert [(file.name, file.size) for file in packed.files] == [("named", 7)]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda folder: [], "no files"),
        (lambda folder: [_file(folder / "a"), _file(folder / "b" / "a")], "occurs twice"),
        (lambda folder: [_file(folder / "con")], "device"),
        (lambda folder: [_file(folder / "a\nb")], "control"),
        (lambda folder: [_file(folder / os.fsdecode(b"a\xff"))], "not Unicode"),
        (lambda folder: [_pipe(folder / "pipe")], "not a file"),
    ],
)
def test_what_cannot_be_sent(tmp_path: Path, make: Callable[[Path], list[Path]], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        pack(make(tmp_path), CREATED)


def _file(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("x\n")
    return path


def _pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def test_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "MAX_SIZE", 10)
    large = [tmp_path / name for name in "ab"]
    for path in large:
        path.write_bytes(b"x" * 6)
    pack(large[:1], CREATED).close()
    with pytest.raises(UsageError, match="send fewer"):
        pack(large, CREATED)
    monkeypatch.setattr(packing, "MAX_FILES", 1)
    with pytest.raises(UsageError, match="at most 1 files"):
        pack(large, CREATED)


def test_a_file_that_changes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _file(tmp_path / "a")
    real = slurp.header

    def header(*arguments: object) -> str:
        path.write_text("=== END a ===\n")
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(slurp, "header", header)
    with pytest.raises(UsageError, match="changed while it was packed"):
        pack([path], CREATED)


def test_fifty_megabytes_are_sent_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At five chunks a second, the largest transfer of the dearest text takes less than 120 seconds."""
    part = 1024 * 1024
    for name, content in (("noise", os.urandom(part)), ("quotes", b'"' * (part - 1) + b"\n")):
        (tmp_path / name).write_bytes(content)
        with pack([tmp_path / name], CREATED) as packed:
            assert packed.chunks * control.MAX_SIZE / part / 5 < 100


def test_memory_is_bounded_however_large_the_file_is(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(os.urandom(16 * 1024 * 1024))
    target = tmp_path / "target"
    target.mkdir()
    tracemalloc.start()
    try:
        with pack([source], CREATED) as packed, Spool(target, packed.offer("x", "")) as spool:
            for idx in range(packed.chunks):
                spool.put(idx, packed.chunk("x", idx).data)
            assert spool.sha256() == packed.sha256
            unpack(spool.read(), target)
        assert tracemalloc.get_traced_memory()[1] < 4 * 1024 * 1024
    finally:
        tracemalloc.stop()
    assert (target / "source").read_bytes() == source.read_bytes()
