"""Messages as an async iterator, for code that reads them one after the other."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Self

from moothall.client.message import Message

MAX_WAITING: Final = 1000
MAX_BYTES: Final = 32 * 1024 * 1024  # of the messages that wait


class Inbox:
    """Holds what was not read yet. When it is full the oldest makes room, and `overflow` is told of it."""

    def __init__(
        self,
        wants: Callable[[Message], bool],
        start: Callable[[], Awaitable[None]],
        overflow: Callable[[Message], None],
        max_waiting: int = MAX_WAITING,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self.wants = wants
        self._start = start
        self._started = False
        self._overflow = overflow
        self._max_waiting = max_waiting
        self._max_bytes = max_bytes
        self._waiting: deque[Message] = deque()
        self._bytes = 0
        self._changed = asyncio.Event()
        self._ended = False
        self._error: BaseException | None = None

    def put(self, message: Message) -> None:
        self._bytes += message.size
        while self._waiting and (len(self._waiting) >= self._max_waiting or self._bytes > self._max_bytes):
            self._overflow(self._take())
        self._waiting.append(message)
        self._changed.set()

    def _take(self) -> Message:
        message = self._waiting.popleft()
        self._bytes -= message.size
        return message

    def end(self, error: BaseException | None) -> None:
        """No more will come. Iteration yields the rest, and then raises `error` if there is one."""
        self._ended = True
        self._error = error
        self._changed.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        if not self._started and not self._ended:
            await self._start()
            self._started = True
        while not self._waiting:
            if self._ended:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        message = self._take()
        message.got()
        return message
