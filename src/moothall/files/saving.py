"""An archive becomes files in a folder, and nowhere else.

Files are written to a temporary folder inside of the target, under numbers, and moved when all are there. Every
folder on the way is opened by the descriptor of the one above and without following links, so that a link cannot
lead out of the target, not even one that is put there meanwhile. A file that exists is never replaced: the new
one gets a number.
"""

import fcntl
import os
import re
import secrets
import stat
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from moothall.files import paths
from moothall.files.control import MAX_FILES, MAX_SHOWN_NAME
from moothall.files.reader import Closed, Opened, read

MAX_FOLDERS: Final = 10_000  # made for one archive
MAX_REPORTED: Final = 1000  # entries that were skipped; more are counted
MAX_NUMBER: Final = 1000  # of files with the same name

LEFT_BEHIND: Final = 3600.0  # seconds; a temporary folder that is older and not locked belongs to no program

_RANDOM: Final = 8  # bytes in the name of a temporary folder
_is_temporary: Final = re.compile(re.escape(paths.TEMPORARY) + f"[0-9a-f]{{{2 * _RANDOM}}}").fullmatch
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class SavedFile:
    """A file that was received. `path` differs from `name` if another file had its name."""

    name: str
    path: Path
    size: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """A part of an archive that did not become a file, and why."""

    name: str
    reason: str


@dataclass(slots=True)
class Unpacked:
    """What became of an archive."""

    files: list[SavedFile] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    more_skipped: int = 0

    def skip(self, name: str, reason: str) -> None:
        if len(self.skipped) < MAX_REPORTED:
            self.skipped.append(Skipped(name[:MAX_SHOWN_NAME], reason))
        else:
            self.more_skipped += 1


@dataclass(slots=True)
class _Written:
    """A file in the temporary folder."""

    path: str
    number: str
    size: int = 0


def unpack(archive: Iterable[bytes], folder: Path, executable: Collection[str] = ()) -> Unpacked:
    """Unpack into `folder`, which must exist. Files are executable only if `executable` names them.

    Raises OSError when the folder cannot be written to, or the disk is full.
    """
    result = Unpacked()
    target = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with _temporary_folder(target) as temporary:
            written = _write_all(archive, temporary, executable, result)
            mover = _Mover(folder, target, temporary)
            for each in written:
                try:
                    result.files.append(mover.move(each))
                except _Unusable as reason:
                    result.skip(each.path, str(reason))
                except OSError as error:
                    result.skip(each.path, os.strerror(error.errno or 0).lower())
    finally:
        os.close(target)
    return result


class _Unusable(Exception):
    """An entry cannot become a file."""


@contextmanager
def _temporary_folder(target: int) -> Iterator[int]:
    _sweep(target)
    name = paths.TEMPORARY + secrets.token_hex(_RANDOM)
    os.mkdir(name, 0o700, dir_fd=target)
    try:
        opened = os.open(name, _FOLDER, dir_fd=target)
        try:
            with suppress(OSError):  # some network file systems have no locks
                fcntl.flock(opened, fcntl.LOCK_SH)
            yield opened
        finally:
            for left in os.listdir(opened):  # noqa: PTH208  # a descriptor has no path
                os.unlink(left, dir_fd=opened)
            os.close(opened)
    finally:
        os.rmdir(name, dir_fd=target)


def _sweep(target: int) -> None:
    """Remove the temporary folders of programs that were killed, with what they had unpacked so far.

    A program holds a lock on its folder for as long as it lives. The age is for the moment before it has the lock.
    """
    for name in filter(_is_temporary, os.listdir(target)):  # a descriptor has no path
        with suppress(OSError):  # it is in use, or not ours: then it stays
            if time.time() - os.stat(name, dir_fd=target, follow_symlinks=False).st_mtime < LEFT_BEHIND:
                continue
            opened = os.open(name, _FOLDER, dir_fd=target)
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for left in filter(str.isdecimal, os.listdir(opened)):  # noqa: PTH208
                    os.unlink(left, dir_fd=opened)
            finally:
                os.close(opened)
            os.rmdir(name, dir_fd=target)


def _write_all(
    archive: Iterable[bytes], temporary: int, executable: Collection[str], result: Unpacked
) -> list[_Written]:
    names = paths.Names()
    written: list[_Written] = []
    current: _Written | None = None
    output = -1
    try:
        for event in read(archive):
            if isinstance(event, Opened):
                current = None
                reason = paths.fault(event.path) or names.clash(event.path)
                if reason is None and len(written) >= MAX_FILES:
                    reason = f"an archive has at most {MAX_FILES:,} files"
                if reason is not None:
                    result.skip(event.path, reason)
                    continue
                current = _Written(event.path, str(len(written)))
                mode = 0o777 if event.path in executable else 0o666
                output = os.open(current.number, _NEW, mode, dir_fd=temporary)
            elif current is None:
                continue
            elif isinstance(event, Closed):
                os.close(output)
                output = -1
                if event.fault is None:
                    written.append(current)
                else:
                    result.skip(current.path, event.fault)
                    os.unlink(current.number, dir_fd=temporary)
            else:
                current.size += len(event)
                _write(output, event)
    finally:
        if output >= 0:
            os.close(output)
    return written


def _write(output: int, block: bytes) -> None:
    while block:
        block = block[os.write(output, block) :]


class _Mover:
    def __init__(self, folder: Path, target: int, temporary: int) -> None:
        self._folder = folder
        self._target = target
        self._temporary = temporary
        self._made = 0

    def move(self, written: _Written) -> SavedFile:
        """Raises _Unusable or OSError."""
        path = PurePosixPath(written.path)
        place = os.dup(self._target)
        try:
            for part in path.parts[:-1]:
                place = self._enter(place, part)
            name = _reserve(place, path.name)
            os.rename(written.number, name, src_dir_fd=self._temporary, dst_dir_fd=place)
        finally:
            os.close(place)
        return SavedFile(written.path, self._folder.joinpath(path.parent, name), written.size)

    def _enter(self, place: int, part: str) -> int:
        """Open the folder `part` in `place`, and close `place`."""
        if self._made >= MAX_FOLDERS:
            raise _Unusable(f"an archive makes at most {MAX_FOLDERS:,} folders")
        with suppress(FileExistsError):
            os.mkdir(part, dir_fd=place)
            self._made += 1
        try:
            inner = os.open(part, _FOLDER, dir_fd=place)
        except OSError:
            if _is_link(part, place):
                raise _Unusable(f"{part!r} in the folder is a symbolic link") from None
            raise
        os.close(place)
        return inner


def _reserve(place: int, name: str) -> str:
    """An empty file of this name, or of the next that is free."""
    if _is_link(name, place):
        raise _Unusable("there is a symbolic link of this name")
    stem, suffix = PurePosixPath(name).stem, PurePosixPath(name).suffix
    for number in range(1, MAX_NUMBER + 1):
        free = name if number == 1 else f"{stem} ({number}){suffix}"
        with suppress(FileExistsError):
            os.close(os.open(free, _NEW, 0o600, dir_fd=place))
            return free
    raise _Unusable(f"there are {MAX_NUMBER:,} files of this name")


def _is_link(name: str, place: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode)
    except OSError:
        return False
