"""The abort file: a command ends as soon as it exists. The kernel tells of it where it can, without a timer."""

import ctypes
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

# sys/inotify.h
_IN_MOVED_TO: Final = 0x80
_IN_CREATE: Final = 0x100
_IN_DELETE_SELF: Final = 0x400
_IN_MOVE_SELF: Final = 0x800
_IN_ONLYDIR: Final = 0x1000000
_INTEREST: Final = _IN_MOVED_TO | _IN_CREATE | _IN_DELETE_SELF | _IN_MOVE_SELF | _IN_ONLYDIR
_EVENTS: Final = 64 * 1024  # bytes of them to read at a time
_MOST_WORDS: Final = 1024  # bytes


class AbortFile:
    """`descriptor` is readable when something happened in its folder. None: look every `interval` seconds."""

    def __init__(self, path: Path, interval: float) -> None:
        self.path = path
        self.interval = interval
        self.descriptor = _watch(path.parent)
        self._folder = _identity(path.parent)

    def exists(self) -> bool:
        return os.path.lexists(self.path)

    def words(self) -> tuple[str, str]:
        """The first and the second line, without what steers a terminal. Empty if they cannot be read."""
        text = b""
        with suppress(OSError):
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                text = os.read(descriptor, _MOST_WORDS)
            finally:
                os.close(descriptor)
        first, second, *_ = [*text.decode(errors="replace").split("\n"), ""]
        return _printable(first), _printable(second)

    def drain(self) -> None:
        """Take the events. If the folder itself went away, the file is looked for from now on."""
        if self.descriptor is not None:
            os.read(self.descriptor, _EVENTS)
            if _identity(self.path.parent) != self._folder:
                self.close()

    def close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


def _printable(line: str) -> str:
    return "".join(letter for letter in line if letter.isprintable()).strip()


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        found = folder.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _watch(folder: Path) -> int | None:
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor: int = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
    if descriptor < 0:
        return None
    if libc.inotify_add_watch(descriptor, os.fsencode(folder), _INTEREST) < 0:
        os.close(descriptor)
        return None
    return descriptor
