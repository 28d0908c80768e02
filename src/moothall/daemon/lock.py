"""A lock that says which process acts. The kernel drops it however that process ends.

A pid file cannot say so: after a crash, or in a new container, it may have the pid of another program.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_OWNER_ONLY: Final = 0o600
_FLAGS: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LOOK: Final = 0.05  # seconds between two tries


def take(file: Path, patience: float = 0.0, between: Callable[[], object] | None = None) -> int | None:
    """The lock, as an open descriptor. None if another process has it after `patience` seconds. Raises OSError.

    `between` is called between two tries. What it raises ends the wait.
    """
    descriptor = os.open(file, _FLAGS | os.O_CREAT, _OWNER_ONLY)
    deadline = time.monotonic() + patience
    try:
        while not _is_ours(descriptor):
            if time.monotonic() >= deadline:
                os.close(descriptor)
                return None
            if between is not None:
                between()
            time.sleep(_LOOK)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def held(file: Path, patience: float = 0.0, between: Callable[[], object] | None = None) -> Iterator[bool]:
    """Hold the lock for the length of the block. False if another process has it, see `take`. Raises OSError."""
    descriptor = take(file, patience, between)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)


def is_held(file: Path) -> bool:
    """True while a process has the lock. Raises OSError."""
    try:
        descriptor = os.open(file, _FLAGS)
    except FileNotFoundError:
        return False
    try:
        return not _is_ours(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _is_ours(descriptor: int, kind: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
