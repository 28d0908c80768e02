"""What a connection and its socket need of each other: a part of `asyncio.Transport` and `asyncio.Protocol`.

A plain socket is one of `Sockets`. With TLS, and where there is no epoll, the event loop has its own transports.
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol

# Bytes in a transport's own buffer: enough to keep a reader on a fast line busy between two turns of the loop, and
# little enough that what waits, waits in the outbox or backlog of its connection, where it is counted.
TRANSPORT_HIGH_WATER: Final = 64 * 1024


class Transport(Protocol):
    """A class that inherits from this is called without a search by name, where both are compiled."""

    __slots__ = ()

    def write(self, data: bytes) -> None: ...

    def write_eof(self) -> None: ...

    def set_write_buffer_limits(self, high: int) -> None: ...

    def can_write_eof(self) -> bool: ...

    def get_write_buffer_size(self) -> int: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def is_closing(self) -> bool: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...

    def get_extra_info(self, name: str) -> Any: ...


class Guest(Protocol):
    """What a port makes for each connection."""

    __slots__ = ()

    def arrive(self, transport: Any) -> bool:
        """A connection was accepted, perhaps before its TLS handshake. False refuses it. Called once."""

    def vanish(self) -> None:
        """It is gone; if TLS was not there yet, without `connection_made` and `connection_lost`."""

    def connection_made(self, transport: Any) -> None: ...

    def connection_lost(self, exc: Exception | None) -> None: ...

    def data_received(self, data: bytes) -> None: ...

    def eof_received(self) -> bool | None:
        """The peer will send no more. True: it may go on reading."""

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


class Listening(Protocol):
    """What accepts the connections of a port."""

    is_reading: bool  # connections are being read; the port is told when that ends

    @property
    def sockets(self) -> Sequence[Any]: ...

    def look(self) -> None:
        """Read what has arrived since the last look, if the event loop does not do that by itself."""

    def close(self) -> None:
        """Accept nothing more. What was accepted goes on."""
