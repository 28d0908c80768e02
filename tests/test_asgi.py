"""Servers on uvicorn, and clients that take their time."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

import pytest
import uvicorn

from moothall import asgi
from moothall.errors import UsageError
from moothall.wire.authority import Authority
from tests.support.server import PATIENCE


def test_a_place_that_is_taken() -> None:
    with asgi.bound(Authority("127.0.0.1", 0), "--flag") as taken:
        place = Authority("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(UsageError, match=r"cannot listen on .* Choose another port with --flag"):
            asgi.bound(place, "--flag")


@pytest.mark.parametrize(("most", "whole"), [(5, None), (6, b"abcdef")])
async def test_a_body_is_bounded(most: int, whole: bytes | None) -> None:
    parts = [b"abc", b"def"]

    async def receive() -> asgi.Message:
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    assert await asgi.whole_body(receive, most) == whole


@pytest.mark.parametrize("requests_before", [0, 1])
@pytest.mark.parametrize("beginning", [b"", b"POST /mcp HTTP/1.1\r\nHost: local"])
async def test_a_connection_that_does_not_say_what_it_wants(
    beginning: bytes, requests_before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asgi, "REQUEST_TIME", 0.05)

    async def app(scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
        await send({"type": "http.response.body", "body": b"done"})

    config = uvicorn.Config(app, http=asgi.ImpatientProtocol, log_config=None, timeout_keep_alive=1)
    listening = asgi.bound(Authority("127.0.0.1", 0), "--http")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server._serve([listening]))
    try:
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        for _ in range(requests_before):
            writer.write(b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await reader.readuntil(b"done")
        writer.write(beginning)
        async with asyncio.timeout(PATIENCE):
            await reader.read()  # until the server closes the connection
        writer.close()
        await writer.wait_closed()
    finally:
        server.should_exit = True
        await serving


@contextlib.asynccontextmanager
async def websocket_server(app: asgi.App) -> AsyncIterator[tuple[uvicorn.Server, tuple[str, int]]]:
    config = uvicorn.Config(
        app, http=asgi.ImpatientProtocol, ws=asgi.ClosableWebSocket, ws_ping_interval=None, log_config=None
    )
    listening = asgi.bound(Authority("127.0.0.1", 0), "--flag")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server._serve([listening]))
    try:
        yield server, listening.getsockname()
    finally:
        server.should_exit = True
        await serving


async def ask_for_websocket(
    place: tuple[str, int],
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(*place, limit=1024)  # reads no more than it must
    writer.write(
        b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    return reader, writer


async def open_websocket(place: tuple[str, int]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await ask_for_websocket(place)
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
    return reader, writer


class Talker:
    """Sends to a client until it does not read any more, and then closes the connection."""

    def __init__(self) -> None:
        self.is_stuck = asyncio.Event()
        self.ended = asyncio.Event()

    async def __call__(self, scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        if scope["type"] != "websocket":
            return
        await send({"type": "websocket.accept"})
        with contextlib.suppress(TimeoutError):
            while True:
                async with asyncio.timeout(0.2):
                    await send({"type": "websocket.send", "text": "x" * 65_536})
        self.is_stuck.set()
        await send({"type": "websocket.close", "code": 1013, "reason": "too slow"})
        self.ended.set()


async def test_a_client_that_reads_late_hears_why_it_was_closed() -> None:
    talker = Talker()
    async with websocket_server(talker) as (_, place):
        reader, writer = await open_websocket(place)
        async with asyncio.timeout(PATIENCE):
            await talker.ended.wait()
            tail = b""
            while not tail.endswith(b"too slow"):
                part = await reader.read(65_536)
                assert part
                tail = (tail + part)[-20:]
        assert tail.endswith(b"\x88\x0a\x03\xf5too slow")
        writer.transport.abort()


async def test_a_client_that_never_reads_is_closed_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "ABORT_TIME", 0.05)
    talker = Talker()
    async with websocket_server(talker) as (server, place):
        _, writer = await open_websocket(place)
        async with asyncio.timeout(PATIENCE):
            await talker.ended.wait()
            while server.server_state.connections:  # noqa: ASYNC110  # uvicorn has no event for it
                await asyncio.sleep(0.01)
        writer.transport.abort()


async def test_a_websocket_outlives_the_time_of_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "REQUEST_TIME", 0.05)

    async def app(scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        await send({"type": "websocket.accept"})
        await asyncio.sleep(0.2)
        await send({"type": "websocket.send", "text": "still here"})

    async with websocket_server(app) as (_, place):
        reader, writer = await open_websocket(place)
        async with asyncio.timeout(PATIENCE):
            assert (await reader.readexactly(12)).endswith(b"still here")
        writer.close()
        await writer.wait_closed()


async def test_a_handshake_that_is_refused_is_not_an_error_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def refuse(scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        await send({"type": "websocket.http.response.start", "status": 401, "headers": []})
        await send({"type": "websocket.http.response.body", "body": b"no", "more_body": True})
        await send({"type": "websocket.http.response.body", "body": b" key"})

    caplog.set_level(logging.WARNING, "uvicorn")
    async with websocket_server(refuse) as (_, place):
        reader, writer = await ask_for_websocket(place)
        async with asyncio.timeout(PATIENCE):
            answer = await reader.read()
        writer.close()
        await writer.wait_closed()
    assert answer.startswith(b"HTTP/1.1 401")
    assert answer.endswith(b"no key")
    assert caplog.messages == []
