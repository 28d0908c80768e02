"""What the kernel tells of a file or a folder (inotify), without a timer."""

import ctypes
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

# sys/inotify.h
IN_ATTRIB: Final = 0x4
IN_OPEN: Final = 0x20
IN_MOVED_TO: Final = 0x80
IN_CREATE: Final = 0x100
IN_DELETE_SELF: Final = 0x400
IN_MOVE_SELF: Final = 0x800
IN_ONLYDIR: Final = 0x1000000

_EVENTS: Final = 64 * 1024  # bytes of them to read at a time


def watch(path: Path, interest: int) -> int | None:
    """A descriptor that is readable when this happens there. None if the kernel refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor: int = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
    if descriptor < 0:
        return None
    if libc.inotify_add_watch(descriptor, os.fsencode(path), interest) < 0:
        os.close(descriptor)
        return None
    return descriptor


def drain(descriptor: int) -> None:
    """Take the events. Those that do not fit stay for the next time."""
    with suppress(BlockingIOError):
        os.read(descriptor, _EVENTS)


def identity(path: Path) -> tuple[int, int] | None:
    """Which file is there now, through links. None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
