"""The logs of a supervisor and of a runner: lines with their time, of which the oldest are thrown away."""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from moothall.worker.plain_file import open_plain

MAX_BYTES: Final = 1024 * 1024  # then the file becomes NAME.1, and a new one begins


class LogFile:
    """Lines go to the file one by one, each with one write: a kill leaves whole lines."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self) -> int:
        """A descriptor to append with, for a child that writes here too. Raises OSError."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        descriptor = open_plain(self.path, flags)
        if os.fstat(descriptor).st_size > MAX_BYTES:
            os.close(descriptor)
            self.path.replace(self.path.with_name(f"{self.path.name}.1"))
            descriptor = open_plain(self.path, flags)
        return descriptor

    def say(self, text: str) -> None:
        """Add a line. A full disk loses the line, and does not end the process."""
        with suppress(OSError):
            descriptor = self.open()
            try:
                os.write(descriptor, f"{utc(time.time())} {text}\n".encode(errors="backslashreplace"))
            finally:
                os.close(descriptor)


def utc(seconds: float) -> str:
    """A moment as state files and logs show it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
