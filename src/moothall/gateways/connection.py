"""One socket: first HTTP, then WebSocket, with an outbox that is bounded in bytes.

Whatever is put into the outbox during one turn of the event loop leaves in one write at its end. When the
kernel takes no more, the outbox holds the rest: frames are shared between all who are to get them, so a queue
costs references, not copies. A peer that leaves more than the limit unread is closed; nobody else notices.
"""

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from moothall.wire import websocket
from moothall.wire.http import MAX_HEAD, BadRequest, Request, Response, accept_upgrade, parse_head
from moothall.wire.origins import is_loopback, may_connect
from moothall.wire.websocket import (
    BINARY,
    CLOSE,
    INTERNAL_ERROR,
    NORMAL,
    PING,
    POLICY_VIOLATION,
    PONG,
    TEXT,
    FrameReader,
    Violation,
    encode_close,
    encode_frame,
)

if TYPE_CHECKING:
    from moothall.gateways.port import Port

# The transport's own buffer: enough to keep a reader on a fast line busy between two turns of the loop, little
# enough that what waits, waits in our outbox, where it is counted.
TRANSPORT_HIGH_WATER: Final = 64 * 1024
# How long a peer has to take the rest and answer our close frame before the line is cut.
LINGER: Final = 2.0

PING_FRAME: Final = encode_frame(PING, b"")


class Room(Protocol):
    """Who lives behind the socket: the hall, or an echo."""

    def connect(self, link: Any, ip: str, user_agent: str, *, is_loopback: bool) -> Any: ...

    def receive(self, guest: Any, payload: bytes) -> None: ...

    def receive_binary(self, guest: Any, payload: bytes) -> None: ...

    def disconnect(self, guest: Any) -> None: ...

    def fail(self, guest: Any) -> None: ...


