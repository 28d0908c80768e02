"""Time, as a host and its program need it: handed in, so that tests can make it up."""

import asyncio
from collections.abc import Callable
from typing import Protocol


class Alarm(Protocol):
    def cancel(self) -> None: ...


class Outside(Protocol):
    """Time, as a host needs it."""

    def now(self) -> int:
        """Milliseconds that never go back."""

    def call_later(self, delay: int, call: Callable[[], None]) -> Alarm:
        """Calls in so many milliseconds."""


class LoopTime:
    """The time of the running event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def now(self) -> int:
        return int(self._loop.time() * 1000)

    def call_later(self, delay: int, call: Callable[[], None]) -> Alarm:
        return self._loop.call_later(delay / 1000, call)
