"""The port for keep clients: it accepts, handles packets, flushes, sends heartbeats and closes (keep wire 1-9).

Signatures are checked in batches (`batches`). Connections over a budget wait in lines (`keep_lines`).
"""

import asyncio
from typing import Final

from moothall.gateways.batches import Batches, pace_of
from moothall.gateways.keep_arrival import Arrival
from moothall.gateways.keep_connection import (
    KeepConnection,
    Limits,
)
from moothall.gateways.keep_lines import Lines
from moothall.gateways.listening import READ_AHEAD, address_of, listen, load_tls, until_gone
from moothall.gateways.transport import Listening
from moothall.hall.access import Doorkeeper
from moothall.hall.keep.bridge import DELIVERY_FAILED
from moothall.hall.keep.discovery import reply
from moothall.hall.keep.registry import Peer
from moothall.hall.keep.routing import HEARTBEAT_PACKET, KeepRoom
from moothall.hall.outside import Log
from moothall.settings import Settings
from moothall.settings.limits import Rate

READ_AT_ONCE: Final = 2048  # bytes of one connection, with limits: about as much as a batch
SWEEP: Final = 1.0  # seconds between two looks at heartbeats and deadlines
GOODBYE: Final = 2.0  # seconds for clients to read the rest


class KeepPort:
    def __init__(
        self,
        room: KeepRoom,
        door: Doorkeeper,
        batches: Batches,
        settings: Settings,
        log: Log,
        *,
        is_shared: bool = False,
    ) -> None:
        """`is_shared`: other processes listen on the same port."""
        self.room = room
        self._is_shared = is_shared
        self.loop = asyncio.get_running_loop()
        self.limits = Limits(
            rate=Rate(0, 1) if settings.no_limits else settings.keep_rate,
            inbox=pace_of(settings).inbox,
            soft_mark=settings.keep_outbox,
            write_timeout=settings.keep_write_timeout,
        )
        self.secure = settings.keep_tls
        self.lines = Lines(self.loop)
        self.batches = batches
        batches.after_each(self._flush)
        self.overflows = 0  # connections closed because they read nothing
        self._door = door
        self._settings = settings
        self._log = log
        self._host = settings.keep_host or settings.host
        self._idle_timeout = settings.keep_idle_timeout
        self._max_connections = 0 if settings.no_limits else settings.keep_max_connections
        self._server: Listening | None = None
        self._connections: set[KeepConnection] = set()
        self._dirty: list[KeepConnection] = []
        self._beats: dict[KeepConnection, float] = {}  # when the next heartbeat is due, the earliest first
        self._deadlines: dict[KeepConnection, float] = {}  # of those who do not read, the earliest first
        # Connections without an identity, and when they last sent a packet; the longest silent first.
        self._strangers: dict[KeepConnection, float] = {}
        self._freeing = False  # identities of connections that are gone are being freed
        self._sweeper: asyncio.TimerHandle | None = None
        self._drained = asyncio.Event()

    async def open(self) -> None:
        settings = self._settings
        tls = load_tls(settings.cert, settings.key) if self.secure else None
        self._server = await listen(
            lambda: KeepConnection(self),
            self._host,
            settings.keep_port,
            tls,
            at_the_end=self._flush,
            log=self._log,
            read_at_once=READ_AHEAD if settings.no_limits else READ_AT_ONCE,
            shares_port=self._is_shared,
            purpose=" for keep clients",
            advice="; choose another with --keep-port, or leave them out with --no-keep",
        )
        self._sweep()

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

    # -- packets in --------------------------------------------------------------------------------

    def handle(self, connection: KeepConnection, arrival: Arrival) -> None:
        packet = arrival.packet
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
        self._deadlines[connection] = self.loop.time() + self.limits.write_timeout

    def unstuck(self, connection: KeepConnection) -> None:
        self._deadlines.pop(connection, None)

    def overflowed(self, connection: KeepConnection) -> None:
        """More of the hall's own waits for it than may: it is closed at the end of the turn."""
        self._deadlines.pop(connection, None)
        self.loop.call_soon(self._give_up, connection)

    def now(self) -> float:
        return self.room.gate.now()

    def malformed(self) -> None:
        """A packet could not be read."""
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
        heartbeat, write_timeout = self._settings.keep_heartbeat, self.limits.write_timeout
        interval = min(SWEEP, heartbeat, write_timeout, self._idle_timeout or SWEEP)
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
