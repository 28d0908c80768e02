"""New bindings of ids to keys, one line each, until the store has them (see `hall.newids`).

A line is in the hands of the operating system when `write` returns, so it survives the end of this process. What is
left is brought into the store at the next start.
"""

import errno
import os
from typing import Final

from moothall.errors import UsageError
from moothall.hall.newids import Entries
from moothall.store.files import DataDirectory, replace

JOURNAL_FILE: Final = "new-keys.txt"
TIDY_BYTES: Final = 1024 * 1024  # a journal that has grown to this is written anew, with what is still needed


class KeyJournal:
    def __init__(self, directory: DataDirectory) -> None:
        self._directory = directory
        self._file = self._open()
        self._size = 0

    def write(self, agent_id: str, key: bytes) -> None:
        line = _line(agent_id, key)
        if os.write(self._file, line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size += len(line)

    def keep_only(self, entries: Entries) -> None:
        needed = b"".join(_line(agent_id, key) for agent_id, key in entries)
        if not needed:
            os.ftruncate(self._file, 0)
        elif self._size < TIDY_BYTES:
            return
        else:
            replace(self._directory.path / JOURNAL_FILE, (needed,))
            os.close(self._file)
            self._file = self._open()
        self._size = len(needed)

    def close(self) -> None:
        os.close(self._file)

    def _open(self) -> int:
        path = self._directory.path / JOURNAL_FILE
        try:
            return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from None


def _line(agent_id: str, key: bytes) -> bytes:
    """Each begins with its line break, so that half a line, after which the disk was full, spoils no other."""
    return f"\n{agent_id} {key.hex()}".encode()
