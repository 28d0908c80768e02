"""One keep socket: frames in, packets out, and queues that are bounded on both sides (keep wire 1, 16).

Packets wait in the inbox until the port checks their signatures, a few of each connection at a time. What leaves
in one turn of the loop leaves in one write, each frame in one piece. When the kernel takes no more, packets wait
in the `Backlog`. A peer that leaves the hall's own answers unread is not read from until there is room again. A
peer that reads nothing until the write deadline is closed, and the senders of what was still waiting are told.
"""

import asyncio
from collections import deque
from typing import Any, Final, NamedTuple, Protocol

from moothall.gateways.keep_arrival import Arrival
from moothall.gateways.keep_backlog import Backlog, Waiting
from moothall.gateways.keep_inbox import Inbox
from moothall.gateways.keep_lines import Lines
from moothall.gateways.transport import TRANSPORT_HIGH_WATER, Guest, Transport
from moothall.hall.budgets import CONNECTION_FRAMES, LEAST_PAUSE, Meter, Price
from moothall.hall.checking import Checks, Proof
from moothall.hall.keep.bridge import DELIVERY_FAILED
from moothall.hall.keep.discovery import reply
from moothall.hall.keep.registry import Peer
from moothall.settings.limits import Rate
from moothall.wire.keep.codec import MalformedPacket, open_packet
from moothall.wire.keep.frames import HEADER, FrameReader
from moothall.wire.origins import is_loopback

MAX_DISCARDED: Final = 16 * 1024  # bytes that arrive after the end of a connection, before it is cut off
MAX_QUEUE: Final = 256 * 1024  # bytes of one turn's write: a packet to a swarm can be a thousand for one peer


class Limits(NamedTuple):
    """Of each connection."""

    rate: Rate  # of packets
    inbox: int  # bytes that were read and not looked at yet, before reading stops
    soft_mark: int  # bytes that wait for the peer, before packets of others are refused
    write_timeout: float  # seconds that a peer may read nothing


class Port(Protocol):
    """What a connection knows of its port."""

    loop: asyncio.AbstractEventLoop
    limits: Limits
    lines: Lines
    secure: bool

    @property
    def batches(self) -> Checks: ...

    def now(self) -> float:
        """The time of the budgets."""

    # A connection begins and ends.
    def admits(self, connection: "KeepConnection") -> bool: ...
    def uncount(self, connection: "KeepConnection") -> None: ...
    def opened(self, connection: "KeepConnection") -> bool: ...
    def registered(self, connection: "KeepConnection") -> None: ...
    def left(self, connection: "KeepConnection") -> None: ...
    def lost(self, connection: "KeepConnection") -> None: ...

    # Packets, and peers that do not read.
    def handle(self, connection: "KeepConnection", arrival: Arrival) -> None: ...
    def malformed(self) -> None: ...
    def expired(self, sender: Peer | None, message_id: str) -> None: ...
    def mark(self, connection: "KeepConnection") -> None: ...
    def stuck(self, connection: "KeepConnection") -> None: ...
    def unstuck(self, connection: "KeepConnection") -> None: ...
    def overflowed(self, connection: "KeepConnection") -> None: ...


