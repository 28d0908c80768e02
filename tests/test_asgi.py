"""Servers on uvicorn, and clients that take their time."""

import asyncio

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
