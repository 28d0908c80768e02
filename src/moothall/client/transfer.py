"""What a transfer in either direction has: the other agent, a clock, and a function that shows progress."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from moothall.client.file_offer import OnProgress
from moothall.client.logs import log
from moothall.errors import MoothallError
from moothall.files.control import Known
from moothall.files.progress import Progress

RETRY_AFTER: Final = 1.0  # seconds, after a lost connection, or when the other agent is away or slow
LAST_WORDS: Final = 2.0  # seconds to tell the other agent that this one gives up
NEW_ID: Final = (
    "the connection was lost, and an agent without a key has another id when it comes back: use a key file"
)

Say = Callable[[str, Known], Awaitable[None]]


class Transfer(ABC):
    def __init__(self, peer: str, say: Say, on_progress: OnProgress | None, own_address: str) -> None:
        self._peer = peer
        self._say = say
        self._on_progress = on_progress
        self._own_address = own_address
        self._clock = asyncio.get_running_loop().time
        self._changed = asyncio.Event()

    @abstractmethod
    def hear(self, message: Known) -> None:
        """The other agent says something."""

    @abstractmethod
    def fail(self, reason: str) -> None:
        """It cannot go on."""

    def reconnected(self, address: str) -> None:
        """This agent is back, under this address."""
        if address != self._own_address:
            self.fail(NEW_ID)
        self._changed.set()

    async def _wait(self, seconds: float) -> None:
        """Until something happens, and at most this long."""
        self._changed.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    async def _wait_to_retry(self) -> None:
        await self._wait(RETRY_AFTER)

    async def _say_at_once(self, message: Known) -> None:
        """Tell the other agent, if that is possible now."""
        with suppress(MoothallError, TimeoutError):
            async with asyncio.timeout(LAST_WORDS):
                await self._say(self._peer, message)

    def _show(self, progress: Progress) -> None:
        if self._on_progress is None:
            return
        try:
            self._on_progress(progress)
        except Exception as error:  # noqa: BLE001  # of the user's own code; it must not cost the transfer
            self._on_progress = None
            log.error("the function that shows progress failed, and is not called any more", exc_info=error)
