"""The doors on the host: where a connection from a container goes, and how it ends."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from moothall.worker.crew import doors, sockets
from moothall.worker.crew.doors import Door, Pace, leading_to

PATIENCE = 30.0  # seconds; only a failing test waits that long
MANY = b"0123456789abcdef" * 64 * 1024  # more than all buffers on the way

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def hall(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[int]:
    """The port of a stand-in for the hall."""

    async def then_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(then_close, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


@asynccontextmanager
async def opened(path: Path, serve: doors.Serve) -> AsyncIterator[Door]:
    door = Door(path, serve)
    door.open()
    try:
        yield door
    finally:
        await door.close()


@asynccontextmanager
async def through(door: Door) -> AsyncIterator[Streams]:
    reader, writer = await asyncio.open_unix_connection(sock=sockets.connect(door.path))
    try:
        async with asyncio.timeout(PATIENCE):
            yield reader, writer
    finally:
        writer.transport.abort()


async def answer_at_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write((await reader.read(-1))[::-1])
    await writer.drain()


async def wait_for_the_end(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read(-1)


def test_the_pace_of_new_connections() -> None:
    pace = Pace(3, 10)
    assert [pace.take(100.0) for _ in range(5)] == pytest.approx([0, 0, 0.1, 0.2, 0.3])
    assert pace.take(100.5) == pytest.approx(0)  # all but one are possible again
    assert [pace.take(200.0) for _ in range(3)] == pytest.approx([0, 0, 0.1])


async def test_a_flood_of_connections_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served, all_served = 0, asyncio.Event()

    async def serve(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        nonlocal served
        served += 1
        if served == doors.MAX_CONNECTIONS:
            all_served.set()

    monkeypatch.setattr(doors, "PER_SECOND", 1e-6)
    async with opened(tmp_path / "hall.sock", serve) as door, asyncio.timeout(PATIENCE):
        flood = [sockets.connect(door.path) for _ in range(doors.MAX_CONNECTIONS + 10)]
        await all_served.wait()
        for _ in range(100):
            await asyncio.sleep(0)
        assert served == doors.MAX_CONNECTIONS
        for connection in flood:
            connection.close()


async def test_bytes_go_both_ways_and_each_end_is_passed_on(tmp_path: Path) -> None:
    async with (
        hall(answer_at_the_end) as port,
        opened(tmp_path / "hall.sock", leading_to("127.0.0.1", port)) as door,
        through(door) as (reader, writer),
    ):
        writer.write(MANY)
        writer.write_eof()
        assert await reader.read(-1) == MANY[::-1]


async def test_the_user_of_the_container_may_connect_and_a_left_socket_is_replaced(tmp_path: Path) -> None:
    async with hall(answer_at_the_end) as port:
        left = Door(tmp_path / "hall.sock", leading_to("127.0.0.1", 1))
        left.open()
        async with (
            opened(tmp_path / "hall.sock", leading_to("127.0.0.1", port)) as door,
            through(door) as (reader, writer),
        ):
            assert door.path.stat().st_mode & 0o777 == 0o666
            writer.write(b"abc")
            writer.write_eof()
            assert await reader.read(-1) == b"cba"
        await left.close()
    assert not door.path.exists()


async def test_a_hall_that_is_away_ends_the_connection(tmp_path: Path) -> None:
    async with hall(answer_at_the_end) as port:
        pass
    async with (
        opened(tmp_path / "hall.sock", leading_to("127.0.0.1", port)) as door,
        through(door) as (reader, _),
    ):
        assert await _rest(reader) == b""


async def test_connections_above_the_limit_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors, "MAX_CONNECTIONS", 1)
    async with (
        hall(answer_at_the_end) as port,
        opened(tmp_path / "hall.sock", leading_to("127.0.0.1", port)) as door,
        through(door) as (reader, writer),
    ):
        writer.write(b"a")
        async with through(door) as (second, second_writer):
            second_writer.write(b"b")
            second_writer.write_eof()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(second.read(1), 0.1)
            writer.write_eof()
            assert await reader.read(-1) == b"a"
            assert await second.read(-1) == b"b"


async def test_closing_a_door_ends_what_goes_through_it(tmp_path: Path) -> None:
    async with hall(wait_for_the_end) as port:
        door = Door(tmp_path / "hall.sock", leading_to("127.0.0.1", port))
        door.open()
        async with through(door) as (reader, writer):
            writer.write(b"a")
            await writer.drain()
            await door.close()
            assert await _rest(reader) == b""


async def _rest(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(-1)
    except ConnectionResetError:
        return b""
