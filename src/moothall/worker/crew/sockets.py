"""Unix sockets in folders with long names. A path has 107 bytes at most, so a descriptor stands for the folder."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

BACKLOG: Final = 100
_OWNER_ONLY: Final = 0o600


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """A short path of the same socket, while the block runs."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def listen(path: Path) -> socket.socket:
    """A listening socket for this user alone. It replaces one that a killed process left. Raises OSError."""
    path.unlink(missing_ok=True)
    made = socket.socket(socket.AF_UNIX)
    try:
        with _short(path) as short:
            os.fchmod(made.fileno(), _OWNER_ONLY)  # before it is bound: Linux gives the file this mode
            made.bind(short)
        made.listen(BACKLOG)
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made


def connect(path: Path) -> socket.socket:
    """A connection, blocking. Raises OSError."""
    made = socket.socket(socket.AF_UNIX)
    try:
        with _short(path) as short:
            made.connect(short)
    except BaseException:
        made.close()
        raise
    return made
