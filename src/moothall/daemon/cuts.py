"""A file of lines that loses its oldest ones: how much was cut off, told apart from the file itself.

A cut replaces the file. `.inbox.cuts.json` names the old and the new file by inode, so it is right before the
file is replaced and afterwards: a writer that is killed between the two steps leaves nothing to repair. An
inode may be used again, so the beginning of the file is compared too.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

from moothall.daemon.cursor import digest
from moothall.daemon.folder import Folder

CUTS: Final = ".inbox.cuts.json"
_NEXT: Final = ".inbox.next"
_NEXT_CUTS: Final = ".inbox.cuts.next"
_HEAD: Final = 4096  # bytes that tell a file from another one with the same inode
_BLOCK: Final = 1024 * 1024
_MAX_CUTS: Final = 4096  # bytes
_TRIES: Final = 100  # a writer that replaces the file as often while it is opened does not exist


class Cut(NamedTuple):
    """How much was cut off before the first line of a file."""

    line: int = 0
    offset: int = 0
    is_known: bool = False  # False if no cut of ours made this file


UNKNOWN: Final = Cut()


class Cuts:
    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    @contextmanager
    def opened(self, name: str) -> Iterator[tuple[int | None, Cut]]:
        """The file, and what was cut off before it. None if there is no file. Raises OSError."""
        descriptor: int | None = None
        cut = UNKNOWN
        for _ in range(_TRIES):
            try:
                descriptor = self._folder.open(name, os.O_RDONLY)
            except FileNotFoundError:
                break
            cut = self._before(descriptor)
            if cut.is_known or self._is_in_place(name, descriptor):
                break
            os.close(descriptor)  # replaced twice since it was opened
            descriptor = None
        try:
            yield descriptor, cut
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def replace(self, name: str, descriptor: int, position: int, dropped: int) -> None:
        """Cut off the `dropped` lines before `position`. The caller has the lock. Raises OSError."""
        old = self._before(descriptor)
        new = Cut(old.line + dropped, old.offset + position, True)
        copy = self._folder.open(_NEXT, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            while block := os.pread(descriptor, _BLOCK, position):
                position += len(block)
                while block:
                    block = block[os.write(copy, block) :]
            self._tell([_entry(descriptor, old), _entry(copy, new)])
        finally:
            os.close(copy)
        (self._folder.path / _NEXT).replace(self._folder.path / name)

    def _tell(self, entries: list[dict[str, Any]]) -> None:
        told = self._folder.open(_NEXT_CUTS, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with os.fdopen(told, "w", encoding="ascii") as file:
            json.dump(entries, file)
        (self._folder.path / _NEXT_CUTS).replace(self._folder.path / CUTS)

    def _before(self, descriptor: int) -> Cut:
        """What was noted for this file. A note that is missing or damaged is as good as none."""
        with suppress(FileNotFoundError, ValueError, TypeError, LookupError, RecursionError):
            told = self._folder.open(CUTS, os.O_RDONLY)
            with os.fdopen(told, "rb") as file:
                entries = json.loads(file.read(_MAX_CUTS))
            inode = os.fstat(descriptor).st_ino
            for entry in entries:
                if (
                    entry["inode"] == inode
                    and digest(os.pread(descriptor, entry["head"], 0)) == entry["digest"]
                ):
                    return Cut(int(entry["line"]), int(entry["offset"]), True)
        return UNKNOWN

    def _is_in_place(self, name: str, descriptor: int) -> bool:
        try:
            return (self._folder.path / name).stat().st_ino == os.fstat(descriptor).st_ino
        except FileNotFoundError:
            return True


def _entry(descriptor: int, cut: Cut) -> dict[str, Any]:
    head = os.pread(descriptor, _HEAD, 0)
    return {
        "inode": os.fstat(descriptor).st_ino,
        "head": len(head),
        "digest": digest(head),
        "line": cut.line,
        "offset": cut.offset,
    }
