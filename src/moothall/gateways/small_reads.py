"""A connection of the event loop that reads little at once, however much the peer sends.

The transport of an ordinary protocol reads up to a quarter of a megabyte. To cut that into packets takes a
millisecond, and to keep it for each of thousands of connections takes gigabytes.

The connections of a port cannot be such protocols themselves: they are compiled, and inherit from no class that is
not compiled.
"""

import asyncio

from moothall.gateways.transport import Guest


class SmallReads(asyncio.BufferedProtocol):
    """Stands between a transport and a connection, and tells the connection everything."""

    __slots__ = ("_buffer", "_connection")

    def __init__(self, connection: Guest, buffer: bytearray) -> None:
        """Connections can share the buffer: what is read into it is copied at once."""
        self._connection = connection
        self._buffer = buffer

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def data_received(self, data: bytes) -> None:
        self._connection.data_received(data)

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(memoryview(self._buffer)[:nbytes]))

    def eof_received(self) -> bool | None:
        return self._connection.eof_received()

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()

    def arrive(self, transport: asyncio.BaseTransport) -> bool:
        return self._connection.arrive(transport)

    def vanish(self) -> None:
        self._connection.vanish()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connection.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.connection_lost(exc)
