"""One socket: first HTTP, then WebSocket, with an outbox that is bounded in bytes.

Whatever is put into the outbox during one turn of the event loop leaves in one write at its end. When the
kernel takes no more, the outbox holds the rest: frames are shared between all who are to get them, so a queue
costs references, not copies. A peer that leaves more than the limit unread is closed; others do not notice.

A connection ends in one of three ways. We close: the close frame is sent, and the peer has a moment to answer.
We hang up, because the peer closed, broke the protocol or got its last HTTP response: nothing more is sent or read,
and the peer has a moment to hang up too. Or the line is cut.
"""

from collections.abc import Iterator
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Final

from moothall.gateways.callers import TooManyRequests, answer, is_foreign_page, peer_of
from moothall.gateways.room import Room
from moothall.gateways.transport import TRANSPORT_HIGH_WATER, Guest, Transport
from moothall.hall.budgets import CONNECTION_FRAMES, PIECE_FRAMES
from moothall.hall.outside import Link, Written
from moothall.wire.agentchat.client import MAX_FRAME
from moothall.wire.agentchat.codec import framed
from moothall.wire.http import (
    MAX_HEAD,
    BadRequest,
    Request,
    Response,
    accept_upgrade,
    parse_head,
    usual_upgrade,
    with_subprotocol,
)
from moothall.wire.origins import is_loopback
from moothall.wire.outgoing import Bundle, Outgoing
from moothall.wire.websocket import (
    BINARY,
    CLOSE,
    CONTINUATION,
    INTERNAL_ERROR,
    PIECE,
    PING,
    POLICY_VIOLATION,
    PONG,
    TEXT,
    FrameReader,
    Violation,
    decode_close,
    encode_close,
    encode_frame,
)

if TYPE_CHECKING:
    from moothall.gateways.port import Port

# A message that is longer is counted for its address while its end has not arrived. It is as long as any message is
# with the default `max_frame`.
LONG_MESSAGE: Final = MAX_FRAME
MAX_IGNORED: Final = 64  # frames in one read that are looked through for a close frame, after ours
MAX_HOST: Final = 320  # characters of a Host header: more than the longest name, its port and brackets have


