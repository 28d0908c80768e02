"""WebSockets of the API: what a node tells, to programs that read at their own speed.

A socket without a cursor gets what comes from now on, through a buffer. A reader that is too slow for it is closed
with a reason that names the cursor to come back with. A socket with a cursor has no buffer: it reads the inbox from
the disk, as fast as its client reads.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from moothall.node.reports import Event, Received
from moothall.node_api.objects import event_object, inbox_object

MAX_BUFFERED: Final = 256  # messages (mesh wire 13)
MAX_BUFFERED_BYTES: Final = 4 * 1024 * 1024
MAX_SOCKETS: Final = 64
PAGE: Final = 100  # envelopes that are read from the disk at a time
SEND_TIME: Final = 30.0  # seconds for a client with a cursor to take one message
TRY_AGAIN_LATER: Final = 1013  # close code

Subscribe = Callable[[Callable[[Received], None]], Callable[[], None]]
Read = Callable[[int, int], Awaitable[list[Received]]]


class Buffer:
    """Messages that a client has not read yet, and the cursor of the last one that it was sent."""

    def __init__(self) -> None:
        self._texts: deque[tuple[str, int | None]] = deque()
        self._size = 0
        self._filled = asyncio.Event()
        self.overflow = asyncio.Event()
        self.sent: int | None = None

    def put(self, text: str, cursor: int | None = None) -> None:
        if len(self._texts) >= MAX_BUFFERED or self._size + len(text) > MAX_BUFFERED_BYTES:
            self.overflow.set()
        if not self.overflow.is_set():
            self._texts.append((text, cursor))
            self._size += len(text)
            self._filled.set()

    async def write_to(self, socket: WebSocket) -> None:
        while True:
            await self._filled.wait()
            text, cursor = self._texts[0]
            await socket.send_text(text)
            self._texts.popleft()
            self._size -= len(text)
            self.sent = self.sent if cursor is None else cursor
            if not self._texts:
                self._filled.clear()

    @property
    def reason(self) -> str:
        """At most 123 bytes, as a close frame has room for."""
        where = "" if self.sent is None else f"; resume with ?after={self.sent}"
        return f"the client reads too slowly, {MAX_BUFFERED} messages wait{where}"


class Feed:
    """The inbox as text, made once for all sockets that listen to it."""

    def __init__(self, subscribe: Subscribe) -> None:
        self._buffers: dict[Buffer, Callable[[Received], bool]] = {}
        self.close = subscribe(self._tell)

    def add(self, buffer: Buffer, wanted: Callable[[Received], bool] = lambda _: True) -> Callable[[], None]:
        self._buffers[buffer] = wanted

        def remove() -> None:
            self._buffers.pop(buffer, None)

        return remove

    def _tell(self, received: Received) -> None:
        buffers = [buffer for buffer, wanted in self._buffers.items() if wanted(received)]
        if buffers:
            text = as_text(inbox_object(received))
            for buffer in buffers:
                buffer.put(text, received.cursor)


class EventFeed:
    """The same for events."""

    def __init__(self, watch: Callable[[Callable[[Event], None]], Callable[[], None]]) -> None:
        self._buffers: set[Buffer] = set()
        self.close = watch(self._tell)

    def add(self, buffer: Buffer) -> Callable[[], None]:
        self._buffers.add(buffer)
        return lambda: self._buffers.discard(buffer)

    def _tell(self, event: Event) -> None:
        if self._buffers and (found := event_object(event)) is not None:
            text = as_text(found)
            for buffer in self._buffers:
                buffer.put(text)


async def live(socket: WebSocket, add: Callable[[Buffer], Callable[[], None]]) -> None:
    """Send what is put into a buffer, until the client leaves or is too slow. `add` returns what ends that."""
    buffer = Buffer()
    remove = add(buffer)
    try:
        await socket.accept()
        await _first(buffer.write_to(socket), _until_gone(socket), buffer.overflow.wait())
        if buffer.overflow.is_set():
            await _close(socket, buffer.reason)
    finally:
        remove()


async def resumed(socket: WebSocket, read: Read, subscribe: Subscribe, after: int) -> None:
    """Send the inbox from a cursor on, and then what comes."""
    news = asyncio.Event()
    unlisten = subscribe(lambda _: news.set())
    try:
        await socket.accept()
        await _first(_send_from(socket, read, news, after), _until_gone(socket))
    finally:
        unlisten()


async def _send_from(socket: WebSocket, read: Read, news: asyncio.Event, after: int) -> None:
    while True:
        news.clear()
        page = await read(after, PAGE)
        for received in page:
            try:
                async with asyncio.timeout(SEND_TIME):
                    await socket.send_text(as_text(inbox_object(received)))
            except TimeoutError:
                await _close(socket, f"the client does not read; resume with ?after={after}")
                return
            after = received.cursor
        if not page:
            await news.wait()


async def _until_gone(socket: WebSocket) -> None:
    """What a client says is read and dropped: there is nothing to say here."""
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass


async def _first(*work: Coroutine[Any, Any, Any]) -> None:
    """Run all, until one of them has ended."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception) and not isinstance(result, WebSocketDisconnect | OSError):  # it left
            raise result


async def _close(socket: WebSocket, reason: str) -> None:
    with suppress(WebSocketDisconnect, RuntimeError):  # it has left by itself
        await socket.close(TRY_AGAIN_LATER, reason)


def as_text(found: object) -> str:
    return msgspec.json.encode(found).decode()
