"""The port for keep clients: it accepts, checks signatures, flushes, sends heartbeats and closes (keep wire 1-9).

A signature takes longer to check than everything else together, and libsodium does it outside the interpreter's
lock. So packets are gathered in batches, a few of each connection, and where the hall has a second processor, a
thread and the loop share the batch: each takes the next packet that is unchecked. The batch is then handled in the
order of arrival. How large a batch is, and how long the port rests after it, is its `Pace`.
"""

import asyncio
import os
from collections import deque
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from math import inf
from typing import Final, NamedTuple

from moothall.gateways.keep_connection import Arrival, KeepConnection, PacedConnection, UnpacedConnection
from moothall.gateways.listening import address_of, listen, load_tls, until_gone
from moothall.hall.access import Doorkeeper, holder_of
from moothall.hall.budgets import LEAST_PAUSE
from moothall.hall.keep.bridge import DELIVERY_FAILED
from moothall.hall.keep.discovery import reply
from moothall.hall.keep.registry import Peer
from moothall.hall.keep.routing import HEARTBEAT_PACKET, KeepRoom
from moothall.hall.outside import Log
from moothall.identity.signatures import verify
from moothall.settings import Settings
from moothall.settings.limits import Rate


class Pace(NamedTuple):
    packets: int  # that the loop checks in one turn; twice as many, where a thread helps
    bytes: int  # of them
    share: int  # packets of one connection, before the next has its turn
    inbox: int  # bytes of one connection that were read and not looked at yet, before reading stops
    most: float  # seconds for the handling of a batch, before the rest is put off
    rest: float  # seconds until the next batch, if this one was at least half full


# A signature takes 60 us, and handling a packet about 30 us more. Without limits, keep has all it can get: a
# batch takes two to three milliseconds. With limits it has half a millisecond of a turn of the loop, and then it
# rests for one to two milliseconds, as timers go. So a flood from any number of connections takes about a third of
# the loop's time, and chat, which takes 0.7 ms when it is quiet, waits for less than that again. This leaves about
# 4,000 packets a second for all connections together, and twice as many with a second processor.
FULL_SPEED: Final = Pace(packets=32, bytes=512 * 1024, share=8, inbox=256 * 1024, most=inf, rest=0.0)
BESIDE_OTHERS: Final = Pace(packets=8, bytes=64 * 1024, share=2, inbox=0, most=0.0005, rest=0.001)

# Connections of an address that try at once whether it can pay, and new ones: what has been read from connections
# takes up memory, so those in the hall come first, but do not keep others out for ever.
CALLED_UP: Final = 32
LET_IN: Final = 4
READ_AT_ONCE: Final = 2048  # bytes of one connection, with limits: about as much as a batch
WORTH_SPLITTING: Final = 6  # packets: a thread is not woken for fewer
SWEEP: Final = 1.0  # seconds between two looks at heartbeats and deadlines
GOODBYE: Final = 2.0  # seconds for clients to read the rest


class Line(NamedTuple):
    """Connections of one address that wait until it can pay."""

    known: deque[KeepConnection]  # have paid for themselves, and wait with their packets
    new: deque[KeepConnection]


