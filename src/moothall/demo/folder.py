"""The folder of a demo. It is removed when the demo ends; that of a demo that was killed, when the next one starts.

A demo holds the lock on a file in its folder. The kernel drops the lock however the process ends. A folder without
the file is left alone: its demo is just starting.
"""

import fcntl
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import Final

PREFIX: Final = "moothall-demo-"

_LOCK: Final = "lock"
_FLAGS: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
_OWNER_ONLY: Final = 0o600


@contextmanager
def own_folder() -> Iterator[Path]:
    """A new folder for this process, until the end of the block."""
    folder = Path(mkdtemp(prefix=PREFIX))
    lock = None
    try:
        lock = _take_lock(folder)
        yield folder
    finally:
        shutil.rmtree(folder)
        if lock is not None:
            os.close(lock)


def remove_stale(settle: Callable[[Path], None]) -> None:
    """Remove the folders of this user's demos that were killed. `settle` is called with each of them before."""
    for folder in Path(gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # not ours, or removed meanwhile
            found = folder.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
                _remove_if_stale(folder, settle)


def _remove_if_stale(folder: Path, settle: Callable[[Path], None]) -> None:
    lock = os.open(folder / _LOCK, _FLAGS)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises BlockingIOError while the demo runs
        settle(folder)
        shutil.rmtree(folder)
    finally:
        os.close(lock)


def _take_lock(folder: Path) -> int:
    """The file gets its name when it is locked, so that no other demo finds it free."""
    unnamed = folder / f"{_LOCK}.new"
    lock = os.open(unnamed, _FLAGS | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        unnamed.rename(folder / _LOCK)
    except BaseException:
        os.close(lock)
        raise
    return lock
