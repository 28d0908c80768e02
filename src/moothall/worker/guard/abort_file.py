"""The abort file: a command ends as soon as it exists. The kernel tells of it where it can, without a timer."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from moothall.daemon import inotify
from moothall.worker.plain_file import open_plain

_INTEREST: Final = (
    inotify.IN_MOVED_TO
    | inotify.IN_CREATE
    | inotify.IN_DELETE_SELF
    | inotify.IN_MOVE_SELF
    | inotify.IN_ONLYDIR
)
_MOST_WORDS: Final = 1024  # bytes


class AbortFile:
    """`descriptor` is readable when something happened in its folder. None: look every `interval` seconds."""

    def __init__(self, path: Path, interval: float) -> None:
        self.path = path
        self.interval = interval
        self.descriptor = inotify.watch(path.parent, _INTEREST)
        self._folder = inotify.identity(path.parent)

    def exists(self) -> bool:
        return os.path.lexists(self.path)

    def words(self) -> tuple[str, str]:
        """The first and the second line, without what steers a terminal. Empty if they cannot be read."""
        text = b""
        with suppress(OSError):
            descriptor = open_plain(self.path, os.O_RDONLY)
            try:
                text = os.read(descriptor, _MOST_WORDS)
            finally:
                os.close(descriptor)
        first, second, *_ = [*text.decode(errors="replace").split("\n"), ""]
        return _printable(first), _printable(second)

    def drain(self) -> None:
        """Take the events. If the folder itself went away, the file is looked for from now on."""
        if self.descriptor is not None:
            inotify.drain(self.descriptor)
            if inotify.identity(self.path.parent) != self._folder:
                self.close()

    def close(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


def _printable(line: str) -> str:
    return "".join(letter for letter in line if letter.isprintable()).strip()
