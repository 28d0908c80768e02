"""Connections to ports of a container's loopback, passed on to sockets that the host has put into it.

A container without a network reaches the hall in this way. It is a loop over one selector, without asyncio, because
each agent has one in memory. A connection is two flows of bytes. Each has a buffer of its own: a full one stops the
reading, so a slow reader slows its own sender and no other connection. The end of one flow is passed on, and the
other one goes on until it ends too.
"""

import selectors
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

MAX_CONNECTIONS: Final = 64  # of a container; more wait in the backlog
BUFFER: Final = 64 * 1024  # bytes of one flow

_BACKLOG: Final = 16


class _Flow:
    """Bytes from one socket to another."""

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self.source = source
        self.sink = sink
        self.buffer = bytearray()
        self.is_ended = False  # the source has nothing more to say
        self.is_done = False  # and the sink knows it

    @property
    def is_waiting(self) -> bool:
        """True if more may be read."""
        return not self.is_ended and len(self.buffer) < BUFFER

    def fill(self) -> None:
        """Read what is there, once. Raises OSError."""
        if self.is_waiting:
            with suppress(BlockingIOError):
                read = self.source.recv(BUFFER - len(self.buffer))
                self.buffer += read
                self.is_ended = not read

    def drain(self) -> None:
        """Write what can be written. Raises OSError."""
        with suppress(BlockingIOError):
            while self.buffer:
                del self.buffer[: self.sink.send(self.buffer)]
        if self.is_ended and not self.buffer and not self.is_done:
            self.is_done = True
            self.sink.shutdown(socket.SHUT_WR)


class _Connection:
    """A client and the socket behind the port."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self._flows = (_Flow(client, server), _Flow(server, client))
        self.ends = (client, server)

    def move(self) -> bool:
        """Move the bytes that can be moved. False when the connection is over."""
        try:
            for flow in self._flows:
                flow.fill()
                flow.drain()
        except OSError:  # either end is gone
            return False
        return not all(flow.is_done for flow in self._flows)

    def interest(self, end: socket.socket) -> int:
        """What to wait for at one end. 0: nothing."""
        wanted = 0
        for flow in self._flows:
            if flow.source is end and flow.is_waiting:
                wanted |= selectors.EVENT_READ
            if flow.sink is end and flow.buffer:
                wanted |= selectors.EVENT_WRITE
        return wanted


class Relay:
    """Ports of the loopback, and the socket behind each."""

    def __init__(self, doors: Mapping[int, Path], selector: selectors.BaseSelector) -> None:
        """Listen. Raises OSError, for example if a port is taken."""
        self._selector = selector
        self._listeners: dict[socket.socket, Path] = {}
        self._connections: set[_Connection] = set()
        self._is_full = False
        for port, path in doors.items():
            listener = socket.create_server(("127.0.0.1", port), backlog=_BACKLOG)
            listener.setblocking(False)
            self._listeners[listener] = path
            selector.register(listener, selectors.EVENT_READ, listener)

    @property
    def ports(self) -> list[int]:
        return [listener.getsockname()[1] for listener in self._listeners]

    def handle(self, subject: object) -> None:
        """Act on what the selector has found: the `data` of its key."""
        if isinstance(subject, _Connection):
            self._move(subject)
        elif isinstance(subject, socket.socket):
            self._accept(subject)

    def close(self) -> None:
        for connection in tuple(self._connections):
            self._drop(connection)
        for listener in self._listeners:
            if not self._is_full:
                self._selector.unregister(listener)
            listener.close()

    def _accept(self, listener: socket.socket) -> None:
        try:
            client, _ = listener.accept()
        except OSError:  # the client has gone, or there is no descriptor for it
            return
        client.setblocking(False)
        server = socket.socket(socket.AF_UNIX)
        server.setblocking(False)
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            server.connect(str(self._listeners[listener]))
        except OSError:  # the host does not listen now: the client tries again, as after any lost connection
            client.close()
            server.close()
            return
        connection = _Connection(client, server)
        self._connections.add(connection)
        self._watch(connection)
        self._set_full(len(self._connections) >= MAX_CONNECTIONS)

    def _move(self, connection: _Connection) -> None:
        if connection not in self._connections:  # dropped in this turn, by an event of its other end
            return
        if connection.move():
            self._watch(connection)
        else:
            self._drop(connection)

    def _watch(self, connection: _Connection) -> None:
        """An end with nothing to wait for is not registered: its hang-up would wake the loop again and again."""
        known = self._selector.get_map()
        for end in connection.ends:
            wanted = connection.interest(end)
            if end in known:
                if not wanted:
                    self._selector.unregister(end)
                elif self._selector.get_key(end).events != wanted:
                    self._selector.modify(end, wanted, connection)
            elif wanted:
                self._selector.register(end, wanted, connection)

    def _drop(self, connection: _Connection) -> None:
        self._connections.discard(connection)
        known = self._selector.get_map()
        for end in connection.ends:
            if end in known:
                self._selector.unregister(end)
            end.close()
        self._set_full(False)

    def _set_full(self, is_full: bool) -> None:
        """A full relay does not accept: new connections wait in the backlog."""
        if is_full == self._is_full:
            return
        self._is_full = is_full
        for listener in self._listeners:
            if is_full:
                self._selector.unregister(listener)
            else:
                self._selector.register(listener, selectors.EVENT_READ, listener)