class Connection(asyncio.Protocol):
    __slots__ = (
        "_backlog",
        "_closing",
        "_counted",
        "_guest",
        "_head",
        "_linger",
        "_port",
        "_queue",
        "_reader",
        "_stuck",
        "_transport",
        "heard",
        "missed",
    )

    _transport: asyncio.Transport

    def __init__(self, port: "Port") -> None:
        self._port = port
        self._head: bytes | None = b""  # the request so far; None once it is answered
        self._reader: FrameReader | None = None  # None until the upgrade
        self._guest: Any = None
        self._queue: list[bytes] = []
        self._stuck = False  # the transport takes no more
        self._counted = 0  # frames of the queue that are in `_backlog`
        self._backlog = 0  # bytes that wait because of that
        self._closing = False  # our close frame is on its way
        self._linger: asyncio.TimerHandle | None = None
        self.heard = True  # something arrived since the last ping
        self.missed = 0  # pings without an answer

    # -- what the event loop calls -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=TRANSPORT_HIGH_WATER)
        self._port.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._queue.clear()
        self._backlog = self._counted = 0
        if self._linger is not None:
            self._linger.cancel()
        self._leave()
        self._port.lost(self)

    def data_received(self, data: bytes) -> None:
        self.heard = True
        if self._reader is not None:
            self._read_frames(self._reader, data)
        elif self._head is not None:
            self._read_head(self._head + data)

    def pause_writing(self) -> None:
        self._stuck = True

    def resume_writing(self) -> None:
        self._stuck = False
        self._backlog = self._counted = 0
        self.flush()

    # -- what the room calls -----------------------------------------------------------------------

    def put(self, frame: bytes) -> None:
        if self._closing:
            return
        if not self._queue:
            self._port.mark(self)
        self._queue.append(frame)

    def close(self, code: int, reason: str) -> None:
        """Send what is queued and a close frame, then wait a moment for the peer's."""
        if self._closing:
            return
        self.put(encode_close(code, reason))
        self._closing = True
        self.flush()
        self._linger = self._port.loop.call_later(LINGER, self._transport.abort)

    def pause(self) -> None:
        self._transport.pause_reading()

    def resume(self) -> None:
        if not self._transport.is_closing():
            self._transport.resume_reading()

    # -- what the port calls -----------------------------------------------------------------------

    @property
    def is_websocket(self) -> bool:
        return self._reader is not None

    @property
    def waiting_bytes(self) -> int:
        return self._backlog + self._transport.get_write_buffer_size()

    def flush(self) -> None:
        queue = self._queue
        if not queue:
            return
        if self._stuck:
            self._count_backlog()
            return
        self._port.frames_sent += len(queue)
        self._transport.write(queue[0] if len(queue) == 1 else b"".join(queue))
        queue.clear()

    def abort(self) -> None:
        self._leave()
        self._transport.abort()

    # -- outbox ------------------------------------------------------------------------------------

    def _count_backlog(self) -> None:
        queue = self._queue
        for index in range(self._counted, len(queue)):
            self._backlog += len(queue[index])
        self._counted = len(queue)
        if self._backlog > self._port.peak_backlog:
            self._port.peak_backlog = self._backlog
        if self._backlog > self._port.outbox_limit and not self._closing:
            self._overflow()

    def _overflow(self) -> None:
        """It stopped reading. What it missed is dropped; the close frame goes where the transport has room."""
        self._port.overflowed(self)
        self._queue.clear()
        self._backlog = self._counted = 0
        self._closing = True
        self._transport.write(encode_close(POLICY_VIOLATION, "Outbox full: you read too slowly"))
        self._linger = self._port.loop.call_later(LINGER, self._transport.abort)
        self._leave()

    # -- WebSocket ---------------------------------------------------------------------------------

    def _read_frames(self, reader: FrameReader, data: bytes) -> None:
        room = self._port.room
        try:
            for opcode, payload in reader.feed(data):
                if self._closing:
                    # Only the peer's answer to our close frame still matters.
                    if opcode == CLOSE:
                        self._transport.close()
                        return
                elif opcode == TEXT:
                    room.receive(self._guest, payload)
                elif opcode == BINARY:
                    room.receive_binary(self._guest, payload)
                elif opcode == PING:
                    self.put(encode_frame(PONG, payload))
                elif opcode == CLOSE:
                    self._answer_close(payload)
                    return
        except Violation as violation:
            self._end(violation.code, violation.reason)
        except Exception:  # noqa: BLE001  # a bug of ours: this connection ends, the others go on
            self._port.bug("a message could not be handled")
            room.fail(self._guest)
            self._end(INTERNAL_ERROR, "Internal error")

    def _answer_close(self, payload: bytes) -> None:
        code, _ = websocket.decode_close(payload)
        self.put(encode_close(code) if code is not None else encode_frame(CLOSE, b""))
        self._closing = True
        self.flush()
        self._leave()
        self._transport.close()
        self._linger = self._port.loop.call_later(LINGER, self._transport.abort)

    def _end(self, code: int, reason: str) -> None:
        if self._closing:
            self._transport.close()
        else:
            self.close(code, reason)
        self._leave()

    def _leave(self) -> None:
        guest, self._guest = self._guest, None
        if guest is not None:
            self._port.room.disconnect(guest)

    # -- HTTP --------------------------------------------------------------------------------------

    def _read_head(self, head: bytes) -> None:
        end = head.find(b"\r\n\r\n", 0, MAX_HEAD)
        if end < 0:
            self._head = head
            if len(head) > MAX_HEAD:
                self._respond(BadRequest(431, "Request head too large").response)
            return
        self._head = None
        try:
            request = parse_head(head[:end])
            if request.wants_websocket:
                self._upgrade(request, head[end + 4 :])
            else:
                self._respond(
                    self._port.serve(request, self._peer(request)), head_only=request.method == "HEAD"
                )
        except BadRequest as refused:
            self._respond(refused.response)

    def _upgrade(self, request: Request, rest: bytes) -> None:
        answer = accept_upgrade(request)
        if not self._may_connect(request):
            self._port.refused_origin(self._peer(request))
            raise BadRequest(403, "Pages of this origin may not connect")
        self._transport.write(answer)
        self._reader = FrameReader(self._port.max_message)
        self._port.upgraded(self)
        ip = self._peer(request)
        user_agent = request.headers.get("user-agent", "")[:256]
        self._guest = self._port.room.connect(self, ip, user_agent, is_loopback=is_loopback(ip))
        if rest and self._guest is not None:
            self._read_frames(self._reader, rest)

    def _may_connect(self, request: Request) -> bool:
        local = self._transport.get_extra_info("sockname")
        return may_connect(
            request.headers.get("origin"),
            request.headers["host"],
            secure=self._port.secure,
            on_loopback=is_loopback(local[0]),
            allowed=self._port.allowed_origins,
        )

    def _peer(self, request: Request) -> str:
        """The address behind the trusted proxies: of those that X-Forwarded-For lists, the last that is not one."""
        peer = self._transport.get_extra_info("peername")
        ip = str(peer[0]) if peer else "unknown"
        forwarded = request.headers.get("x-forwarded-for", "")
        for hop in reversed([hop.strip() for hop in forwarded.split(",") if hop.strip()]):
            if ip not in self._port.trusted_proxies:
                break
            ip = hop[:64]
        return ip

    def _respond(self, response: Response, *, head_only: bool = False) -> None:
        self._head = None
        self._closing = True
        self._transport.write(response.encode(head_only=head_only))
        self._transport.close()
        self._linger = self._port.loop.call_later(LINGER, self._transport.abort)


__all__ = ["NORMAL", "PING_FRAME", "Connection", "Room"]