class Connection(Link, Guest):
    """It has the methods of `asyncio.Protocol`, and does not inherit from it: mypyc compiles subclasses of such
    classes badly.

    It inherits from `Link` and `Guest`, so that a compiled hall and port call it without a search by name.
    """

    __slots__ = (
        "_backlog",
        "_closing",
        "_guest",
        "_head",
        "_port",
        "_reader",
        "_rest",
        "_room",
        "calling",
        "group",
        "heard",
        "ip",
        "missed",
        "paused",
        "queue",
        "reserved",
        "stuck",
        "transport",
    )

    transport: Transport

    def __init__(self, port: "Port") -> None:
        self._port = port
        self._head: bytes | None = b""  # the request so far; None once it is answered
        self._reader: FrameReader | None = None  # None until the upgrade, and after hanging up
        self._rest: Iterator[tuple[int, bytes]] | None = None  # frames that were read, but not handled yet
        self._room: Room = port.room  # that of its path, after the upgrade
        self._guest: Any = None
        self.queue: list[bytes] = []
        self.stuck = False  # the transport takes no more
        self._backlog = 0  # bytes of the queue that wait because of that
        self._closing = False  # nothing more is put into the outbox
        self.paused = False  # the room wants nothing more to read for now
        self.reserved = 0  # bytes of long messages that are held, counted for its address
        self.calling = False  # it counts for its address, until the upgrade
        self.ip = ""  # of the socket; after the head, of the client behind the proxies
        self.heard = True  # something arrived since the last ping
        self.missed = 0  # pings without an answer
        self.group: int | None = None  # of the connections that are pinged together

    # -- what the event loop calls -----------------------------------------------------------------

    def arrive(self, transport: Any) -> bool:
        peer = transport.get_extra_info("peername")
        self.ip = str(peer[0]) if peer else "unknown"
        return self._port.admits(self)

    def vanish(self) -> None:
        self._port.uncount(self)

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.transport.set_write_buffer_limits(high=TRANSPORT_HIGH_WATER)
        may_stay = bool(self.ip) or self.arrive(transport)
        self._port.opened(self)
        if not may_stay:
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._port.written.lost(self)
        self.queue.clear()
        self._backlog = 0
        self._leave()
        self._port.lost(self)

    def data_received(self, data: bytes) -> None:
        self.heard = True
        self._port.reads += 1
        reader = self._reader
        if reader is None:
            if self._head is not None:
                self._read_head(self._head + data)
            return
        if self._rest is not None:  # paused, but the transport had read this already
            self._rest = chain(self._rest, reader.feed(data))
            return
        try:
            text = reader.whole_text(data)
            if text is None or self._closing:
                texts = reader.whole_texts(data)
                self._read_frames(reader.feed(data) if texts is None else zip(repeat(TEXT), texts))
                self._reserve()
            else:
                self._room.receive(self._guest, text)
        except Violation as violation:
            self._fail(violation.code, violation.reason)
        except Exception:  # noqa: BLE001  # a bug of ours: this connection ends, the others go on
            self._break()

    def eof_received(self) -> None:
        """The peer will say no more, not even an answer to a ping. What it is owed is sent, in case it listens."""
        self.flush()
        self._closing = True
        self._port.cut_later(self)
        self._leave()

    def pause_writing(self) -> None:
        self.stuck = True
        self._port.stuck.add(self)
        self._backlog = sum(map(len, self.queue))

    def resume_writing(self) -> None:
        self.stuck = False
        self._port.stuck.discard(self)
        self._drain()
        if self._closing and self._reader is None and not self.queue:
            self._end_stream()

    # -- what the room calls -----------------------------------------------------------------------

    @property
    def unread(self) -> int:
        return self.waiting_bytes + (0 if self.stuck else sum(map(len, self.queue)))

    def put(self, outgoing: Outgoing | Bundle) -> None:
        if self._closing:
            return
        queue = self.queue
        frame = outgoing.frame
        if frame is None:
            frame = framed(outgoing)
        if not queue:
            dirty = self._port.dirty  # as `Port.mark` does it, without the call: all messages pass here
            if not dirty:
                self._port.flush_soon()
            dirty.append(self)
        queue.append(frame)
        if self.stuck:
            self._count(frame)

    def when_written(self, told: Written) -> None:
        if self._closing:
            told(False)
        else:
            self._port.written.watch(self, told)

    def put_frame(self, frame: bytes) -> None:
        """A frame that is not a message of the room."""
        self.put(Bundle((), frame=frame))

    def close(self, code: int, reason: str) -> None:
        """Send what is queued and a close frame, then wait a moment for the peer's."""
        if self._closing:
            return
        self._put_last(encode_close(code, reason))
        self._closing = True
        self._port.cut_later(self)
        if self.paused:
            self.resume()  # or we would not see the peer's answer

    def pause(self) -> None:
        """Read no more. Frames that were read already wait too."""
        self.paused = True
        if not self.transport.is_closing():
            self.transport.pause_reading()

    def resume(self) -> None:
        """Go on in the next turn of the loop: the room may be in the middle of something."""
        self.paused = False
        self._port.loop.call_soon(self._go_on)

    # -- what the port calls -----------------------------------------------------------------------

    @property
    def is_websocket(self) -> bool:
        return self._reader is not None

    @property
    def is_closing(self) -> bool:
        return self._closing

    @property
    def waiting_bytes(self) -> int:
        return self._backlog + self.transport.get_write_buffer_size()

    def flush(self) -> None:
        if self.queue and not self.stuck:
            waiting, self.queue = self.queue, []
            self._port.frames_sent += len(waiting)
            self.transport.write(b"".join(waiting))

    def check_backlog(self) -> None:
        if self.waiting_bytes > self._port.outbox_limit and not self._closing:
            self.overflow()

    def overflow(self) -> None:
        """It stopped reading. What it missed is dropped; the close frame goes where the transport has room."""
        self._port.overflowed(self)
        self._port.written.lost(self)
        self.queue.clear()
        self._backlog = 0
        self._closing = True
        self.transport.write(encode_close(POLICY_VIOLATION, "Outbox full: you read too slowly"))
        self._port.cut_later(self)
        self._leave()

    def abort(self) -> None:
        self._closing = True
        self._port.written.lost(self)
        self.queue.clear()
        self._leave()
        self.transport.abort()

    # -- outbox ------------------------------------------------------------------------------------

    def _count(self, frame: bytes) -> None:
        """Mark a connection over its limit; the port closes it at the end of the turn. The caller of `put` may be
        iterating over members, and none may disappear meanwhile."""
        self._backlog += len(frame)
        waiting = self.waiting_bytes
        if waiting > self._port.peak_backlog:
            self._port.peak_backlog = waiting
        if waiting > self._port.outbox_limit:
            self._port.mark(self)

    def _relieve(self) -> None:
        """Flush before the end of the turn. Never call this while iterating over members: see `_count`."""
        self.flush()
        self.check_backlog()

    def _drain(self) -> None:
        """Hand over no more than the transport has room for: what it takes is copied, what waits is shared."""
        waiting, self.queue = self.queue, []
        backlog = self._backlog
        done = 0
        while done < len(waiting) and not self.stuck:
            start, size = done, 0
            while done < len(waiting) and size < TRANSPORT_HIGH_WATER:
                size += len(waiting[done])
                done += 1
            backlog -= size
            self._port.frames_sent += done - start
            self.transport.write(b"".join(waiting[start:done]))
        self.queue = waiting[done:]
        self._backlog = backlog

    # -- the end -----------------------------------------------------------------------------------

    def _put_last(self, frame: bytes) -> None:
        """A close frame. It leaves at once, in one write with what is queued."""
        if self._closing:
            return
        self.queue.append(frame)
        if self.stuck:
            self._count(frame)
        else:
            self.flush()

    def _hang_up(self) -> None:
        """Send what is queued and no more; whatever still arrives is thrown away until the peer is gone too.

        To close the socket instead would make the kernel answer late bytes with a reset, and a reset can
        destroy our last words before the peer has read them.
        """
        self._closing = True
        self._reader = self._head = self._rest = None
        if self.reserved:
            self._port.reserve(self, 0)
        if self.paused:
            self.resume()
        self.flush()
        if not self.queue:
            self._end_stream()
        self._port.cut_later(self)
        self._leave()

    def _end_stream(self) -> None:
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:  # TLS has its own farewell
            self.transport.close()

    def _leave(self) -> None:
        guest, self._guest = self._guest, None
        if guest is None:
            return
        try:
            self._room.disconnect(guest)
        except Exception:  # noqa: BLE001  # a bug of ours: the others go on, also those of the same flush
            self._port.bug("a guest could not leave")

    # -- WebSocket ---------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Read on after a pause, unless another pause has begun."""
        if not self.paused:
            self._read_rest()

    def _read_rest(self) -> None:
        """First the frames that were read before the pause."""
        rest, self._rest = self._rest, None
        try:
            if rest is not None and self._reader is not None:
                self._read_frames(rest)
            self._reserve()
        except Violation as violation:
            self._fail(violation.code, violation.reason)
        except Exception:  # noqa: BLE001  # as in `data_received`
            self._break()
        if not self.paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def _reserve(self) -> None:
        """Count what is held of long messages: of one that is not complete, and of those that wait their turn."""
        if self._reader is None:
            return
        held = self._reader.unfinished
        if self.paused and self._guest is not None:
            held += self._room.waiting_bytes(self._guest)
        if self.reserved or held > LONG_MESSAGE:
            self._port.reserve(self, held)

    def _read_frames(self, frames: Iterator[tuple[int, bytes]]) -> None:
        room = self._room
        seen = size = 0  # of the outbox since it was last relieved: frames, bytes
        ignored = 0
        for opcode, payload in frames:
            # Sixty short questions in one read can have sixty long answers.
            if len(self.queue) != seen:
                size += sum(map(len, self.queue[seen:]))
                if size > TRANSPORT_HIGH_WATER:
                    self._relieve()
                    size = 0
                seen = len(self.queue)
            if self._closing:
                # Only the peer's answer to our close frame still matters, and a flood has none.
                ignored += 1
                if opcode == CLOSE or ignored > MAX_IGNORED:
                    self._hang_up()
                    return
            elif opcode == TEXT:
                room.receive(self._guest, payload)
            elif opcode == BINARY:
                room.receive_binary(self._guest, payload)
            elif opcode == CLOSE:
                self._answer_close(payload)
                return
            elif opcode == PIECE:
                room.receive_piece(self._guest, len(payload))
            elif opcode == CONTINUATION:
                room.receive_piece(self._guest, len(payload))
                room.receive_control(self._guest, 0)
            elif room.receive_control(self._guest, len(payload)) and opcode == PING:
                self.put_frame(encode_frame(PONG, payload))
            if self.paused:
                self._rest = frames
                return

    def _answer_close(self, payload: bytes) -> None:
        decode_close(payload)  # or it is a violation
        self._put_last(encode_frame(CLOSE, payload[:2]))  # its code, if it has one
        self._hang_up()

    def _break(self) -> None:
        """A bug of ours: called while it is handled."""
        self._port.bug("a message could not be handled")
        self._room.fail(self._guest)
        self._fail(INTERNAL_ERROR, "Internal error")

    def _fail(self, code: int, reason: str) -> None:
        """No answer is waited for: what follows a violation is not to be read (RFC 6455, 7.1.7)."""
        self._put_last(encode_close(code, reason))
        self._hang_up()

    # -- HTTP --------------------------------------------------------------------------------------

    def _read_head(self, head: bytes) -> None:
        end = head.find(b"\r\n\r\n", 0, MAX_HEAD)
        if not head[:1].isalpha():
            # Most likely a TLS hello, whose sender would wait for an answer of its own kind until it gives up.
            self.respond(BadRequest(400, "This port speaks plain HTTP and WebSocket").response)
            return
        if end < 0:
            self._head = head
            if len(head) > MAX_HEAD:
                self.respond(BadRequest(431, "Request head too large").response)
            elif not self._port.is_trusted_proxy(self.ip) and not self._port.pays(self.ip, PIECE_FRAMES):
                self.respond(TooManyRequests().response)
            return
        self._head = None
        if self.stuck:  # it asks on before it has read its last answer: no browser does
            self.abort()
            return
        rest = head[end + 4 :]
        try:
            if (usual := usual_upgrade(head[:end])) is not None:
                self._upgrade(*usual, rest)
                return
            request = parse_head(head[:end])
            if request.wants_websocket:
                self._upgrade(request, accept_upgrade(request), rest)
            else:
                answer(self._port, self, request, may_stay=not rest and request.allows_another)
        except BadRequest as refused:
            self.respond(refused.response, head_only=head.startswith(b"HEAD "))

    def _upgrade(self, request: Request, accepted: bytes, rest: bytes) -> None:
        peer = peer_of(self._port, self.ip, request)
        if is_foreign_page(self._port, self.transport, request):
            self._port.refused_origin(peer)
            raise BadRequest(403, "Pages of this origin may not connect")
        if peer != self.ip and not self._port.pays(peer, CONNECTION_FRAMES):
            raise TooManyRequests
        served = self._port.served(request.path)
        if (offered := request.headers.get("sec-websocket-protocol")) is not None:
            accepted = with_subprotocol(accepted, offered, served.subprotocols)
        self.transport.write(accepted)
        self._room = served.room
        self._reader = FrameReader(served.max_message)
        self._port.upgraded(self)
        self.ip = peer
        user_agent = request.headers.get("user-agent", "")[:256]
        self._guest = self._room.connect(
            self,
            self.ip,
            user_agent,
            is_loopback=is_loopback(self.ip),
            host=request.headers["host"][:MAX_HOST],
        )
        if rest:
            self.data_received(rest)

    def respond(self, response: Response, *, head_only: bool = False, may_stay: bool = False) -> None:
        """Answer a plain request. `may_stay`: the client may send another one on this connection."""
        if self._closing:
            return
        stays = may_stay and response.keep_alive
        self.transport.write(response.encode(head_only=head_only, keep_alive=stays))
        if stays or self.transport.get_write_buffer_size():
            self._port.answering(self)
        else:
            self._port.answered(self)
        if stays:
            self._head = b""
        else:
            self._hang_up()