class KeepConnection(Guest):
    """See `hall.keep.registry.Peer` for what the room calls. It has the methods of `asyncio.Protocol`, and does not
    inherit from it: what does cannot be compiled well."""

    __slots__ = (
        "_backlog",
        "_discarded",
        "_ended",
        "_gone",
        "_holds_itself",
        "_in_debt",
        "_linger",
        "_port",
        "_queued",
        "_reader",
        "_reading",
        "_stuck",
        "_transport",
        "checked",
        "closing",
        "counted",
        "has_entered",
        "held",
        "inbox",
        "ip",
        "is_loopback",
        "listed",
        "meter",
        "queue",
    )

    _transport: Transport

    def __init__(self, port: Port) -> None:
        self._port = port
        self._reader = FrameReader()
        self._discarded = 0  # bytes that arrived after its end
        self._reading = True
        self._ended = False  # the peer will send no more
        self._gone = False  # nor read any
        self.closing = False  # nothing more is taken in or queued
        self._stuck = False  # the transport takes no more
        self._backlog = Backlog(port.limits.soft_mark)
        self._holds_itself = False  # it is not read from until it has read some of its answers
        self.has_entered = False  # the connection itself was charged to the budgets
        self._in_debt = False  # it has sent more than its budgets allow
        self._linger: asyncio.TimerHandle | None = None
        self.inbox = Inbox()
        self.checked: deque[Arrival] = deque()  # whose turn came while the connection was held
        self.held = 0  # reasons to leave the inbox alone
        self.listed = False  # among those the port will look at
        self.counted = False  # towards the connections of its address
        self.queue: list[bytes] = []  # pieces of this turn's write
        self._queued = 0  # bytes of them
        self.ip = ""
        self.is_loopback = False
        self.meter: Meter | None = None

    # -- what the event loop calls -----------------------------------------------------------------

    def arrive(self, transport: Any) -> bool:
        peer = transport.get_extra_info("peername")
        self.ip = str(peer[0]) if peer else "unknown"
        self.is_loopback = is_loopback(self.ip)
        return self._port.admits(self)

    def vanish(self) -> None:
        self._port.uncount(self)

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._transport.set_write_buffer_limits(high=TRANSPORT_HIGH_WATER)
        may_stay = bool(self.ip) or self.arrive(transport)
        if not self._port.opened(self) or not may_stay:
            self.closing = True
            self._transport.abort()
        elif self.meter is not None:
            # A transport begins to read after this call, whatever is said to it before.
            self._port.loop.call_soon(self._come_in, self.meter)

    def connection_lost(self, exc: Exception | None) -> None:
        """What the peer sent before it went is still handled, if its budgets allow; then the connection ends."""
        self._gone = True
        self.queue = []  # to write to what is gone would end the turn, and others would not get theirs
        self._queued = 0
        if self._linger is not None:
            self._linger.cancel()
        self._tell_senders()
        if self.closing:
            self._leave()
        elif self._in_debt:
            self.hang_up()  # to keep what it left until it can pay for it would fill the memory
        elif not self._ended:
            if self.is_waiting or self._port.batches.is_at_work:
                self._end_input()
            else:
                self.hang_up()

    def data_received(self, data: bytes) -> None:
        if self.closing:
            self._throw_away(data)
            return
        payloads = self._reader.feed(data)
        if payloads:
            self.inbox.extend(payloads, self._port.loop.time())
            if self.inbox.bytes > self._port.limits.inbox:
                self._pause()
            self._port.batches.ready(self)
        if self._reader.broken:
            self._pause()
            self._end_input()

    def eof_received(self) -> bool:
        """A client that has said all still gets its answers (keep wire 1, half close)."""
        self._ended = True
        if self.closing:
            self._transport.close()
            return True
        self._end_input()
        return not self._port.secure  # TLS knows no half close

    def pause_writing(self) -> None:
        self._stuck = True
        self._port.stuck(self)

    def resume_writing(self) -> None:
        self._stuck = False
        self._port.unstuck(self)
        self._drain()
        if self._backlog.has_room:
            self._let_go()
        if self.closing and not self._backlog:
            self._end_stream()

    # -- what the room calls -----------------------------------------------------------------------

    def answer(self, payload: bytes) -> None:
        self.deliver(payload, self, "", 0)

    def deliver(self, payload: bytes, sender: Peer | None, message_id: str, ttl: int) -> bool:
        if self.closing or self._gone:
            return False
        if not self._stuck:
            if not self.queue:
                self._port.mark(self)
            self.queue += (len(payload).to_bytes(HEADER, "big"), payload)
            self._queued += len(payload)
            if self._queued > MAX_QUEUE:
                self.flush()  # which tells us whether the peer reads
            return True
        return self._wait(len(payload).to_bytes(HEADER, "big") + payload, sender, message_id, ttl)

    def hold(self) -> None:
        self.held += 1

    def release(self) -> None:
        self.held -= 1
        if self.meter is not None and not self.has_entered and not self.held:
            self._enter(self.meter)
        while self.checked and not self.held:
            self.handle(self.checked.popleft())
        if self.inbox and not self.held:
            self._port.batches.ready(self)

    def registered(self) -> None:
        self._port.registered(self)

    def close(self) -> None:
        """Close later in this turn: the caller may be going through a list that this connection is in."""
        if not self.closing:
            self.closing = True
            self._port.loop.call_soon(self.hang_up)

    # -- what the port calls -----------------------------------------------------------------------

    @property
    def is_waiting(self) -> bool:
        """True if packets of the peer are not handled yet."""
        return bool(self.inbox or self.checked)

    @property
    def has_waiting(self) -> bool:
        return bool(self.inbox)

    def handle(self, arrival: Arrival) -> None:
        self._port.handle(self, arrival)

    @property
    def is_stuck(self) -> bool:
        return self._stuck

    @property
    def waiting_bytes(self) -> int:
        return self._backlog.bytes + self._transport.get_write_buffer_size()

    def take(self, batch: list[Arrival], most: int) -> int:
        """Move packets from the inbox to the batch, up to this number. Return their bytes."""
        taken = 0
        inbox = self.inbox
        wanted = min(most, len(inbox))
        most, seconds = inbox.allow(wanted, self._port.limits.rate, self._port.loop.time())
        if most < wanted:
            self._port.lines.hold(self, seconds)
        if self.meter is not None and not self._pay(self.meter, most):
            if self._gone:
                inbox.clear()
                batch.append(Arrival(self, arrived=self._port.loop.time()))
            return 0
        for payload, arrived in inbox.take(most):
            if payload is None:
                batch.append(Arrival(self, arrived=arrived))
                break
            taken += len(payload)
            try:
                packet, signed, forwarded = open_packet(payload)
            except MalformedPacket:
                self._port.malformed()
                inbox.clear()
                batch.append(Arrival(self, arrived=arrived))
                break
            proof = Proof(packet.pk, signed, packet.sig)
            batch.append(Arrival(self, proof, arrived=arrived, packet=packet, forwarded=forwarded))
        if not self._reading and inbox.bytes <= self._port.limits.inbox // 2:
            self._resume()
        return taken

    def flush(self) -> None:
        if self.queue:
            joined = b"".join(self.queue)
            self.queue = []
            self._queued = 0
            self._transport.write(joined)

    def hang_up(self) -> None:
        """Send what is queued and no more. What still arrives is thrown away until the peer is gone too.

        To close the socket instead would make the kernel answer late bytes with a reset, and a reset can
        destroy our last words before the peer has read them.
        """
        self.closing = True
        self.inbox.clear()
        self.checked.clear()
        self._leave()
        if self._transport.is_closing():
            return
        if not self._reading:
            self._resume()  # or we would not see the peer go
        self.flush()
        if not self._backlog:
            self._end_stream()
        if self._linger is None:
            self._linger = self._port.loop.call_later(self._port.limits.write_timeout, self._transport.abort)

    def say_goodbye(self) -> None:
        """The hall closes: what is queued is sent, and the peer sees the end of the stream."""
        self.closing = True
        self.flush()
        self._leave()
        self._transport.close()

    def give_up(self) -> None:
        """Close a peer that read nothing for too long, or whose backlog is over the limit."""
        self.closing = True
        self._leave()
        self._tell_senders()
        self._transport.abort()

    def drop(self) -> None:
        """Close at once: it has no identity, and the hall owes it nothing."""
        self.closing = True
        self._transport.abort()

    def abort(self) -> None:
        self._transport.abort()

    # -- the inbox ---------------------------------------------------------------------------------

    def _throw_away(self, data: bytes) -> None:
        """The connection is ending. A peer that goes on sending all the same is cut off."""
        self._discarded += len(data)
        if self._discarded > MAX_DISCARDED:
            self._transport.abort()

    def _end_input(self) -> None:
        self.inbox.end(self._port.loop.time())
        self._port.batches.ready(self)

    def _pay(self, meter: Meter, packets: int) -> bool:
        """Charge this number of packets, whatever is in them. True if the budgets allow it."""
        size = self.inbox.size_of(packets)
        return self._charge(meter, Price(frames=packets, bytes=size, told=packets))

    def _come_in(self, meter: Meter) -> None:
        """Enter at once, or wait in line behind other connections of the same address."""
        if not self._port.lines.has_line(self.ip):
            self._enter(meter)
        elif not self.closing and not self._gone:
            self._pause()
            self._port.lines.join(self, LEAST_PAUSE)

    def _enter(self, meter: Meter) -> None:
        """Pay for the connection itself. Until then nothing is read from it, so it takes up little memory."""
        if self.closing or self._gone:
            return
        self.has_entered = self._charge(meter, Price(frames=CONNECTION_FRAMES))
        if not self.has_entered:
            self._pause()
        elif not self._reading:
            self._resume()

    def _charge(self, meter: Meter, price: Price) -> bool:
        """False: the connection is held until it can pay, unless its peer is gone."""
        shortage = meter.charge(price, self._port.now())
        self._in_debt = shortage is not None
        if shortage is None:
            return True
        if shortage.is_address and not self._gone:
            self._port.lines.join(self, shortage.seconds)
        elif not self._gone:
            self._port.lines.hold(self, shortage.seconds)
        return False

    def _pause(self) -> None:
        if self._reading and not self._transport.is_closing():
            self._reading = False
            self._transport.pause_reading()

    def _resume(self) -> None:
        self._reading = True
        if not self._transport.is_closing():
            self._transport.resume_reading()

    # -- the backlog -------------------------------------------------------------------------------

    def _wait(self, frame: bytes, sender: Peer | None, message_id: str, ttl: int) -> bool:
        expires = self._port.loop.time() + ttl if ttl else None
        is_own = sender is None or sender is self
        if not self._backlog.add(Waiting(frame, sender, message_id, expires), is_own=is_own):
            if sender is None:
                self._port.overflowed(self)
            return False
        if sender is self and self._backlog.is_over_soft_mark and not self._holds_itself:
            self._holds_itself = True
            self.hold()
        return True

    def _let_go(self) -> None:
        if self._holds_itself:
            self._holds_itself = False
            self.release()

    def _drain(self) -> None:
        """Hand over what the transport has room for, without what has waited longer than it may."""
        backlog, now = self._backlog, self._port.loop.time()
        while backlog and not self._stuck:
            frames, expired = backlog.take(TRANSPORT_HIGH_WATER, now)
            for waiting in expired:
                self._port.expired(waiting.sender, waiting.message_id)
            if frames:
                self._transport.write(b"".join(frames))

    def _tell_senders(self) -> None:
        """What still waits will not arrive (seed 004, routing: forward write fails)."""
        for waiting in self._backlog.clear():
            if waiting.sender is not None and waiting.sender is not self:
                waiting.sender.answer(reply(waiting.message_id, DELIVERY_FAILED))
        self._let_go()

    # -- the end -----------------------------------------------------------------------------------

    def _end_stream(self) -> None:
        if not self._ended and self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()

    def _leave(self) -> None:
        self._port.left(self)
        if self._gone:
            self._port.lost(self)
