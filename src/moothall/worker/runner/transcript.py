"""What the model's program printed, in a file, as it comes: a session that is killed leaves all that it said.

Each piece is written at once and without a buffer of our own. The file of the session before is kept: it is what
the next session is told. A session that said nothing, because it was killed at its beginning, does not replace it.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from moothall.daemon.folder import Folder
from moothall.worker import state_file
from moothall.worker.agent_folder import PREVIOUS_TRANSCRIPT, TRANSCRIPT
from moothall.worker.plain_file import open_plain
from moothall.worker.runner.events import readable

LINES: Final = 200  # of the session before, for the next one (seed 000, execution)
MAX_BYTES: Final = 16 * 1024 * 1024  # on disk; then the older part is thrown away
MAX_TAIL: Final = (
    48 * 1024
)  # bytes of the lines that the next session is told; a prompt is one argument of a program
CUT: Final = b"[what came before was cut off]\n"


class Transcript:
    """The file of the session that runs."""

    def __init__(self, folder: Folder, heading: str) -> None:
        self._heading = heading  # written with the first output, and not before
        self._path = folder.path / TRANSCRIPT
        self._folder = folder
        self._descriptor = self._open()
        self._size = os.fstat(self._descriptor).st_size

    def _open(self) -> int:
        return self._folder.open(TRANSCRIPT, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, piece: bytes) -> None:
        """Append this. Raises OSError."""
        if not self._size:
            piece = f"{self._heading}\n".encode() + piece
        self._size += len(piece)
        while piece:
            piece = piece[os.write(self._descriptor, piece) :]
        if self._size > MAX_BYTES:
            state_file.write(self._path, CUT + "".join(tail(self._path, LINES)).encode())
            os.close(self._descriptor)
            self._descriptor = self._open()
            self._size = os.fstat(self._descriptor).st_size

    def close(self) -> None:
        os.close(self._descriptor)


def set_aside(folder: Folder) -> None:
    """Make the last transcript the previous one, if it says anything, or is not a file at all. Raises OSError."""
    last = folder.path / TRANSCRIPT
    with suppress(FileNotFoundError):
        status = last.lstat()
        if status.st_size or not stat.S_ISREG(status.st_mode):
            last.replace(folder.path / PREVIOUS_TRANSCRIPT)


def previous(folder: Folder, lines: int = LINES) -> list[str]:
    """The last lines of the session before this one. Events that a command has printed are told as texts."""
    found = tail(folder.path / PREVIOUS_TRANSCRIPT, lines)
    return [f"{text}\n" for line in found for text in readable(line.removesuffix("\n"))]


def tail(path: Path, lines: int) -> list[str]:
    """The last lines of a file, of at most `MAX_TAIL` bytes together, with the one that was torn by a kill.

    A link or a pipe that an agent has put there says nothing: the next session must be able to begin.
    """
    try:
        descriptor = open_plain(path, os.O_RDONLY)
    except OSError:
        return []
    with os.fdopen(descriptor, "rb") as file:
        start = max(0, file.seek(0, os.SEEK_END) - MAX_TAIL)
        file.seek(start)
        content = file.read(MAX_TAIL)
    found = content.decode(errors="replace").splitlines(keepends=True)
    if start and len(found) > 1:
        del found[0]  # it begins in the middle
    return found[-lines:] if lines else []
