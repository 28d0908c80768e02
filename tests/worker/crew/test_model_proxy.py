"""The proxy that adds the credential, against a stand-in for the model's API."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from moothall.worker.crew import sockets
from moothall.worker.crew.doors import Door
from moothall.worker.crew.model_proxy import ModelProxy

PATIENCE = 30.0  # seconds; only a failing test waits that long
KEY = "sk-ant-api03-secret"
BODY = b'{"model": "x"}'


class Api:
    """A stand-in: it keeps what it is sent, and answers with a stream of events, each when the test says so."""

    def __init__(self) -> None:
        self.heads: list[str] = []
        self.bodies: list[bytes] = []
        self.next_event = asyncio.Event()
        self.is_left = asyncio.Event()
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        length = next(
            int(line[15:]) for line in head.lower().split("\r\n") if line.startswith("content-length:")
        )
        self.bodies.append(await reader.readexactly(length))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        leaving = asyncio.ensure_future(reader.read(1))
        for number in range(2):
            writer.write(f"data: {number}\n\n".encode())
            more = asyncio.ensure_future(self.next_event.wait())
            await asyncio.wait((more, leaving), return_when=asyncio.FIRST_COMPLETED)
            more.cancel()
            if leaving.done():
                self.is_left.set()
                break
            self.next_event.clear()
        leaving.cancel()
        writer.close()


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    found = Api()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    yield found
    server.close()


@asynccontextmanager
async def proxied(
    folder: Path, url: str, say: Callable[[str], None]
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    door = Door(folder / "model.sock", ModelProxy(url, folder / "token", say).serve)
    door.open()
    reader, writer = await asyncio.open_unix_connection(sock=sockets.connect(door.path))
    try:
        async with asyncio.timeout(PATIENCE):
            yield reader, writer
    finally:
        writer.transport.abort()
        await door.close()


def request(path: str = "/v1/messages", body: bytes = BODY, *headers: str) -> bytes:
    lines = [
        f"POST {path} HTTP/1.1",
        "Host: x",
        "x-api-key: proxy-managed",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def reason(answer: bytes) -> str:
    return str(json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["message"])


async def test_events_arrive_one_by_one_and_the_api_sees_the_key(tmp_path: Path, api: Api) -> None:
    (tmp_path / "token").write_text(f"{KEY}\n")
    said: list[str] = []
    async with proxied(tmp_path, f"http://127.0.0.1:{api.port}", said.append) as (reader, writer):
        writer.write(request())
        assert (await reader.readuntil(b"data: 0\n\n")).startswith(b"HTTP/1.1 200 OK\r\n")
        api.next_event.set()  # the second event is not sent before the first one was seen
        assert await reader.readuntil(b"data: 1\n\n") == b"data: 1\n\n"
        api.next_event.set()
        assert await reader.read(-1) == b""
    assert f"x-api-key: {KEY}\r\n" in api.heads[0]
    assert "proxy-managed" not in api.heads[0]
    assert api.bodies == [BODY]
    assert said == []


async def test_a_new_token_in_the_file_counts_at_once(tmp_path: Path, api: Api) -> None:
    for token in ("first", "second"):
        (tmp_path / "token").write_text(token)
        async with proxied(tmp_path, f"http://127.0.0.1:{api.port}", print) as (reader, writer):
            writer.write(request())
            await reader.readuntil(b"data: 0\n\n")
    assert ["x-api-key: first\r\n" in api.heads[0], "x-api-key: second\r\n" in api.heads[1]] == [True, True]


async def test_a_client_that_leaves_ends_the_request(tmp_path: Path, api: Api) -> None:
    (tmp_path / "token").write_text(KEY)
    async with proxied(tmp_path, f"http://127.0.0.1:{api.port}", print) as (reader, writer):
        writer.write(request())
        await reader.readuntil(b"data: 0\n\n")
        writer.close()
        await api.is_left.wait()


async def test_a_second_request_on_a_connection_goes_nowhere(tmp_path: Path, api: Api) -> None:
    (tmp_path / "token").write_text(KEY)
    async with proxied(tmp_path, f"http://127.0.0.1:{api.port}", print) as (reader, writer):
        writer.write(request() + request("/v1/files"))
        await reader.read(-1)
    assert len(api.heads) <= 1


async def test_what_is_refused_never_reaches_the_api(tmp_path: Path, api: Api) -> None:
    (tmp_path / "token").write_text(KEY)
    async with proxied(tmp_path, f"http://127.0.0.1:{api.port}", print) as (reader, writer):
        writer.write(request("/v1/files"))
        answer = await reader.read(-1)
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert "/v1/messages" in reason(answer)
    async with proxied(tmp_path, f"http://127.0.0.1:{api.port}", print) as (reader, writer):
        writer.write(request("/v1/messages", b"", f"X-Long: {'x' * 200_000}"))
        assert (await reader.read(20)).startswith(b"HTTP/1.1 431 ")
    assert api.heads == []


async def test_faults_of_the_host_are_said_in_its_log_once_and_without_the_key(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{KEY} and more")
    said: list[str] = []
    async with proxied(tmp_path, "http://127.0.0.1:1", said.append) as (reader, writer):
        writer.write(request())
        assert "no credential" in reason(await reader.read(-1))
    (tmp_path / "token").unlink()
    async with proxied(tmp_path, "http://127.0.0.1:1", said.append) as (reader, writer):
        writer.write(request())
        assert "no credential" in reason(await reader.read(-1))
    (tmp_path / "token").write_text(KEY)
    door = Door(
        tmp_path / "model.sock", ModelProxy("http://127.0.0.1:1", tmp_path / "token", said.append).serve
    )
    door.open()
    for _ in range(2):
        reader, writer = await asyncio.open_unix_connection(sock=sockets.connect(door.path))
        writer.write(request())
        assert "cannot be reached" in reason(await reader.read(-1))
        writer.close()
    await door.close()
    assert [line.partition("token file")[0] or line for line in said[:2]] == ["the ", "the "]
    assert len(said) == 3
    assert KEY not in "".join(said)


async def test_an_api_that_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(KEY)

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(BODY)
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with proxied(tmp_path, url, print) as (reader, writer):
        writer.write(request())
        answer = await reader.read(-1)
        assert answer.startswith(b"HTTP/1.1 502 ")
        assert "without an answer" in reason(answer)
    server.close()
