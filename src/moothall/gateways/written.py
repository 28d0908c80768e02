"""Which messages have reached the kernel: what DELIVERED in a delivery receipt stands on.

A message waits in the outbox until the end of the turn, and then in the transport until the kernel takes it. Few
messages are watched, so nothing is counted on the way that all of them take. Instead, a connection has a
`CountedTransport` in place of its own while a message to it is watched. With TLS, what is said here of the kernel
holds for the TLS layer of the event loop, which may keep as much as a transport keeps below its high-water mark.
"""

import asyncio
from collections import deque
from typing import Any, Final, Protocol

from moothall.gateways.transport import Transport
from moothall.hall.outside import Written

# After a flush the event loop writes at the end of its turn, so the second look finds most messages written.
QUICK_LOOKS: Final = 2
LATER: Final = 0.1  # seconds between looks at connections whose peers read slowly


class Watched(Protocol):
    """A connection, as this module sees it."""

    transport: Transport

    @property
    def unread(self) -> int:
        """Bytes that were put and that the kernel has not taken yet."""


class CountedTransport(Transport):
    """Passes everything on to the transport of a connection, and counts the bytes."""

    def __init__(self, transport: Transport) -> None:
        self.inner = transport
        self._handed = transport.get_write_buffer_size()
        self.marks: deque[tuple[int, Written]] = deque()  # the position of the last byte, and whom to tell

    @property
    def written(self) -> int:
        """Bytes that the kernel took, counted from the first watched message on."""
        return self._handed - self.inner.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        self._handed += len(data)
        self.inner.write(data)

    def get_write_buffer_size(self) -> int:
        return self.inner.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int) -> None:
        self.inner.set_write_buffer_limits(high)

    def get_extra_info(self, name: str) -> Any:
        return self.inner.get_extra_info(name)

    def is_closing(self) -> bool:
        return self.inner.is_closing()

    def close(self) -> None:
        self.inner.close()

    def abort(self) -> None:
        self.inner.abort()

    def can_write_eof(self) -> bool:
        return self.inner.can_write_eof()

    def write_eof(self) -> None:
        self.inner.write_eof()

    def pause_reading(self) -> None:
        self.inner.pause_reading()

    def resume_reading(self) -> None:
        self.inner.resume_reading()


class WriteWatch:
    """The watched messages of all connections of a port."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._watched: dict[Watched, CountedTransport] = {}
        self._recent: dict[Watched, int] = {}  # looks since its last message
        self._soon: asyncio.Handle | None = None
        self._later: asyncio.Handle | None = None

    def __len__(self) -> int:
        return len(self._watched)

    def watch(self, connection: Watched, told: Written) -> None:
        """Tell when all that was put into the connection so far is written, or that it is lost."""
        counted = self._watched.get(connection)
        if counted is None:
            counted = self._watched[connection] = CountedTransport(connection.transport)
            connection.transport = counted
        counted.marks.append((counted.written + connection.unread, told))
        self._recent[connection] = 0
        if self._soon is None:
            self._soon = self._loop.call_soon(self._look_at_recent)

    def lost(self, connection: Watched) -> None:
        """Nothing more is written to the connection. What the last look did not find written counts as lost."""
        counted = self._watched.pop(connection, None)
        self._recent.pop(connection, None)
        if counted is not None:
            connection.transport = counted.inner
            for _, told in counted.marks:
                told(False)

    def close(self) -> None:
        for handle in (self._soon, self._later):
            if handle is not None:
                handle.cancel()
        self._soon = self._later = None

    def _look_at_recent(self) -> None:
        """Peers that read slowly are left to `_look_at_all`, or each message would cost a look at all of them."""
        self._soon = None
        for connection in list(self._recent):
            looks = self._recent.pop(connection, None)
            if looks is not None and not self._is_done(connection) and looks + 1 < QUICK_LOOKS:
                self._recent.setdefault(connection, looks + 1)
        if self._recent and self._soon is None:
            self._soon = self._loop.call_soon(self._look_at_recent)
        if self._watched and self._later is None:
            self._later = self._loop.call_later(LATER, self._look_at_all)

    def _look_at_all(self) -> None:
        self._later = None
        for connection in list(self._watched):
            self._is_done(connection)
        if self._watched and self._later is None:
            self._later = self._loop.call_later(LATER, self._look_at_all)

    def _is_done(self, connection: Watched) -> bool:
        """Tell what is written by now. True if nothing more is watched there."""
        counted = self._watched.get(connection)
        if counted is None:
            return True
        written, marks = counted.written, counted.marks
        while marks and marks[0][0] <= written:
            marks.popleft()[1](True)
        if not marks and self._watched.get(connection) is counted:
            del self._watched[connection]
            connection.transport = counted.inner
        return not marks
