"""How far an outbox has been read: kept on disk before and after each message that is sent.

`sending` is the line that is on its way. A daemon that is killed finds it there at its next start, and cannot
know whether the hall got it. So it does not send it again, and tells that it is in doubt.

The file is emptied in place, because a program may have it open. In the moment between the emptying and the
note that it is empty, a kill must not make new lines look like read ones. So the first byte of what was read
is overwritten with NUL, which begins no line, then `emptying` is noted, then the file is emptied. While
`emptying` is noted, a first byte other than NUL means that the file has been emptied.
"""

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import msgspec

from moothall.identity.keyfile import put_file

NUL: Final = b"\0"

Count = Annotated[int, msgspec.Meta(ge=0)]


class Progress(msgspec.Struct, frozen=True):
    inode: Count = 0
    offset: Count = 0  # bytes that were read
    length: Count = 0  # bytes of the last line that was read
    digest: str = ""  # of that line
    serial: Count = 0  # of the last line that was consumed or is on its way
    sending: str | None = None
    sending_length: Count = 0  # bytes
    emptying: bool = False


class Seen(NamedTuple):
    """What the file looks like."""

    inode: int
    size: int
    first: bytes  # its first byte
    has_last_line: bool  # True unless the last line that was read is not where it was


def adjust(progress: Progress, seen: Seen) -> Progress:
    """Return where to read on: a file that another program replaced or emptied begins anew."""
    is_same = progress.inode == seen.inode and progress.offset <= seen.size
    if is_same and progress.offset and seen.first == NUL:
        return progress
    if is_same and not progress.emptying and (progress.offset == 0 or seen.has_last_line):
        return progress
    return Progress(
        seen.inode, serial=progress.serial, sending=progress.sending, sending_length=progress.sending_length
    )


class ProgressFile:
    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Progress:
        """Return a new one if there is no file, or if it is damaged."""
        with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return msgspec.json.decode(self._path.read_bytes(), type=Progress)
        return Progress()

    def write(self, progress: Progress) -> None:
        """Whole or not at all, and on disk before this returns. Raises OSError."""
        put_file(msgspec.json.encode(progress), self._path, overwrite=True)
