"""The sockets on the host that lead out of a container. Each leads to one place, which the crew file names.

The keeper of a crew opens them in `run/NAME/`, the folder that an agent sees as /run/moothall. Nothing that comes
through a door chooses where it leads. A door has a bounded number of connections, and each one has bounded buffers.
New ones come at a bounded pace: to accept one costs the keeper and the hall far more than it costs the agent.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from moothall.worker.crew import sockets

MAX_CONNECTIONS: Final = 64  # of one door
PER_SECOND: Final = 50  # new connections of one door, after as many at once as it may have
CHUNK: Final = 64 * 1024  # bytes that are read at once; a connection holds a few of them

_CONNECT_TIME: Final = 10.0  # seconds
_AGAIN: Final = 1.0  # seconds between two tries to accept where that has failed
# The user of the container is another one than the user of the host. The folders above are for the latter alone.
_FOR_THE_CONTAINER: Final = 0o666

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Pace:
    """Lets `burst` through at once, and then so many a second. Pure."""

    def __init__(self, burst: int, per_second: float) -> None:
        self._gap = 1 / per_second
        self._room = burst * self._gap
        self._free_at = 0.0  # when all of the burst is possible again

    def take(self, now: float) -> float:
        """Let one through. Returns the seconds until the next one may come."""
        self._free_at = max(self._free_at, now) + self._gap
        return max(0.0, self._free_at + self._gap - now - self._room)


class Door:
    """A listening socket, and what is done with each of its connections.

    It accepts by itself: a closing asyncio.Server loses connections that it has accepted and not begun to serve.
    """

    def __init__(self, path: Path, serve: Serve) -> None:
        self.path = path
        self._serve = serve
        self._listener: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._places = asyncio.Semaphore(MAX_CONNECTIONS)
        self._pace = Pace(MAX_CONNECTIONS, PER_SECOND)

    def open(self) -> None:
        """Listen, in the place of a door that a killed keeper has left. Raises OSError."""
        self._listener = sockets.listen(self.path)
        self.path.chmod(_FOR_THE_CONTAINER)
        self._begin(self._accept(self._listener))

    async def close(self) -> None:
        """End all connections. The socket's file is gone afterwards."""
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)
        if self._listener is not None:
            self._listener.close()
            self.path.unlink(missing_ok=True)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listener: socket.socket) -> None:
        """Connections above the limits wait in the backlog."""
        loop = asyncio.get_running_loop()
        while True:
            await self._places.acquire()
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError:  # out of descriptors
                self._places.release()
                await asyncio.sleep(_AGAIN)
            else:
                self._begin(self._handle(connection))
                await asyncio.sleep(self._pace.take(loop.time()))

    async def _handle(self, connection: socket.socket) -> None:
        try:
            with suppress(OSError):  # either end is gone, or silent for too long: the client sees it
                reader, writer = await asyncio.open_unix_connection(sock=connection, limit=CHUNK)
                try:
                    await self._serve(reader, writer)
                finally:
                    writer.transport.abort()
        finally:
            connection.close()
            self._places.release()


def leading_to(host: str, port: int) -> Serve:
    """Pass each connection on to this address, byte by byte."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_CONNECT_TIME):
            far_reader, far_writer = await asyncio.open_connection(host, port, limit=CHUNK)
        try:
            await both(_pass_on(reader, far_writer), _pass_on(far_reader, writer))
            await flushed(writer)
        finally:
            far_writer.transport.abort()

    return serve


async def both(*ways: Awaitable[None]) -> None:
    """Until each way has ended, or one has failed. Raises OSError."""
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def flushed(writer: asyncio.StreamWriter) -> None:
    """Close a connection after its last byte has left. Raises OSError."""
    writer.close()
    await writer.wait_closed()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One direction, and its end."""
    while piece := await reader.read(CHUNK):
        writer.write(piece)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
