"""The last lines of a file that an agent writes, and what is added to it. The agent may replace or cut the file."""

import os
from pathlib import Path
from typing import Final

from moothall.worker.plain_file import open_plain

BLOCK: Final = 256 * 1024  # bytes that are read at a time
MAX_TAIL: Final = 4 * 1024 * 1024  # bytes from the end in which the last lines are looked for


class Tail:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._inode = 0
        self._offset = 0
        self._rest = b""

    def last(self, count: int) -> list[str]:
        """The last whole lines, at most `count`. `more` goes on after them. Raises OSError."""
        descriptor, size = self._open()
        if descriptor is None:
            return []
        try:
            begin = max(0, size - MAX_TAIL)
            content = os.pread(descriptor, size - begin, begin)
        finally:
            os.close(descriptor)
        *lines, self._rest = content.split(b"\n")
        self._offset = begin + len(content)
        return [_text(line) for line in lines[len(lines) - min(count, len(lines)) :]]

    def more(self) -> list[str]:
        """The whole lines that were added. Raises OSError."""
        before = self._inode
        descriptor, size = self._open()
        if descriptor is None:
            return []
        try:
            if (
                self._inode != before or size < self._offset
            ):  # another file, or a shorter one: from its beginning
                self._offset, self._rest = 0, b""
            content = os.pread(descriptor, BLOCK, self._offset)
        finally:
            os.close(descriptor)
        self._offset += len(content)
        *lines, self._rest = (self._rest + content).split(b"\n")
        if len(self._rest) > BLOCK:
            lines.append(self._rest)
            self._rest = b""
        return [_text(line) for line in lines]

    def _open(self) -> tuple[int | None, int]:
        """A descriptor and the size. None if there is no such file, or if it is a link or a pipe."""
        try:
            descriptor = open_plain(self.path, os.O_RDONLY)
        except OSError:
            return None, 0
        status = os.fstat(descriptor)
        self._inode = status.st_ino
        return descriptor, status.st_size


def _text(line: bytes) -> str:
    return line.decode(errors="replace")
