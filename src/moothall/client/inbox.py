"""Messages as an async iterator, for code that reads them one after the other."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, Self

from moothall.client.events import Message

MAX_WAITING: Final = 1000


class Inbox:
    """Holds what was not read yet. When it is full the oldest makes room, and `overflow` is told of it."""

    def __init__(
        self,
        wants: Callable[[Message], bool],
        start: Callable[[], Awaitable[None]],
        overflow: Callable[[Message], None],
        max_waiting: int = MAX_WAITING,
    ) -> None:
        self.wants = wants
        self._start = start
        self._started = False
        self._overflow = overflow
        self._max_waiting = max_waiting
        self._waiting: deque[Message] = deque()
        self._changed = asyncio.Event()
        self._ended = False
        self._error: BaseException | None = None

    def put(self, message: Message) -> None:
        if len(self._waiting) >= self._max_waiting:
            self._overflow(self._waiting.popleft())
        self._waiting.append(message)
        self._changed.set()

    def end(self, error: BaseException | None) -> None:
        """No more will come; whoever iterates gets the rest, and then the error if there is one."""
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
        return self._waiting.popleft()
