"""The folder of a daemon: `~/.agentchat/daemons/<instance>/`, for its owner alone.

Every file in it is opened here. A link in the place of a file is refused, and what is created has mode 0600.
"""

import fcntl
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from moothall.errors import UsageError

DAEMONS: Final = Path("~/.agentchat/daemons")
DEFAULT_INSTANCE: Final = "default"
MAX_INSTANCE: Final = 64  # characters

_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_-]")
_OWNER_ONLY: Final = 0o600
_OWNER_ONLY_FOLDER: Final = 0o700
_OTHERS_WRITE: Final = 0o022


def instance_name(text: str) -> str:
    """Remove what an instance name cannot have (agentchat wire 19.2). Raises UsageError if nothing is left."""
    name = _NOT_IN_NAMES.sub("", text)
    if not 0 < len(name) <= MAX_INSTANCE:
        raise UsageError(
            f"{text[:80]!r} cannot be the name of an instance: 1 to {MAX_INSTANCE} letters, digits, - or _"
        )
    return name


def all_daemons() -> Path:
    """The folder with one folder for each instance. Raises UsageError for a user without a home."""
    try:
        return DAEMONS.expanduser()
    except RuntimeError:
        raise UsageError(
            "this user has no home folder: set HOME to a folder for the daemon's files"
        ) from None


class Folder:
    """The files of one instance."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, instance: str = DEFAULT_INSTANCE) -> "Folder":
        """Return the folder of an instance, whether it exists or not. Raises UsageError for a bad name."""
        return cls(all_daemons() / instance_name(instance))

    def make(self) -> None:
        """Create the folder if it is not there. Raises UsageError if other users can change its files."""
        try:
            self.path.mkdir(mode=_OWNER_ONLY_FOLDER, parents=True, exist_ok=True)
            status = self.path.stat()
        except OSError as error:
            raise UsageError(f"{self.path}: {error.strerror}") from None
        if status.st_mode & _OTHERS_WRITE or status.st_uid != os.geteuid():
            remedy = f"chmod 700 {shlex.quote(str(self.path))}"
            raise UsageError(f"{self.path} can be changed by other users: {remedy}")

    def open(self, name: str, flags: int) -> int:
        """Return a descriptor of a file in the folder. A new file has mode 0600. Raises OSError."""
        return os.open(self.path / name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, _OWNER_ONLY)

    @contextmanager
    def locked(self, name: str) -> Iterator[None]:
        """Let one process at a time into the block. The lock ends with the process. Raises OSError."""
        descriptor = self.open(f".{name}.lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
