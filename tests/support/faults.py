"""A TCP relay between agents and a hall that goes wrong on request."""

import asyncio
import socket
import struct
from types import TracebackType
from typing import Final, Self

_PIECE: Final = 64 * 1024
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class FaultProxy:
    """`async with FaultProxy(port) as proxy`: agents connect to `proxy.url`. All faults hold for all lines."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._lines: list[_Line] = []
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.delay = 0.0  # seconds that every piece is held back
        self.piece = _PIECE  # bytes that are passed on at once
        self._cut_after: int | None = None  # bytes towards the hall before the lines are cut

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"ws://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self.drop()
        await asyncio.gather(*(line.ended() for line in self._lines))

    def stall(self) -> None:
        """Pass nothing on, in either direction, and keep both sides open."""
        self._flowing.clear()

    def cut_after(self, count: int) -> None:
        """Pass this many more bytes towards the hall, then close both sides."""
        self._cut_after = count

    def drop(self) -> None:
        """Reset both sides, as a machine that lost its power would when it is back."""
        for line in self._lines:
            line.reset()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hall_reader, hall_writer = await asyncio.open_connection("127.0.0.1", self._port)
        line = _Line(self, (reader, writer), (hall_reader, hall_writer))
        self._lines.append(line)
        await line.ended()

    async def allowed(self, piece: bytes, *, towards_hall: bool) -> bytes:
        """What of the piece may pass, when it may."""
        if self.delay:
            await asyncio.sleep(self.delay)
        await self._flowing.wait()
        if not towards_hall or self._cut_after is None:
            return piece
        passed = piece[: self._cut_after]
        self._cut_after -= len(passed)
        return passed

    @property
    def is_cut(self) -> bool:
        return self._cut_after == 0


_Side = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Line:
    def __init__(self, proxy: FaultProxy, agent: _Side, hall: _Side) -> None:
        self._proxy = proxy
        self._writers = (agent[1], hall[1])
        self._pumps = (
            asyncio.create_task(self._pump(agent[0], hall[1], towards_hall=True)),
            asyncio.create_task(self._pump(hall[0], agent[1], towards_hall=False)),
        )

    def reset(self) -> None:
        for writer in self._writers:
            connection: socket.socket = writer.get_extra_info("socket")
            if not writer.is_closing():
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            writer.transport.abort()
        for pump in self._pumps:
            pump.cancel()

    async def ended(self) -> None:
        await asyncio.wait(self._pumps)
        for writer in self._writers:
            writer.close()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, towards_hall: bool
    ) -> None:
        try:
            while piece := await reader.read(self._proxy.piece):
                writer.write(await self._proxy.allowed(piece, towards_hall=towards_hall))
                await writer.drain()
                if towards_hall and self._proxy.is_cut:
                    break
        except ConnectionError:
            pass
        for other in self._writers:
            other.close()
