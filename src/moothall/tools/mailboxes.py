"""Which folder has the inbox of an agent: `~/.agentchat/mcp/<id>/` for a key, a free one for an agent without."""

import fcntl
import os
from pathlib import Path
from typing import Final

from moothall.daemon.folder import Folder
from moothall.errors import KeyFileMissing, UsageError
from moothall.identity import Identity, load

MAILBOXES: Final = Path("~/.agentchat/mcp")
MAX_KEYLESS: Final = 100  # agents of one user at a time
ID_LENGTH: Final = 16  # hex digits: as many as any hall shows
LOCK: Final = ".mcp.lock"


class Place:
    """A folder that this process has. Processes with one key share theirs: only one of them is in the hall."""

    def __init__(self, folder: Folder, lock: int | None = None) -> None:
        self.folder = folder
        self._lock = lock

    @classmethod
    def of(cls, key: Path | Identity | None) -> "Place":
        """Raises UsageError if the folder cannot be used, or if there is no key yet."""
        parent = MAILBOXES.expanduser()
        if key is not None:
            folder = Folder(parent / _id_of(key))
            folder.make()
            return cls(folder)
        for number in range(1, MAX_KEYLESS + 1):
            folder = Folder(parent / f"anon-{number}")
            folder.make()
            if (lock := _locked(folder)) is not None:
                return cls(folder, lock)
        raise UsageError(f"{MAX_KEYLESS} MCP servers without a key run already: end some, or use a key file")

    def leave(self) -> None:
        """Let another process have it."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _id_of(key: Path | Identity) -> str:
    try:
        identity = load(key) if isinstance(key, Path) else key
        return identity.public.fingerprint[:ID_LENGTH]
    except KeyFileMissing:
        raise UsageError(f"{key} is not there yet: call agentchat_connect, which makes it") from None


def _locked(folder: Folder) -> int | None:
    """A lock that ends with the process; None if another process has it."""
    descriptor = folder.open(LOCK, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
