"""One keep socket: frames in, packets out, and queues that are bounded on both sides (keep wire 1, 16).

Packets wait in the inbox until the port checks their signatures, a few of each connection at a time. What leaves
in one turn of the loop leaves in one write, each frame in one piece. When the kernel takes no more, packets wait
in the backlog, each with the name of its sender. Over the soft mark no packets of others are taken: their senders
learn it at once, and their packets to other peers go on. A peer that leaves the hall's own answers unread is itself
not read from until there is room again. A peer that reads nothing until the write deadline is closed, and the
senders of what was still waiting are told.
"""

import asyncio
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from moothall.hall.budgets import CONNECTION_FRAMES, LEAST_PAUSE, Meter, Price
from moothall.hall.keep.bridge import DELIVERY_FAILED
from moothall.hall.keep.discovery import reply
from moothall.hall.keep.registry import Peer
from moothall.wire.keep.frames import HEADER, FrameReader
from moothall.wire.keep.packet import MalformedPacket, Packet, open_packet
from moothall.wire.origins import is_loopback

if TYPE_CHECKING:
    from moothall.gateways.keep_port import KeepPort

TRANSPORT_HIGH_WATER: Final = (
    64 * 1024
)  # what waits, waits in our backlog, where it has a sender and a deadline
# Times the soft mark: for what comes from the hall itself, lines of channels and answers. Packets of others fill no
# more than a quarter of it, so they cannot get their receiver closed.
HARD_MARK: Final = 4
MAX_DISCARDED: Final = 16 * 1024  # bytes that arrive after the end of a connection, before it is cut off
MAX_QUEUE: Final = 256 * 1024  # bytes of one turn's write: a packet to a swarm can be a thousand for one peer
PER_PACKET: Final = 100  # bytes that a waiting packet costs besides its own, so that tiny ones count too


class Arrival:
    """A packet between its arrival and its handling; without one, where a connection's stream ends."""

    __slots__ = ("arrived", "connection", "forwarded", "packet", "signed", "valid")

    def __init__(
        self,
        connection: "KeepConnection",
        arrived: float,
        packet: Packet | None = None,
        signed: bytes = b"",
        forwarded: bytes = b"",
    ) -> None:
        self.connection = connection
        self.arrived = arrived
        self.packet = packet
        self.signed = signed
        self.forwarded = forwarded
        self.valid = False


class _Waiting(NamedTuple):
    frame: bytes
    sender: Peer | None
    message_id: str
    expires: float | None


