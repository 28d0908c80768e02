"""A door in front of a hall: it can be shut, and whoever is inside can be cut off."""

import asyncio
from types import TracebackType
from typing import Self

_PIECE = 64 * 1024


class Door:
    """`async with Door(port) as door`: agents come in through `door.url`."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._is_open = True
        self._writers: set[asyncio.StreamWriter] = set()
        self._lines: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._enter, "127.0.0.1", 0)
        self.url = f"ws://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self.drop()
        if self._lines:
            await asyncio.wait(self._lines)

    def drop(self) -> None:
        """Cut everybody off, without a word to either side."""
        for writer in self._writers:
            writer.transport.abort()

    def shut(self) -> None:
        """Cut everybody off and let nobody in."""
        self._is_open = False
        self.drop()

    def open(self) -> None:
        self._is_open = True

    def lead_to(self, port: int) -> None:
        """Another port, for those who come from now on."""
        self._port = port

    async def _enter(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = asyncio.current_task()
        assert line is not None
        self._lines.add(line)
        line.add_done_callback(self._lines.discard)
        if not self._is_open:
            writer.transport.abort()
            return
        hall_reader, hall_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers |= {writer, hall_writer}
        await asyncio.gather(_pump(reader, hall_writer), _pump(hall_reader, writer))
        self._writers -= {writer, hall_writer}


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()
    except ConnectionError:
        pass
    writer.close()