class KeepPort:
    def __init__(self, room: KeepRoom, door: Doorkeeper, settings: Settings, log: Log) -> None:
        self.room = room
        self.loop = asyncio.get_running_loop()
        self.secure = settings.keep_tls
        self.soft_mark = settings.keep_outbox
        self.write_timeout = settings.keep_write_timeout
        self.rate = Rate(0, 1) if settings.no_limits else settings.keep_rate
        self.throttled = 0  # times a connection had to wait because of the rate
        self.overflows = 0  # connections closed because they read nothing
        self._door = door
        self._settings = settings
        self._log = log
        self._host = settings.keep_host or settings.host
        self._idle_timeout = settings.keep_idle_timeout
        self._max_connections = 0 if settings.no_limits else settings.keep_max_connections
        self._server: asyncio.Server | None = None
        self._connections: set[KeepConnection] = set()
        self._ready: deque[KeepConnection] = deque()
        self._at_work = False  # a batch is being checked, or is about to be
        self._resting = False  # the next batch is put off
        self._pace = FULL_SPEED if settings.no_limits else BESIDE_OTHERS
        self.max_inbox = self._pace.inbox
        self.buffer = bytearray(READ_AT_ONCE)  # one for all: what is read into it is copied at once
        self._dirty: list[KeepConnection] = []
        self._beats: dict[KeepConnection, float] = {}  # when the next heartbeat is due, the earliest first
        self._deadlines: dict[KeepConnection, float] = {}  # of those who do not read, the earliest first
        # Connections without an identity, and when they last sent a packet; the longest silent first.
        self._strangers: dict[KeepConnection, float] = {}
        self._lines: dict[str, Line] = {}  # of those who wait until their address can pay
        self._freeing = False  # identities of connections that are gone are being freed
        self._sweeper: asyncio.TimerHandle | None = None
        self._drained = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "keep-signatures") if _processors() > 1 else None
        self._batch = self._pace.packets * (2 if self._thread is not None else 1)

    async def open(self) -> None:
        settings = self._settings
        tls = load_tls(settings.cert, settings.key) if self.secure else None
        self._server = await listen(
            self.connection,
            self._host,
            settings.keep_port,
            tls,
            purpose=" for keep clients",
            advice="; choose another with --keep-port, or leave them out with --no-keep",
        )
        self._sweep()

    def connection(self) -> KeepConnection:
        """The protocol object for a new connection."""
        return UnpacedConnection(self) if self._settings.no_limits else PacedConnection(self)

    @property
    def address(self) -> tuple[str, int]:
        return address_of(self._server)

    @property
    def url(self) -> str:
        host, port = self.address
        return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"

    @property
    def connections(self) -> int:
        return len(self._connections)

    @property
    def registered_connections(self) -> int:
        return len(self._beats)

    @property
    def waiting_bytes(self) -> int:
        return sum(connection.waiting_bytes for connection in self._connections)

    async def close(self) -> None:
        """Stop listening, send what is queued, and wait a moment until it is read."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.say_goodbye()
        await until_gone(self._connections, self._drained, GOODBYE)
        if self._thread is not None:
            self._thread.shutdown()

    # -- packets in --------------------------------------------------------------------------------

    def ready(self, connection: KeepConnection) -> None:
        """The connection has something in its inbox."""
        if connection.listed:
            return
        connection.listed = True
        self._ready.append(connection)
        self._go_on()

    def has_line(self, ip: str) -> bool:
        return bool(self._lines) and holder_of(ip) in self._lines

    def line_up(self, connection: KeepConnection, seconds: float) -> None:
        """The connection is held until its address can pay. Those of one address wait for it in a line."""
        self.throttled += 1
        connection.hold()
        address = holder_of(connection.ip)
        line = self._lines.get(address)
        if line is None:
            line = self._lines[address] = Line(deque(), deque())
            self.loop.call_later(seconds, self._call_up, address)
        (line.known if connection.has_entered else line.new).append(connection)

    def _call_up(self, address: str) -> None:
        """Let the first of the line try again: a few, or a crowd that cannot pay would keep the loop busy."""
        line = self._lines[address]
        for waiting, most in ((line.known, CALLED_UP), (line.new, LET_IN)):
            for _ in range(min(len(waiting), most)):
                waiting.popleft().release()
        if line.known or line.new:
            self.loop.call_later(LEAST_PAUSE, self._call_up, address)
        else:
            del self._lines[address]

    def _go_on(self) -> None:
        if self._ready and not self._at_work and not self._resting:
            self._at_work = True
            self.loop.call_soon(self._work)

    def _work(self) -> None:
        batch = self._gather()
        thread = self._thread
        if thread is None or len(batch) < WORTH_SPLITTING:
            _check(batch)
            self._handle_all(batch)
            return
        unchecked = iter(batch)  # of which both take the next, until there is none

        def check_some() -> None:
            try:
                _check(unchecked)
            finally:
                self.loop.call_soon_threadsafe(self._handle_all, batch)

        thread.submit(check_some)
        # The loop hears that the thread is done no sooner than it is done itself.
        _check(unchecked)

    def _gather(self) -> list[Arrival]:
        batch: list[Arrival] = []
        size = 0
        ready = self._ready
        while ready and len(batch) < self._batch and size < self._pace.bytes:
            connection = ready.popleft()
            connection.listed = False
            if connection.held or connection.closing:
                continue
            size += connection.take(batch, self._pace.share)
            if connection.inbox and not connection.held:
                connection.listed = True
                ready.append(connection)
        return batch

    def _handle_all(self, batch: list[Arrival], begun: int = 0) -> None:
        """Handle a checked batch from there on, as long as the pace allows; the rest after a rest."""
        pace, loop = self._pace, self.loop
        end = loop.time() + pace.most
        next_one = begun
        try:
            for arrival in islice(batch, begun, None):
                next_one += 1
                connection = arrival.connection
                if connection.held or connection.checked:
                    connection.checked.append(arrival)
                else:
                    self.handle(arrival)
                if pace.rest and loop.time() > end:
                    break
            self._flush()
        finally:
            if next_one < len(batch):
                loop.call_later(pace.rest, self._handle_all, batch, next_one)
            else:
                self._at_work = False
                if pace.rest and 2 * len(batch) >= self._batch:
                    self._resting = True
                    loop.call_later(pace.rest, self._end_rest)
                self._go_on()

    def _end_rest(self) -> None:
        self._resting = False
        self._go_on()

    @property
    def is_at_work(self) -> bool:
        """True while received packets are being checked and handled."""
        return self._at_work

    def handle(self, arrival: Arrival) -> None:
        connection, packet = arrival.connection, arrival.packet
        if connection.closing:
            return
        if packet is None:
            connection.hang_up()
            return
        room = self.room
        if not arrival.valid:
            room.dropped["bad_signature" if packet.sig and packet.pk else "unsigned"] += 1
            return
        if connection in self._strangers:
            self.heard(connection)
        if packet.ttl and self.loop.time() - arrival.arrived > packet.ttl:
            self.expired(connection, packet.id)
            return
        try:
            room.accept(connection, packet, arrival.forwarded)
        except Exception:  # noqa: BLE001  # a bug of ours: this connection ends, the others go on
            self._log.warning("a keep packet could not be handled", exc_info=True)
            connection.close()

    # -- packets out -------------------------------------------------------------------------------

    def mark(self, connection: KeepConnection) -> None:
        """The connection has something to send: flush it in this turn of the loop."""
        if not self._dirty:
            self.loop.call_soon(self._flush)
        self._dirty.append(connection)

    def _flush(self) -> None:
        dirty, self._dirty = self._dirty, []
        for connection in dirty:
            connection.flush()

    # -- what connections tell ---------------------------------------------------------------------

    def admits(self, connection: KeepConnection) -> bool:
        """True if its address may have one more connection."""
        gate = self.room.gate
        if not self._settings.no_limits:
            ip, is_loopback = connection.ip, connection.is_loopback
            connection.meter = gate.budgets.meter(ip, is_loopback=is_loopback)
        if not connection.is_loopback:
            if not self._door.connections.admit(connection.ip):
                is_news = self._door.connections.is_news(connection.ip)
                gate.turn_away(connection.ip, is_news=is_news)
                return False
            connection.counted = True
        return True

    def opened(self, connection: KeepConnection) -> bool:
        """True if the connection is admitted."""
        if self._max_connections and len(self._connections) >= self._max_connections:
            self.room.gate.note("keep_connection_limit", ip=connection.ip)
            self._make_room()
        self._connections.add(connection)
        self._drained.clear()
        self._strangers[connection] = self.loop.time()
        return not self._max_connections or len(self._connections) <= self._max_connections

    def _make_room(self) -> None:
        """The connection that has been silent longest, of those without an identity, makes way for another."""
        for connection in self._strangers:
            self._drop(connection)
            return

    def _drop(self, connection: KeepConnection) -> None:
        self.lost(connection)
        connection.drop()

    def uncount(self, connection: KeepConnection) -> None:
        if connection.counted:
            connection.counted = False
            self._door.connections.depart(connection.ip)

    def registered(self, connection: KeepConnection) -> None:
        """It has its first identity: the heartbeats begin (keep wire 7), and it may be silent for ever."""
        self._strangers.pop(connection, None)
        self._beats.setdefault(connection, self.loop.time() + self._settings.keep_heartbeat)

    def left(self, connection: KeepConnection) -> None:
        """The connection has ended: its identities can no longer be addressed."""
        self._beats.pop(connection, None)
        self._strangers.pop(connection, None)
        if self.room.leave(connection) and not self._freeing:
            self._freeing = True
            self.loop.call_soon(self._free_some)

    def _free_some(self) -> None:
        """Free a few identities in each turn of the loop, so that other work is not delayed."""
        self._freeing = self.room.free_some()
        if self._freeing:
            self.loop.call_soon(self._free_some)

    def lost(self, connection: KeepConnection) -> None:
        self._connections.discard(connection)
        self._strangers.pop(connection, None)
        self._deadlines.pop(connection, None)
        self.uncount(connection)
        if not self._connections:
            self._drained.set()

    def stuck(self, connection: KeepConnection) -> None:
        self._deadlines[connection] = self.loop.time() + self.write_timeout

    def unstuck(self, connection: KeepConnection) -> None:
        self._deadlines.pop(connection, None)

    def overflowed(self, connection: KeepConnection) -> None:
        """More of the hall's own waits for it than may: it is closed at the end of the turn."""
        self._deadlines.pop(connection, None)
        self.loop.call_soon(self._give_up, connection)

    def malformed(self) -> None:
        self.room.dropped["malformed"] += 1

    def expired(self, sender: Peer | None, message_id: str) -> None:
        """A packet waited longer than its `ttl`: it is not delivered, and its sender is told."""
        self.room.dropped["ttl"] += 1
        if sender is not None:
            sender.answer(reply(message_id, DELIVERY_FAILED))

    # -- time --------------------------------------------------------------------------------------

    def _sweep(self) -> None:
        now = self.loop.time()
        self._beat(now)
        for connection in [late for late, due in self._deadlines.items() if due <= now]:
            self._give_up(connection)
        if self._idle_timeout:
            self._drop_idle(now)
        interval = min(SWEEP, self._settings.keep_heartbeat, self.write_timeout, self._idle_timeout or SWEEP)
        self._sweeper = self.loop.call_later(interval, self._sweep)

    def _drop_idle(self, now: float) -> None:
        strangers = self._strangers
        while strangers:
            connection = next(iter(strangers))
            if strangers[connection] + self._idle_timeout > now:
                return
            if connection.is_waiting:  # it has sent something, and it is for us to look at it
                self.heard(connection)
            else:
                self._drop(connection)

    def heard(self, connection: KeepConnection) -> None:
        """The connection sent a packet with a valid signature."""
        if self._strangers.pop(connection, None) is not None:
            self._strangers[connection] = self.loop.time()

    def _beat(self, now: float) -> None:
        beats = self._beats
        while beats:
            connection = next(iter(beats))
            if beats[connection] > now:
                return
            del beats[connection]
            beats[connection] = now + self._settings.keep_heartbeat
            if not connection.is_stuck:  # who does not read needs no more to read
                connection.answer(HEARTBEAT_PACKET)

    def _give_up(self, connection: KeepConnection) -> None:
        if connection in self._connections:
            self.overflows += 1
            self._log.warning("keep_reader_stuck", ip=connection.ip, bytes=connection.waiting_bytes)
            connection.give_up()


def _check(arrivals: Iterable[Arrival]) -> None:
    for arrival in arrivals:
        packet = arrival.packet
        if packet is not None:
            arrival.valid = verify(packet.pk, arrival.signed, packet.sig)


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
