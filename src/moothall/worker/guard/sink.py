"""Where the output of a command goes on to: standard output or standard error, unchanged and without waiting.

A guard that waits for a slow reader would enforce no limits meanwhile. What the reader does not take at once is
kept, and the command is not read from until it has gone. So back-pressure reaches the command, and memory stays
bounded.
"""

import fcntl
import os
import select
import stat
from contextlib import suppress
from typing import Final

PIPE: Final = 512 * 1024  # bytes; a command that prints 10 MB/s does not fill it between two reads
_ALWAYS_FITS: Final = 4096  # bytes that a pipe takes when poll() calls it writable (PIPE_BUF on Linux)


class Sink:
    def __init__(self, descriptor: int) -> None:
        self.descriptor, self._step = _own(descriptor)
        self._kept = bytearray()
        self._poll = select.poll()
        self._poll.register(self.descriptor, select.POLLOUT)
        self.is_broken = False

    @property
    def is_behind(self) -> bool:
        return bool(self._kept)

    def write(self, block: memoryview) -> None:
        if not self._kept:
            block = block[self._put(block) :]
        if not self.is_broken:
            self._kept += block

    def flush(self) -> None:
        """Write on what was kept."""
        with memoryview(self._kept) as kept:
            gone = self._put(kept)
        del self._kept[:gone]
        if self.is_broken:
            self._kept.clear()

    def _put(self, block: memoryview) -> int:
        """How much has gone. A reader that is gone, or a full disk, breaks the sink."""
        gone = 0
        try:
            while gone < len(block):
                if self._step and not self._poll.poll(0):
                    break
                gone += os.write(
                    self.descriptor, block[gone : gone + self._step] if self._step else block[gone:]
                )
        except BlockingIOError:
            return gone  # the rest is kept until the reader has room
        except OSError:
            self.is_broken = True
        return gone


def _own(descriptor: int) -> tuple[int, int]:
    """A descriptor to write to without waiting, and how much to write at a time if that is limited.

    All programs that share an open file, such as the shell, share its O_NONBLOCK. So pipes and terminals are opened
    once more. Files never make a writer wait. What cannot be opened again is asked before each small write.
    """
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        return descriptor, 0
    if stat.S_ISFIFO(kind) or stat.S_ISCHR(kind):
        try:
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            own = os.open(f"/proc/self/fd/{descriptor}", flags)
        except OSError:
            return descriptor, _ALWAYS_FITS
        with suppress(OSError):  # a terminal has no size, and a user has only so many pages for pipes
            fcntl.fcntl(own, fcntl.F_SETPIPE_SZ, max(PIPE, fcntl.fcntl(own, fcntl.F_GETPIPE_SZ)))
        return own, 0
    return descriptor, _ALWAYS_FITS
