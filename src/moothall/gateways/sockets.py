"""The plain sockets of a port, read in turns with an epoll of their own.

The transports of an event loop are made for any program, and an idle one takes as much memory as an idle agent.
Here a socket is one small object. The event loop watches one file, the epoll. When that is readable, a turn begins:
all sockets that have something are read, and then the port writes. A short write while others are still read waits
for that, so writes follow each other, and a process with many peers is woken up less often. The end of a stream
leaves in the packet of its last bytes.
"""

import asyncio
import socket
from collections.abc import Callable, Iterable, Sequence
from select import EPOLLIN, EPOLLOUT, epoll
from typing import Any, Final

from moothall.gateways.transport import TRANSPORT_HIGH_WATER, Guest, Listening, Transport
from moothall.hall.outside import Log

MOST_EVENTS: Final = 256  # sockets that are read in one look
MOST_READ: Final = 2 * 1024 * 1024  # bytes that are read in one look: timers and other sockets wait meanwhile
MOST_ACCEPTED: Final = 16  # connections that are accepted in one look, for each address of the port
MOST_HELD: Final = 4096  # bytes for one peer that wait for the end of a look: what any kernel has room for
NO_FILES_PAUSE: Final = 1.0  # seconds until the port accepts again, after the process had no file left


class SocketTransport(Transport):
    """It has the calls of `asyncio.Transport`, and means the same by them."""

    __slots__ = (
        "_buried",
        "_closing",
        "_ending",
        "_error",
        "_got_eof",
        "_guest",
        "_held",
        "_high",
        "_ip",
        "_is_done",
        "_sockets",
        "_stuck",
        "_unsent",
        "_watched",
        "socket",
    )

    def __init__(self, sockets: "Sockets", connected: socket.SocketType, ip: str) -> None:
        self.socket = connected
        self._sockets = sockets
        self._ip = ip  # of the peer, until the guest has asked for it
        self._guest: Guest | None = None
        self._watched = 0  # what epoll tells of
        self._held = b""  # leaves at the end of the look
        self._unsent: bytearray | None = None  # what the kernel had no room for
        self._high = TRANSPORT_HIGH_WATER
        self._stuck = False  # the guest was told to write no more
        self._got_eof = False  # there is nothing more to read
        self._is_done = False  # nothing more is written
        self._ending = False  # the stream ends after what is unsent
        self._closing = False
        self._buried = False
        self._error: Exception | None = None  # of the socket, which ended it

    def begin(self, guest: Guest) -> None:
        self._guest = guest
        self._watch(EPOLLIN)
        guest.connection_made(self)
        self._ip = ""

    # -- what the connection calls -----------------------------------------------------------------

    def write(self, data: bytes) -> None:
        if self._is_done:
            return
        if self._unsent is not None:
            self._unsent += data
            self._count_unsent(self._unsent)
        elif self._held or self._sockets.is_reading:
            self._hold(data)
        else:
            self._send(data)

    def write_eof(self) -> None:
        if self._is_done:
            return
        self._is_done = self._ending = True
        if not self._held and self._unsent is None:
            self._end_stream()

    def set_write_buffer_limits(self, high: int) -> None:
        self._high = high

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        """Bytes that the kernel had no room for. Those that are held are not known to be among them yet."""
        return 0 if self._unsent is None else len(self._unsent)

    def pause_reading(self) -> None:
        self._watch(self._watched & ~EPOLLIN)

    def resume_reading(self) -> None:
        if not self._closing and not self._got_eof:
            self._watch(self._watched | EPOLLIN)

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        """Send what was written, then close."""
        if self._closing:
            return
        self._is_done = self._closing = True
        if self._held or self._unsent is not None:
            self._watch(self._watched & ~EPOLLIN)
        else:
            self._bury(None)

    def abort(self) -> None:
        self._bury(None)

    def get_extra_info(self, name: str) -> Any:
        if name == "socket":
            return self.socket
        if name == "sockname":
            return self.socket.getsockname()
        if name == "peername":
            return (self._ip,)
        return None

    # -- what the sockets call ---------------------------------------------------------------------

    def ready(self, events: int) -> None:
        if self._watched & EPOLLIN and events & ~EPOLLOUT:
            self._read()  # first: to send to a peer that is gone fails, and its last words would be lost
        if self._unsent is not None and (events & EPOLLOUT or not self._watched & EPOLLIN):
            self._send_unsent()

    def release(self) -> None:
        """The look ends: send what was held."""
        held, self._held = self._held, b""
        if not held:
            return
        self._send(held)
        if self._unsent is None and not self._buried:
            self._after_the_last()

    def end(self) -> None:
        """Close the socket, and tell the guest."""
        guest, self._guest = self._guest, None
        error, self._error = self._error, None  # whose traceback refers to this transport
        self.socket.close()  # so epoll forgets it
        if guest is not None:
            guest.connection_lost(error)

    # -- reading -----------------------------------------------------------------------------------

    def _read(self) -> None:
        try:
            data = self.socket.recv(self._sockets.share)
        except BlockingIOError:
            return
        except OSError as error:
            self._bury(error)
            return
        guest = self._guest
        if guest is None:
            return
        if data:
            guest.data_received(data)
            return
        self._got_eof = True
        if guest.eof_received():
            self._watch(self._watched & ~EPOLLIN)
        else:
            self.close()

    def _watch(self, events: int) -> None:
        """Have epoll tell of these. A socket with none is not known to it, because it would tell of its errors."""
        watched = self._watched
        if events == watched or self._buried:
            return
        self._watched = events
        if not watched:
            self._sockets.epoll.register(self.socket, events)
        elif events:
            self._sockets.epoll.modify(self.socket, events)
        else:
            self._sockets.epoll.unregister(self.socket)

    # -- writing -----------------------------------------------------------------------------------

    def _hold(self, data: bytes) -> None:
        if not self._held:
            self._sockets.held.append(self)
        self._held += data
        if len(self._held) > MOST_HELD:
            held, self._held = self._held, b""
            self._send(held)

    def _send(self, data: bytes) -> None:
        try:
            sent = self.socket.send(data, socket.MSG_MORE) if self._ending else self.socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._bury(error)
            return
        if sent < len(data):
            self._unsent = bytearray(data[sent:])
            self._watch(self._watched | EPOLLOUT)
            self._count_unsent(self._unsent)

    def _send_unsent(self) -> None:
        unsent = self._unsent
        if unsent is None:
            return
        try:
            sent = self.socket.send(unsent)
        except BlockingIOError:
            return
        except OSError as error:
            self._bury(error)
            return
        del unsent[:sent]
        if not unsent:
            self._unsent = None
            self._watch(self._watched & ~EPOLLOUT)
        if self._stuck and len(unsent) <= self._high // 4:
            self._stuck = False
            if self._guest is not None:
                self._guest.resume_writing()
        if self._unsent is None and not self._held:
            self._after_the_last()

    def _count_unsent(self, unsent: bytearray) -> None:
        if len(unsent) > self._high and not self._stuck and self._guest is not None:
            self._stuck = True
            try:
                self._guest.pause_writing()
            except Exception as error:  # noqa: BLE001  # a bug of ours: the caller, often of many writes, goes on
                self._sockets.broke(self, error)

    def _after_the_last(self) -> None:
        """All that was written is sent."""
        if self._closing:
            self._bury(None)
        elif self._ending:
            self._end_stream()

    def _end_stream(self) -> None:
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError as error:  # the peer is gone
            self._bury(error)

    def _bury(self, error: Exception | None) -> None:
        """Neither read nor write any more. The guest is told after this turn."""
        if self._buried:
            return
        self._buried = self._closing = self._is_done = True
        self._watched = 0
        self._error = error
        self._held = b""
        self._unsent = None
        self._sockets.bury(self)


