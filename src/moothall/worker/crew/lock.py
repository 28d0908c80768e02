"""The lock that says which process acts for a crew. The kernel drops it however that process ends."""

import fcntl
import os
import time
from pathlib import Path
from typing import Final

_OWNER_ONLY: Final = 0o600
_LOOK: Final = 0.05  # seconds between two tries


def take(file: Path, patience: float) -> int | None:
    """The lock, as an open descriptor. None if another process has it after `patience` seconds. Raises OSError."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, _OWNER_ONLY)
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                os.close(descriptor)
                return None
            time.sleep(_LOOK)
        else:
            return descriptor
