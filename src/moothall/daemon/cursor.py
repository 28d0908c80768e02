"""How far a program has read in an inbox, and where it keeps that.

A cursor counts lines and bytes since the inbox began, not since the file began: lines that are cut off at the
top of the file do not move it. It also names the last line that was read, by its length and a digest. So a
file that another program has written anew is noticed, and the place is found again if it is still there.
"""

from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple, Self

from moothall.identity.keyfile import put_file

_DIGEST_BYTES: Final = 8
_MAX_TEXT: Final = 200  # characters


def digest(line: bytes) -> str:
    return blake2b(line, digest_size=_DIGEST_BYTES).hexdigest()


class Cursor(NamedTuple):
    """A place between two lines of an inbox."""

    line: int  # lines before it, since the inbox began
    offset: int  # bytes before it, since the inbox began
    length: int  # bytes of the line before it
    digest: str  # of the line before it

    def __str__(self) -> str:
        return f"{self.line}:{self.offset}:{self.length}:{self.digest}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The opposite of `str(cursor)`. Raises ValueError."""
        parts = text.strip()[:_MAX_TEXT].split(":")
        if len(parts) != len(cls._fields):
            raise ValueError("a cursor has three numbers and a digest")
        line, offset, length = map(int, parts[:3])
        if not 0 <= line <= offset or not 0 <= length <= offset:
            raise ValueError("these numbers are no place in an inbox")
        return cls(line, offset, length, parts[3])

    def after(self, line: bytes) -> "Cursor":
        """The place after this line, if it is the next one."""
        return Cursor(self.line + 1, self.offset + len(line), len(line), digest(line))


START: Final = Cursor(0, 0, 0, "")


class CursorFile:
    """A cursor on disk, beside the inbox. It is replaced in one step."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Cursor | None:
        """Return None if there is no file, or if it is damaged."""
        with suppress(OSError, ValueError), self.path.open(encoding="ascii") as file:
            return Cursor.parse(file.read(_MAX_TEXT))
        return None

    def write(self, cursor: Cursor) -> None:
        """Raises OSError."""
        put_file(f"{cursor}\n".encode(), self.path, overwrite=True)