class Sockets(Listening):
    """The listening sockets of a port, and all that were accepted."""

    def __init__(
        self,
        listening: Iterable[socket.SocketType],
        guest: Callable[[], Guest],
        at_the_end: Callable[[], None],
        read_at_once: int,
        log: Log,
    ) -> None:
        """`at_the_end` is called at the end of each turn. `read_at_once`: bytes of one connection."""
        self._listening = {opened.fileno(): opened for opened in listening}
        self._read_at_once = read_at_once
        self.share = read_at_once  # of each socket in this look
        self.is_reading = False
        self.epoll = epoll()
        self.held: list[SocketTransport] = []
        self._guest = guest
        self._at_the_end = at_the_end
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._transports: dict[int, SocketTransport] = {}
        self._buried: list[SocketTransport] = []
        self._is_closed = False
        for number in self._listening:
            self.epoll.register(number, EPOLLIN)
        self._loop.add_reader(self.epoll.fileno(), self._take_turn)

    @property
    def sockets(self) -> Sequence[socket.SocketType]:
        return list(self._listening.values())

    def look(self) -> None:
        """Read all sockets that have something now, then send what was written meanwhile."""
        self.is_reading = True
        try:
            ready = self.epoll.poll(0, MOST_EVENTS)
            self.share = min(self._read_at_once, MOST_READ // (len(ready) or 1))
            for number, events in ready:
                transport = self._transports.get(number)
                if transport is None:
                    self._accept(number)
                    continue
                try:
                    transport.ready(events)
                except Exception as error:  # noqa: BLE001  # a bug of ours: the others go on
                    self.broke(transport, error)
        finally:
            self.is_reading = False
        held, self.held = self.held, []
        for transport in held:
            transport.release()

    def bury(self, transport: SocketTransport) -> None:
        if not self._buried:
            self._loop.call_soon(self._end_buried)
        self._buried.append(transport)

    def broke(self, transport: SocketTransport, error: Exception) -> None:
        self._tell("a connection could not be handled", error)
        transport.abort()

    def close(self) -> None:
        self._is_closed = True
        for listening in self._listening.values():
            listening.close()
        self._listening.clear()
        self._close_if_empty()

    # -- turns -------------------------------------------------------------------------------------

    def _take_turn(self) -> None:
        self.look()
        self._at_the_end()

    def _accept(self, number: int) -> None:
        listening: Any = self._listening.get(number)
        if listening is None:
            return  # it ended in this turn
        for _ in range(MOST_ACCEPTED):
            try:
                # `accept` looks up names for the family and the type, which takes longer than this call.
                descriptor, peer = listening._accept()  # noqa: SLF001
            except BlockingIOError:
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                self._pause(number, error)
                return
            connected = socket.SocketType(listening.family, socket.SOCK_STREAM, 0, descriptor)
            connected.setblocking(False)
            ip: str = peer[0]
            if "%" in ip:  # the interface of a link-local address
                ip = ip.partition("%")[0]
            transport = self._transports[descriptor] = SocketTransport(self, connected, ip)
            try:
                transport.begin(self._guest())
            except Exception as error:  # noqa: BLE001  # a bug of ours: this connection ends, the others go on
                self.broke(transport, error)

    def _pause(self, number: int, error: OSError) -> None:
        """Most likely the process has no file left, and will have one when a connection has ended."""
        port = self._listening[number].getsockname()[1]
        self._log.warning("accept_failed", port=port, reason=error.strerror, seconds=NO_FILES_PAUSE)
        self.epoll.modify(number, 0)
        self._loop.call_later(NO_FILES_PAUSE, self._accept_again, number)

    def _accept_again(self, number: int) -> None:
        if number in self._listening:
            self.epoll.modify(number, EPOLLIN)  # which needs no memory: to register again could fail

    def _tell(self, what: str, error: Exception) -> None:
        self._loop.call_exception_handler({"message": what, "exception": error})

    # -- the end -----------------------------------------------------------------------------------

    def _end_buried(self) -> None:
        buried, self._buried = self._buried, []
        for transport in buried:
            self._transports.pop(transport.socket.fileno(), None)
            try:
                transport.end()
            except Exception as error:  # noqa: BLE001  # a bug of ours: the others end too
                self._tell("a connection could not be ended", error)
        self._close_if_empty()

    def _close_if_empty(self) -> None:
        if self._is_closed and not self._transports and not self.epoll.closed:
            self._loop.remove_reader(self.epoll.fileno())
            self.epoll.close()
