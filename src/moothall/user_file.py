"""A small file in the user's home that several programs read and change: known halls, contexts.

It belongs to its owner alone, is replaced in one step, and is changed by one process at a time.
"""

import fcntl
import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from moothall.errors import UsageError
from moothall.identity.keyfile import put_file

MAX_FILE: Final = 4 * 1024 * 1024

_NOWHERE: Final = Path("/proc/no-home")  # nothing is read there, and nothing can be written
_OWNER_ONLY: Final = 0o600
_OWNER_ONLY_DIRECTORY: Final = 0o700
_OTHERS_WRITE: Final = 0o022


class UserFile:
    """`variable` names another path than `default`; `what` is what the file is, for errors."""

    def __init__(self, default: Path, variable: str, what: str, path: Path | None = None) -> None:
        chosen = path or Path(os.environ.get(variable) or default)
        self._what = what
        try:
            self.path = chosen.expanduser()
        except RuntimeError:  # a container may have users without a home
            self.path = _NOWHERE / chosen.name

    def read(self) -> bytes | None:
        """None if there is no file. Raises UsageError if other users can change it, or if it cannot be read."""
        try:
            return self._read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UsageError(f"{self.path}: {error.strerror}") from None

    def damaged(self) -> UsageError:
        """The error for a file with unexpected content."""
        return UsageError(f"{self.path} is not {self._what}: repair it, or remove it to begin anew")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One process at a time, until it ends or dies. Raises OSError."""
        self.path.parent.mkdir(mode=_OWNER_ONLY_DIRECTORY, parents=True, exist_ok=True)
        beside = self.path.with_name(f".{self.path.name}.lock")
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(beside, flags, _OWNER_ONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def write(self, content: bytes) -> None:
        """Whole or not at all. Raises OSError."""
        put_file(content, self.path, overwrite=True)

    def _read(self) -> bytes:
        descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE:
                raise UsageError(f"{self.path} is not {self._what}")
            if status.st_mode & _OTHERS_WRITE:
                remedy = f"chmod 600 {shlex.quote(str(self.path))}"
                raise UsageError(f"{self.path} can be changed by other users: {remedy}")
            return file.read()
