"""One output of the command: read, passed on, and searched for what counts.

A command that prints a little at a time would wake the guard for each line. So after a read the pipe fills up for a
moment before the next one. A reader in front of a screen does not notice that.
"""

import fcntl
import os
from contextlib import suppress
from typing import Final

from moothall.worker.guard.sieve import Sieve
from moothall.worker.guard.sink import PIPE, Sink
from moothall.worker.guard.watch import Source

PAUSE: Final = 0.04  # seconds between two reads of a pipe of full size


class Stream:
    """`sieve` finds lines for `source`. `resume_at` is when to read next; None: when there is something."""

    def __init__(self, sink: Sink, sieve: Sieve, source: Source) -> None:
        self.descriptor, self.inner = os.pipe()  # `inner` is the end of the command
        os.set_blocking(self.descriptor, False)
        with suppress(OSError):  # a user has only so many pages for pipes
            fcntl.fcntl(self.descriptor, fcntl.F_SETPIPE_SZ, PIPE)
        size = fcntl.fcntl(self.descriptor, fcntl.F_GETPIPE_SZ)
        self._full = size * 7 // 8
        self._pause = PAUSE * min(1, size / PIPE)
        self.sink = sink
        self._sieve = sieve
        self._source = source
        self.is_open = True
        self.resume_at: float | None = None

    def may_read(self, now: float) -> bool:
        is_time = self.resume_at is None or now >= self.resume_at
        return self.is_open and is_time and not self.sink.is_behind

    def pump(self, now: float, buffer: bytearray) -> bool:
        """Pass on what is there. True if there was something."""
        self.resume_at = None
        try:
            size = os.readv(self.descriptor, [buffer])
        except BlockingIOError:
            return False
        if size == 0:
            self.close(now)
            return False
        self.resume_at = now + self._pause if size < self._full else now
        with memoryview(buffer)[:size] as block:
            self.sink.write(block)
            for line in self._sieve.feed(block):
                self._source.read(now, line)
        if self.sink.is_broken:
            self.close(now)  # the command gets SIGPIPE, as it would without a guard
        return True

    def close(self, now: float) -> None:
        if self.is_open:
            self.is_open = False
            self.resume_at = None
            os.close(self.descriptor)
            for line in self._sieve.rest():
                self._source.read(now, line)