class KeepConnection(asyncio.BaseProtocol):
    """See `hall.keep.registry.Peer` for what the room calls."""

    __slots__ = (
        "_backlog",
        "_backlog_bytes",
        "_discarded",
        "_ended",
        "_gone",
        "_has_entered",
        "_holds_itself",
        "_in_debt",
        "_inbox_bytes",
        "_linger",
        "_period",
        "_period_packets",
        "_port",
        "_queued",
        "_reader",
        "_reading",
        "_stuck",
        "_transport",
        "checked",
        "closing",
        "counted",
        "held",
        "inbox",
        "ip",
        "is_loopback",
        "listed",
        "meter",
        "queue",
    )

    _transport: asyncio.Transport

    def __init__(self, port: "KeepPort") -> None:
        self._port = port
        self._reader = FrameReader()
        self._discarded = 0  # bytes that arrived after its end
        self._reading = True
        self._ended = False  # the peer will send no more
        self._gone = False  # nor read any
        self.closing = False  # nothing more is taken in or queued
        self._stuck = False  # the transport takes no more
        self._backlog: deque[_Waiting] = deque()
        self._backlog_bytes = 0
        self._holds_itself = False  # it is not read from until it has read some of its answers
        self._has_entered = False
        self._in_debt = False  # it has sent more than its budgets allow
        self._inbox_bytes = 0
        self._linger: asyncio.TimerHandle | None = None
        self._period = 0.0  # when the current period of the rate limit began
        self._period_packets = 0
        self.inbox: deque[tuple[bytes | None, float]] = deque()  # None: the stream ends here
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

    def arrive(self, transport: asyncio.BaseTransport) -> bool:
        peer = transport.get_extra_info("peername")
        self.ip = str(peer[0]) if peer else "unknown"
        self.is_loopback = is_loopback(self.ip)
        return self._port.admits(self)

    def vanish(self) -> None:
        self._port.uncount(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
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
            if self.is_waiting or self._port.is_at_work:
                self._end_input()
            else:
                self.hang_up()

    def data_received(self, data: bytes) -> None:
        if self.closing:
            self._throw_away(data)
            return
        payloads = self._reader.feed(data)
        if payloads:
            now = self._port.loop.time()
            for payload in payloads:
                self.inbox.append((payload, now))
                self._inbox_bytes += len(payload) + PER_PACKET
            if self._inbox_bytes > self._port.max_inbox:
                self._pause()
            self._port.ready(self)
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
        if self._backlog_bytes <= self._port.soft_mark // 2:
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
        if self.meter is not None and not self._has_entered and not self.held:
            self._enter(self.meter)
        while self.checked and not self.held:
            self._port.handle(self.checked.popleft())
        if self.inbox and not self.held:
            self._port.ready(self)

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
    def has_entered(self) -> bool:
        """True once the connection itself was charged to the budgets."""
        return self._has_entered

    @property
    def is_stuck(self) -> bool:
        return self._stuck

    @property
    def waiting_bytes(self) -> int:
        return self._backlog_bytes + self._transport.get_write_buffer_size()

    def take(self, batch: list[Arrival], most: int) -> int:
        """Move packets from the inbox to the batch, up to this number. Return their bytes."""
        taken = 0
        inbox = self.inbox
        most = self._allowed(min(most, len(inbox)))
        if self.meter is not None and not self._pay(self.meter, most):
            if self._gone:
                self._forget_input()
                batch.append(Arrival(self, self._port.loop.time()))
            return 0
        for _ in range(most):
            payload, arrived = inbox.popleft()
            if payload is None:
                batch.append(Arrival(self, arrived))
                break
            taken += len(payload)
            self._inbox_bytes -= len(payload) + PER_PACKET
            try:
                packet, signed, forwarded = open_packet(payload)
            except MalformedPacket:
                self._port.malformed()
                self._forget_input()
                batch.append(Arrival(self, arrived))
                break
            batch.append(Arrival(self, arrived, packet, signed, forwarded))
        if not self._reading and self._inbox_bytes <= self._port.max_inbox // 2:
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
        self._forget_input()
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
            self._linger = self._port.loop.call_later(self._port.write_timeout, self._transport.abort)

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

    def _forget_input(self) -> None:
        self.inbox.clear()
        self._inbox_bytes = 0

    def _throw_away(self, data: bytes) -> None:
        """The connection is ending. A peer that goes on sending all the same is cut off."""
        self._discarded += len(data)
        if self._discarded > MAX_DISCARDED:
            self._transport.abort()

    def _end_input(self) -> None:
        self.inbox.append((None, self._port.loop.time()))
        self._port.ready(self)

    def _allowed(self, wanted: int) -> int:
        """How many of these packets the rate lets through now. The connection is held if they are fewer."""
        rate = self._port.rate
        if not rate.limit:
            return wanted
        now = self._port.loop.time()
        if now - self._period >= rate.seconds:
            self._period = now
            self._period_packets = 0
        allowed = min(wanted, rate.limit - self._period_packets)
        self._period_packets += allowed
        if allowed < wanted:
            self._hold_for(self._period + rate.seconds - now)
        return allowed

    def _pay(self, meter: Meter, packets: int) -> bool:
        """Charge this number of packets, whatever is in them. True if the budgets allow it."""
        size = sum(len(payload or b"") for payload, _ in islice(self.inbox, packets))
        return self._charge(meter, Price(frames=packets, bytes=size, told=packets))

    def _come_in(self, meter: Meter) -> None:
        """Enter at once, or wait in line behind other connections of the same address."""
        if not self._port.has_line(self.ip):
            self._enter(meter)
        elif not self.closing and not self._gone:
            self._pause()
            self._port.line_up(self, LEAST_PAUSE)

    def _enter(self, meter: Meter) -> None:
        """Pay for the connection itself. Until then nothing is read from it, so it takes up little memory."""
        if self.closing or self._gone:
            return
        self._has_entered = self._charge(meter, Price(frames=CONNECTION_FRAMES))
        if not self._has_entered:
            self._pause()
        elif not self._reading:
            self._resume()

    def _charge(self, meter: Meter, price: Price) -> bool:
        """False: the connection is held until it can pay, unless its peer is gone."""
        shortage = meter.charge(price, self._port.room.gate.now())
        self._in_debt = shortage is not None
        if shortage is None:
            return True
        if shortage.is_address and not self._gone:
            self._port.line_up(self, shortage.seconds)
        elif not self._gone:
            self._hold_for(shortage.seconds)
        return False

    def _hold_for(self, seconds: float) -> None:
        self._port.throttled += 1
        self.hold()
        self._port.loop.call_later(seconds, self.release)

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
        port = self._port
        is_own = sender is None or sender is self
        after = self._backlog_bytes + len(frame) + PER_PACKET
        if after > port.soft_mark * (HARD_MARK if is_own else 1):
            if sender is None:
                port.overflowed(self)
            return False
        expires = port.loop.time() + ttl if ttl else None
        self._backlog.append(_Waiting(frame, sender, message_id, expires))
        self._backlog_bytes = after
        if sender is self and after > port.soft_mark and not self._holds_itself:
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
            pieces: list[bytes] = []
            size = 0
            while backlog and size < TRANSPORT_HIGH_WATER:
                waiting = backlog.popleft()
                self._backlog_bytes -= len(waiting.frame) + PER_PACKET
                if waiting.expires is not None and waiting.expires < now:
                    self._port.expired(waiting.sender, waiting.message_id)
                else:
                    pieces.append(waiting.frame)
                    size += len(waiting.frame)
            if pieces:
                self._transport.write(b"".join(pieces))

    def _tell_senders(self) -> None:
        """What still waits will not arrive (seed 004, routing: forward write fails)."""
        undelivered, self._backlog = self._backlog, deque()
        self._backlog_bytes = 0
        for waiting in undelivered:
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


class UnpacedConnection(KeepConnection, asyncio.Protocol):
    """For a hall without limits: as much as there is is read at once."""

    __slots__ = ()


class PacedConnection(KeepConnection, asyncio.BufferedProtocol):
    """For a hall with limits: what is read at once is small, whatever the peer sends.

    The transport of a `Protocol` reads up to a quarter of a megabyte. To cut that into packets takes a millisecond,
    and to keep it for each of thousands of connections takes gigabytes.
    """

    __slots__ = ()

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._port.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(memoryview(self._port.buffer)[:nbytes]))
