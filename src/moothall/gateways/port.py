"""The port where everything arrives: it accepts, flushes, pings, serves the HTTP routes and closes."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from ipaddress import IPv6Address, ip_address, ip_network
from itertools import takewhile
from typing import Final, NamedTuple

from moothall.gateways.callers import TooManyRequests
from moothall.gateways.connection import LONG_MESSAGE, Connection
from moothall.gateways.heartbeat import Heartbeat
from moothall.gateways.listening import address_of, listen, load_tls, until_gone
from moothall.gateways.room import Lobby, Served
from moothall.gateways.transport import Listening
from moothall.gateways.written import WriteWatch
from moothall.hall.access import AddressCounts, holder_of
from moothall.hall.budgets import CONNECTION_FRAMES
from moothall.hall.outside import Log
from moothall.settings import Settings
from moothall.wire.http import BadRequest, Response
from moothall.wire.http_routes import READS, Asked, RouteTable
from moothall.wire.origins import is_loopback
from moothall.wire.websocket import GOING_AWAY, POLICY_VIOLATION, Violation

# Largest messages that one address may have under way: their end has not arrived, or they wait for its budget.
LONG_AT_ONCE: Final = 4

# A message to many costs a write for each of them, and a look at the sockets costs less than one write. So before
# the port writes to more than MANY connections for each read, it looks for more that can leave in the same writes.
MANY: Final = 4
MOMENT: Final = 0.002  # seconds in which it looks again while there is more

FOREIGN_HOST: Final = Response(
    403, b"Ask under a loopback name such as localhost, or add this Host to `allowed_hosts`\n"
)
FOREIGN_ORIGIN: Final = Response(403, b"Pages of this origin may not ask\n")
NOT_FOUND: Final = Response(404, b"Nothing here. Agents connect to this port with WebSocket.\n")


class Patience(NamedTuple):
    """How long the port waits for its peers, in seconds, and what they may leave unread."""

    head: float = 10.0  # for a request head to arrive
    linger: float = 2.0  # for a peer to take the rest, answer our close frame and hang up
    sweep: float = 0.5  # between two looks at who is late with either
    answering: float = 30.0  # for a route to answer, for a peer to take a long answer, or to ask again
    goodbye: float = 5.0  # for clients to read that the hall closes
    unread: int = 16  # full outboxes of one address, on all its connections together


PATIENCE: Final = Patience()


class Port:
    def __init__(
        self,
        room: Lobby,
        settings: Settings,
        log: Log,
        *,
        is_shared: bool = False,
        patience: Patience = PATIENCE,
    ) -> None:
        """`is_shared`: other processes listen on the same port."""
        self.room = room
        self._patience = patience
        self._is_shared = is_shared
        self.loop = asyncio.get_running_loop()
        self.max_message = settings.max_frame
        self.outbox_limit = settings.outbox_limit
        self.allowed_origins = frozenset(settings.allowed_origins)
        self.allowed_hosts = frozenset(map(str.lower, settings.allowed_hosts))
        self._proxies = tuple(map(ip_network, settings.trusted_proxies))
        self.secure = settings.cert is not None
        self._limited = not settings.no_limits
        self.calling = AddressCounts(
            settings.max_connections_per_ip
        )  # of those that are no WebSocket, or not yet
        self._reserved: Counter[str] = Counter()  # bytes of long messages under way, by address
        self.stuck: set[Connection] = set()  # whose peers read less than they are sent
        self.written = WriteWatch(self.loop)
        self.frames_sent = 0
        self.peak_backlog = 0
        self.overflows = 0
        self._settings = settings
        self._log = log
        self.routes = RouteTable()
        self._hall = Served(room, frozenset(settings.subprotocols), settings.max_frame)
        # Paths with a room of their own; all others lead to the hall. None: what belongs there is turned off.
        self.rooms: Mapping[str, Served | None] = {}
        self._server: Listening | None = None
        self.dirty: list[Connection] = []
        self.reads = 0  # since the first of the messages that wait for the flush
        self._reads_before = 0  # the last look
        self._flush_by = 0.0
        self._connections: set[Connection] = set()
        # Until when, oldest first. Nearly all are in time, so a look now and then beats a timer for each.
        self._heads: dict[Connection, float] = {}  # who has not sent a whole request yet
        # Who waits for its answer or the rest of it, or may ask again
        self._answering: dict[Connection, float] = {}
        self._lingering: dict[Connection, float] = {}  # whose line is cut next
        self._heartbeat: Heartbeat[Connection] = Heartbeat(settings.ping_interval)
        self._timers: set[asyncio.TimerHandle] = set()
        self._drained = asyncio.Event()

    async def open(self) -> None:
        settings = self._settings
        tls = load_tls(settings.cert, settings.key)
        self._server = await listen(
            lambda: Connection(self),
            settings.host,
            settings.port,
            tls,
            at_the_end=self._flush,
            log=self._log,
            shares_port=self._is_shared,
            advice="; choose another with --port",
        )
        if settings.ping_interval:
            self._every(self._heartbeat.seconds, self._beat)
        self._every(self._patience.sweep, self._sweep)

    @property
    def address(self) -> tuple[str, int]:
        return address_of(self._server)

    @property
    def connections(self) -> int:
        return len(self._connections)

    @property
    def waiting_bytes(self) -> int:
        return sum(connection.waiting_bytes for connection in self._connections)

    async def close(self, reason: str) -> None:
        """Stop listening, send a close frame to every client, and wait until it is read."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            if connection.is_websocket:
                connection.close(GOING_AWAY, reason)
            elif not connection.is_closing:
                connection.abort()
        await until_gone(self._connections, self._drained, self._patience.goodbye)
        for timer in self._timers:
            timer.cancel()
        self.written.close()

    # -- one write per connection and turn ---------------------------------------------------------

    def mark(self, connection: Connection) -> None:
        """The connection has something to send: flush it at the end of this turn of the loop."""
        if not self.dirty:
            self.flush_soon()
        self.dirty.append(connection)

    def flush_soon(self) -> None:
        self.reads = 1  # the one that brought the message
        self._reads_before = 0
        if self._server is None or not self._server.is_reading:
            self.loop.call_soon(self._flush)

    def _flush(self) -> None:
        while len(self.dirty) > MANY * self.reads and self._looks_again():
            if self._server is not None:
                self._server.look()
        dirty, self.dirty = self.dirty, []
        sent = 0
        frames: list[bytes] = []
        joined = b""
        for connection in dirty:
            queue = connection.queue
            if not queue:
                continue  # it was closed, and so flushed, in the meantime
            if connection.stuck:
                connection.check_backlog()
                continue
            if queue != frames:  # the members of a channel mostly have the same to send
                frames = queue
                joined = queue[0] if len(queue) == 1 else b"".join(queue)
            sent += len(queue)
            connection.queue = []
            connection.transport.write(joined)
        self.frames_sent += sent

    def _looks_again(self) -> bool:
        """True at first, and then as long as each look at the sockets has brought something, for a moment."""
        now, before = self.loop.time(), self._reads_before
        self._reads_before = self.reads
        if not before:
            self._flush_by = now + MOMENT
        return self.reads > before and now < self._flush_by

    # -- what connections tell ---------------------------------------------------------------------

    def admits(self, connection: Connection) -> bool:
        """False: its address is over its budget, or has so many unfinished requests that others find no room."""
        ip = connection.ip
        if not self._limited or self.is_trusted_proxy(ip):
            return True
        if not self.pays(ip, CONNECTION_FRAMES):
            return False
        if not is_loopback(ip):
            if not self.calling.admit(ip):
                self.room.turn_away(ip, is_news=self.calling.is_news(ip))
                return False
            connection.calling = True
        return True

    def pays(self, ip: str, frames: float) -> bool:
        """Charge an address for what it asks for. False: it is over its budget."""
        return not self._limited or self.room.admit(ip, frames, is_loopback=is_loopback(ip))

    def opened(self, connection: Connection) -> None:
        self._connections.add(connection)
        self._heads[connection] = self.loop.time() + self._patience.head

    def reserve(self, connection: Connection, size: int) -> None:
        """So many bytes of long messages are held. Raises Violation if that is too much for its address."""
        if not self._limited or is_loopback(connection.ip):
            return
        if size <= LONG_MESSAGE:
            size = 0
        address = holder_of(connection.ip)
        self._reserved[address] += size - connection.reserved
        connection.reserved = size
        if not self._reserved[address]:
            del self._reserved[address]
        elif size and self._reserved[address] > LONG_AT_ONCE * self.max_message:
            raise Violation(POLICY_VIOLATION, "Too many long messages at once from this address")

    def uncount(self, connection: Connection) -> None:
        """Stop counting the connection as an unfinished request of its address."""
        if connection.calling:
            connection.calling = False
            self.calling.depart(connection.ip)

    def upgraded(self, connection: Connection) -> None:
        """The connection was upgraded: from now on the room counts it."""
        self.uncount(connection)
        self.answered(connection)
        self._heartbeat.join(connection)

    def lost(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self.stuck.discard(connection)
        self.uncount(connection)
        if connection.reserved:
            self.reserve(connection, 0)
        self.answered(connection)
        self._lingering.pop(connection, None)
        self._heartbeat.leave(connection)
        if not self._connections:
            self._drained.set()

    def overflowed(self, connection: Connection) -> None:
        self.overflows += 1
        self._log.warning("outbox_overflow", ip=connection.ip, bytes=connection.waiting_bytes)

    def is_trusted_proxy(self, ip: str) -> bool:
        """True if the hall trusts the X-Forwarded-For of this address."""
        if not self._proxies:
            return False
        try:
            address = ip_address(ip)
        except ValueError:
            return False
        if isinstance(address, IPv6Address):
            address = address.ipv4_mapped or address
        return any(address in network for network in self._proxies)

    def peer_behind(self, ip: str, forwarded: str) -> str:
        """The address behind the trusted proxies: of those that X-Forwarded-For lists, the last that is not one."""
        for hop in reversed([hop.strip() for hop in forwarded.split(",") if hop.strip()]):
            if not self.is_trusted_proxy(ip):
                break
            ip = _address(hop)[:64]
        return ip

    def refused_origin(self, ip: str) -> None:
        self.room.note("foreign_origin_refused", ip=ip)

    def bug(self, event: str) -> None:
        self._log.warning(event, exc_info=True)

    def served(self, path: str) -> Served:
        """The room that a WebSocket client of this path comes into. Raises BadRequest."""
        served = self.rooms.get(path, self._hall)
        if served is None:
            raise BadRequest(404, f"This hall does not serve {path}; its operator has turned it off")
        return served

    def serve(self, asked: Asked, *, knows_host: bool) -> Response | None:
        """The answer to a plain request. None: it comes later, through `Asked.reply`.

        `knows_host`: the request names this hall as an operator of it would.
        """
        found = self.routes.find(asked.request.path)
        methods = READS if found is None else found.route.methods
        if asked.request.method not in methods:
            return Response(405, b"Only GET is served here\n", headers=(("Allow", ", ".join(methods)),))
        if found is None:
            return NOT_FOUND if knows_host else FOREIGN_HOST
        route = found.route
        if not knows_host and not route.any_host:
            return route.refusal(FOREIGN_HOST)
        if asked.is_foreign_page and not route.any_origin:
            return route.refusal(FOREIGN_ORIGIN)
        if not self.pays(asked.ip, route.cost):
            return route.refusal(TooManyRequests().response)
        return route.answer(asked._replace(parts=found.parts))

    def answering(self, connection: Connection) -> None:
        """Wait longer than for others: for its answer, for a long one to be read, or for its next request."""
        self.answered(connection)
        self._answering[connection] = self.loop.time() + self._patience.answering

    def answered(self, connection: Connection) -> None:
        """Wait no longer for its request, or for the answer."""
        self._heads.pop(connection, None)
        self._answering.pop(connection, None)

    # -- who is still there ------------------------------------------------------------------------

    def _every(self, seconds: float, action: Callable[[], None]) -> None:
        def run() -> None:
            self._timers.discard(timer)
            action()
            self._every(seconds, action)

        timer = self.loop.call_later(seconds, run)
        self._timers.add(timer)

    def _beat(self) -> None:
        for suspect in self._heartbeat.beat():
            self.loop.call_later(self._settings.ping_timeout, self._drop_silent, suspect)

    def _drop_silent(self, connection: Connection) -> None:
        if self._heartbeat.is_silent(connection):
            self._log.warning("heartbeat_timeout", ip=connection.ip)
            connection.abort()

    def cut_later(self, connection: Connection) -> None:
        if connection not in self._answering:
            self._lingering.setdefault(connection, self.loop.time() + self._patience.linger)

    def _sweep(self) -> None:
        self._cut_late()
        if self._limited:
            self._close_hoarders()

    def _close_hoarders(self) -> None:
        """Close the slowest readers of an address that leaves too much unread.

        Each connection has its own limit. But an address may have hundreds of them, and no agent has to agree to
        what it is sent.
        """
        by_address: dict[str, list[Connection]] = {}
        for connection in self._slow_readers():
            by_address.setdefault(holder_of(connection.ip), []).append(connection)
        for slow in by_address.values():
            unread = sum(connection.waiting_bytes for connection in slow)
            slow.sort(key=lambda connection: connection.waiting_bytes)
            while unread > self._patience.unread * self.outbox_limit:
                slowest = slow.pop()
                unread -= slowest.waiting_bytes
                if slowest in self._answering:
                    slowest.abort()
                else:
                    slowest.overflow()

    def _slow_readers(self) -> Iterator[Connection]:
        for connection in self.stuck:
            is_reading = not connection.is_closing or connection in self._answering
            if is_reading and not is_loopback(connection.ip):
                yield connection

    def _cut_late(self) -> None:
        now = self.loop.time()
        for waiting in (self._heads, self._answering, self._lingering):
            for connection, _ in list(takewhile(lambda entry: entry[1] <= now, waiting.items())):
                del waiting[connection]
                connection.abort()


def _address(hop: str) -> str:
    """Some proxies add the port, `203.0.113.7:4711` or `[2001:db8::7]:4711`: it is another one each time."""
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop
