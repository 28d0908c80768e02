"""What asks a session to end: a signal, or the end of the pipe from the supervisor."""

import os
import select
import signal
from collections.abc import Collection
from contextlib import ExitStack
from typing import Final

_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_BLOCK: Final = 64 * 1024


class Stopped(Exception):
    """A signal, or the end of the supervisor."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


class Signals:
    def __init__(self, lifeline: int | None) -> None:
        self.lifeline = lifeline
        self._number = 0
        self._closing = ExitStack()

    def __enter__(self) -> "Signals":
        waker, wake = os.pipe()
        for descriptor in (waker, wake):
            os.set_blocking(descriptor, False)
            self._closing.callback(os.close, descriptor)
        self._waker = waker
        for number in (*_STOP_SIGNALS, signal.SIGCHLD):
            self._closing.callback(signal.signal, number, signal.signal(number, self._note))
        self._closing.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(wake))
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def _note(self, number: int, _frame: object) -> None:
        if number in _STOP_SIGNALS:
            self._number = number

    def check(self) -> None:
        """Raises Stopped."""
        if self.lifeline is not None and self._has_ended(self.lifeline):
            self._number = self._number or signal.SIGTERM
        if self._number:
            raise Stopped(self._number)

    def wait(self, readable: Collection[int], seconds: float | None, *, watch_lifeline: bool) -> None:
        """Until a descriptor is readable, a signal, the end of a child, or the end of the supervisor."""
        poll = select.poll()
        poll.register(self._waker, select.POLLIN)
        for descriptor in readable:
            poll.register(descriptor, select.POLLIN)
        if watch_lifeline and self.lifeline is not None:
            poll.register(self.lifeline, select.POLLIN)
        if (self._waker, select.POLLIN) in poll.poll(None if seconds is None else max(0.0, seconds) * 1000):
            os.read(self._waker, _BLOCK)

    @staticmethod
    def _has_ended(pipe: int) -> bool:
        """The supervisor writes nothing after the secrets: what can be read is the end."""
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        return bool(poll.poll(0))
