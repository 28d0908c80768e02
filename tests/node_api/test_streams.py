"""Buffers of WebSockets, and readers that are too slow for them. The sockets themselves are in test_sockets.py."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from starlette.websockets import WebSocket

from moothall.node.reports import PeerRegistered, Received
from moothall.node_api import streams
from moothall.node_api.streams import MAX_BUFFERED, MAX_BUFFERED_BYTES, Buffer, EventFeed, Feed, live, resumed
from moothall.wire.mesh.msg_types import MsgType
from tests.node_api.test_objects import received
from tests.support.server import PATIENCE


class Client:
    """The other end of a WebSocket of ASGI. It reads when `reads` is set."""

    def __init__(self) -> None:
        self.texts: asyncio.Queue[str] = asyncio.Queue()
        self.last: dict[str, Any] = {}
        self.reads = asyncio.Event()
        self.opened = asyncio.Event()
        self._said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._said.put_nowait({"type": "websocket.connect"})
        self.socket = WebSocket({"type": "websocket", "path": "/"}, self._said.get, self._take)

    async def _take(self, message: Any) -> None:
        if message["type"] == "websocket.send":
            await self.reads.wait()
            self.texts.put_nowait(message["text"])
        self.last = message
        self.opened.set()

    def say(self, text: str) -> None:
        self._said.put_nowait({"type": "websocket.receive", "text": text})

    def leave(self) -> None:
        self._said.put_nowait({"type": "websocket.disconnect", "code": 1000})

    async def next(self) -> str:
        async with asyncio.timeout(PATIENCE):
            return await self.texts.get()


def test_a_buffer_is_bounded_in_messages() -> None:
    buffer = Buffer()
    for number in range(MAX_BUFFERED):
        buffer.put("x", number)
    assert not buffer.overflow.is_set()
    buffer.put("x", MAX_BUFFERED)
    assert buffer.overflow.is_set()


def test_a_buffer_is_bounded_in_bytes() -> None:
    buffer = Buffer()
    buffer.put("x" * MAX_BUFFERED_BYTES)
    assert not buffer.overflow.is_set()
    buffer.put("x")
    assert buffer.overflow.is_set()


async def test_a_reader_that_is_too_slow_is_told_where_to_resume() -> None:
    client, buffers = Client(), []

    def add(buffer: Buffer) -> Callable[[], None]:
        buffers.append(buffer)
        return lambda: buffers.remove(buffer)

    talking = asyncio.create_task(live(client.socket, add))
    await client.opened.wait()
    client.reads.set()
    buffers[0].put("first", 41)
    assert await client.next() == "first"
    client.reads.clear()
    for cursor in range(42, 42 + MAX_BUFFERED + 1):
        buffers[0].put("more", cursor)
    async with asyncio.timeout(PATIENCE):
        await talking
    assert client.texts.empty()
    assert client.last["code"] == 1013
    assert client.last["reason"].endswith("resume with ?after=41")
    assert len(client.last["reason"].encode()) <= 123
    assert buffers == []


async def test_a_client_that_leaves_is_forgotten() -> None:
    client = Client()
    removed: list[bool] = []
    talking = asyncio.create_task(live(client.socket, lambda _: lambda: removed.append(True)))
    await client.opened.wait()
    client.say("hello?")
    client.leave()
    async with asyncio.timeout(PATIENCE):
        await talking
    assert removed == [True]


async def test_a_reader_with_a_cursor_loses_nothing() -> None:
    rows = [Received(cursor, received(MsgType.REJECT).envelope, 0) for cursor in range(1, 251)]
    callbacks: list[Callable[[Received], None]] = []

    async def read(after: int, limit: int) -> list[Received]:
        return [row for row in rows if row.cursor > after][:limit]

    def subscribe(callback: Callable[[Received], None]) -> Callable[[], None]:
        callbacks.append(callback)
        return lambda: callbacks.remove(callback)

    client = Client()
    client.reads.set()
    talking = asyncio.create_task(resumed(client.socket, read, subscribe, 10))
    for cursor in range(11, 251):
        assert f'"cursor":{cursor}}}' in await client.next()
    rows.append(Received(300, rows[0].envelope, 0))
    callbacks[0](rows[-1])
    assert '"cursor":300}' in await client.next()
    client.leave()
    async with asyncio.timeout(PATIENCE):
        await talking
    assert callbacks == []


async def test_a_reader_with_a_cursor_that_stops_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "SEND_TIME", 0.01)
    client = Client()

    async def read(after: int, limit: int) -> list[Received]:
        return [received(MsgType.REJECT)]

    async with asyncio.timeout(PATIENCE):
        await resumed(client.socket, read, lambda _: lambda: None, 5)
    assert client.last["reason"] == "the client does not read; resume with ?after=5"


class Source:
    """What a node offers to listeners."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[Any], None]] = []

    def subscribe(self, callback: Callable[[Any], None]) -> Callable[[], None]:
        self.callbacks.append(callback)
        return lambda: self.callbacks.remove(callback)

    def tell(self, event: object) -> None:
        for callback in self.callbacks:
            callback(event)


async def test_a_feed_tells_those_who_want_it() -> None:
    source, client = Source(), Client()
    client.reads.set()
    feed = Feed(source.subscribe)
    talking = asyncio.create_task(
        live(client.socket, lambda buffer: feed.add(buffer, lambda each: each.cursor != 7))
    )
    await client.opened.wait()
    source.tell(received(MsgType.REJECT))
    source.tell(Received(8, received(MsgType.ACCEPT).envelope, 0))
    assert '"cursor":8}' in await client.next()
    client.leave()
    await talking
    feed.close()
    assert source.callbacks == []


async def test_what_is_no_event_is_not_told() -> None:
    source, client = Source(), Client()
    client.reads.set()
    feed = EventFeed(source.subscribe)
    talking = asyncio.create_task(live(client.socket, feed.add))
    await client.opened.wait()
    source.tell(received(MsgType.REJECT))
    source.tell(PeerRegistered(bytes(32), "12D3", "a"))
    assert '"type":"peer_registered"' in await client.next()
    client.leave()
    await talking
    feed.close()
    assert source.callbacks == []
