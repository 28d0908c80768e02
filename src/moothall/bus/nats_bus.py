"""The bus of `hall/cluster/bus.py` over NATS.

One task holds a connection, and opens the next one when it is lost. A second one writes what the hall publishes.
While there is no connection, nothing waits: messages are lost and counted. A connection that cannot keep up is
closed. So a node that misses messages also sees the bus go down and up, and looks again at what it may have missed.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from secrets import token_hex
from typing import Any, Final

import nats.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from moothall.bus import parts
from moothall.bus.access import Access, Server, parse_servers
from moothall.bus.buckets import Buckets
from moothall.bus.connection import Connection
from moothall.bus.registry import NatsRegistry
from moothall.errors import UsageError
from moothall.hall.cluster.bus import Received, Stop, Traffic
from moothall.hall.outside import Log

OPENING_SECONDS: Final = 15.0  # for NATS to be there when the hall starts
LISTENING_SECONDS: Final = 5.0  # for NATS to take note of all subscriptions
ENDING_SECONDS: Final = 1.0  # for the tasks of a connection that was closed
HEARTBEAT_SECONDS: Final = 1.0
STALE_SECONDS: Final = 2.0  # without an answer to the heartbeat; a node is given up after 3.5 seconds
SECOND_LOOK: Final = 0.5  # for an answer that waits in the socket, because our own loop was late
FIRST_PAUSE: Final = 0.1  # seconds between two attempts to connect; each is 1.5 times the one before
LONGEST_PAUSE: Final = 2.0

# What the hall has published and NATS has not taken. A hall writes some MB a second; what is more than a few
# seconds old is of no use to other nodes.
MOST_WAITING: Final = 32 * 1024 * 1024
OVERHEAD: Final = 128  # bytes that a message takes besides its own
# What one subject brings in one turn of the loop is far less. Beyond this, nats-py drops messages.
MOST_RECEIVED_BYTES: Final = 32 * 1024 * 1024
MOST_RECEIVED: Final = 65536
HEADER_ROOM: Final = 1024  # headers count towards the size that NATS allows


class NatsBus:
    """`hall` names the hall among those that share a NATS: the fingerprint of its key."""

    def __init__(
        self,
        urls: Sequence[str],
        hall: str,
        log: Log,
        access: Access | None = None,
        *,
        name: str = "moothall",
        replicas: int | None = None,
    ) -> None:
        """`name` is what NATS calls this node in its reports. `replicas` is how many servers of NATS keep the
        registry; None: 3 if it is a cluster. Raises UsageError if a URL is wrong."""
        self._servers = parse_servers(urls)
        self._access = access or Access()
        self._prefix = f"moothall.{hall}."
        self._name = name
        self._log = log
        self.traffic = Traffic()
        buckets = Buckets(f"moothall_{hall}", replicas)
        self.registry = NatsRegistry(buckets, log)
        self._buckets = buckets
        self._connection: Connection | None = None  # while the bus is up
        self._subscriptions: dict[str, list[Received]] = {}
        self._listening: dict[str, Subscription] = {}  # those that NATS knows of
        self._outgoing: deque[tuple[str, bytes | None]] = deque()  # None: listen to the subject, or no more
        self._waiting = 0  # bytes in it
        self._wake = asyncio.Event()
        self._assembly = parts.Assembly(self._refuse)
        self._part_names = (f"{token_hex(6)}.{number}" for number in count())
        self._told: list[Callable[[bool], None]] = []
        self._found: list[Server] = []  # that NATS told of
        self._trouble = ""  # why there is no connection
        self._is_closing = False
        self._task: asyncio.Task[None] | None = None

    @property
    def is_up(self) -> bool:
        return self._connection is not None

    async def open(self, within: float = OPENING_SECONDS) -> None:
        """Connect. Raises UsageError if that does not succeed in time, or never can."""
        self._loop = asyncio.get_running_loop()
        self._first = self._loop.create_future()  # how the first attempts went
        self._task = self._loop.create_task(self._run())
        try:
            async with asyncio.timeout(within):
                await self._first
        except TimeoutError:
            await self.close()
            trouble = self._trouble or "no answer; is NATS running there?"
            raise UsageError(f"the bus cannot be reached: {trouble}") from None
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Send what was published, let the registry answer, then close the connection."""
        self._is_closing = True
        connection = self._connection
        if connection is not None:
            with suppress(TimeoutError, OSError, nats.errors.Error):
                async with asyncio.timeout(STALE_SECONDS):
                    await self.registry.finish()
                    while self._outgoing:
                        await connection.rtt()
                    await connection.settle()
        if self._task is not None:
            while (
                not self._task.done()
            ):  # a cancellation may be lost in nats-py, or in wait_for of Python 3.11
                self._task.cancel()
                await asyncio.wait([self._task], timeout=ENDING_SECONDS)
            self._task = None

    def publish(self, subject: str, payload: bytes) -> None:
        if self._connection is None or self._ended.done():
            self.traffic.lost += 1
            return
        if len(payload) > parts.MOST_BYTES:
            self._refuse()
            self._log.warning("bus_message_too_large", bytes=len(payload))
            return
        self._outgoing.append((subject, payload))
        self._waiting += len(payload) + OVERHEAD
        self._wake.set()
        if self._waiting > MOST_WAITING:
            self._overrun("NATS does not take messages as fast as this node sends them")

    def subscribe(self, subject: str, received: Received) -> Stop:
        self._subscriptions.setdefault(subject, []).append(received)
        self._look_at(subject)

        def stop() -> None:
            own = self._subscriptions.get(subject, [])
            if received in own:
                own.remove(received)
                if not own:
                    del self._subscriptions[subject]
                    self._look_at(subject)

        return stop

    def on_change(self, told: Callable[[bool], None]) -> None:
        self._told.append(told)

    # -- the connection ----------------------------------------------------------------------------

    async def _run(self) -> None:
        """Raises nothing: whatever happens, the next connection is tried."""
        pause = FIRST_PAUSE
        while not self._is_closing:
            before = self.traffic.connections
            faults = [await self._attempt(server) for server in self._candidates()]
            if faults[0] is not None and all(faults) and not self._first.done():
                self._first.set_exception(faults[0])
                return
            pause = FIRST_PAUSE if self.traffic.connections > before else min(pause * 1.5, LONGEST_PAUSE)
            await asyncio.sleep(pause * random.uniform(0.5, 1))  # noqa: S311

    def _candidates(self) -> list[Server]:
        given = random.sample(self._servers, len(self._servers))
        return [
            *given,
            *(server for server in self._found if server.url not in {known.url for known in given}),
        ]

    async def _attempt(self, server: Server) -> UsageError | None:
        """Use this server for as long as it works. Returns what the operator has to change, if anything."""
        self._ended = ended = self._loop.create_future()
        connection = Connection(server, partial(_end, ended), partial(self._hear, ended))
        try:
            await connection.open(self._access, self._name, f"{self._prefix}inbox")
            await self._buckets.prepare(connection)
            async with asyncio.timeout(LISTENING_SECONDS):
                await self._probe(connection)
                await self._listen_again(connection)
            await self._hold(connection, ended)
        except UsageError as error:
            self._cannot_connect(str(error))
            return error
        except Exception as error:  # noqa: BLE001  # nats-py raises many kinds
            if connection.denied:
                denial = UsageError(
                    f"{server.url}: NATS does not permit what the bus needs: {connection.denied}"
                )
                self._cannot_connect(str(denial))
                return denial
            self._cannot_connect(str(error) or f"{server.url}: no answer")
        finally:
            self._listening.clear()
            await connection.end()
        return None

    async def _probe(self, connection: Connection) -> None:
        """Raises ConnectionError if this user may not publish, or not listen. NATS only tells when it is tried."""
        subject = f"{self._prefix}probe"
        probe = await connection.subscribe(subject)
        await connection.publish(subject, b"")
        await probe.unsubscribe()
        await connection.settle()
        if connection.denied:
            raise ConnectionError(connection.denied)

    async def _listen_again(self, connection: Connection) -> None:
        """Returns when NATS knows of all subscriptions that there are now."""
        while self._listening.keys() != self._subscriptions.keys():
            for subject in self._listening.keys() ^ self._subscriptions.keys():
                await self._follow(connection, subject)
            await connection.settle()

    async def _hold(self, connection: Connection, ended: "asyncio.Future[str]") -> None:
        """Returns when the connection is lost."""
        tasks: list[asyncio.Future[None]] = [
            self._loop.create_task(self._write(connection, ended)),
            self._loop.create_task(self._beat(connection, ended)),
        ]
        for task in tasks:
            task.add_done_callback(_take_note)
        self._rise(connection)
        try:
            everything: list[asyncio.Future[Any]] = [ended, *tasks]
            await asyncio.wait(everything, return_when=asyncio.FIRST_COMPLETED)
        finally:
            failed = [str(task.exception()) for task in tasks if task.done()]
            _end(ended, failed[0] if failed else "closed")
            self._fall(connection, ended.result())
            connection.abort()
            for task in tasks:
                task.cancel()
            self._wake.set()
            await asyncio.wait(tasks, timeout=ENDING_SECONDS)

    def _rise(self, connection: Connection) -> None:
        self._connection = connection
        self.traffic.connections += 1
        self._trouble = ""
        self._found = [
            connection.server._replace(url=f"{url.scheme}://{url.netloc}")
            for url in connection.discovered_servers
        ]
        self._log.info("bus_up", server=connection.server.url)
        self.registry.rise(connection)
        self._tell(True)
        if not self._first.done():
            self._first.set_result(None)

    def _fall(self, connection: Connection, reason: str) -> None:
        self._connection = None
        self.traffic.lost += sum(payload is not None for _, payload in self._outgoing)
        self._outgoing.clear()
        self._waiting = 0
        self._assembly.clear()
        self.registry.fall()
        if not self._is_closing:
            self._log.warning("bus_down", server=connection.server.url, reason=reason)
            self._tell(False)

    def _tell(self, is_up: bool) -> None:
        for told in self._told:
            self._loop.call_soon(told, is_up)

    def _cannot_connect(self, reason: str) -> None:
        """Logged once, until the reason is another one."""
        if reason != self._trouble:
            self._trouble = reason
            self._log.warning("bus_unreachable", reason=reason)

    def _hear(self, ended: "asyncio.Future[str]", error: Exception) -> None:
        if isinstance(error, nats.errors.SlowConsumerError):
            if not ended.done():
                self._overrun("this node does not take messages as fast as NATS brings them")
        elif "permissions violation" in str(error):
            self._log.warning("bus_not_permitted", reason=str(error))
        elif not isinstance(error, (nats.errors.Error, OSError)):
            self._log.warning("bus_handler_failed", exc_info=error)

    def _overrun(self, reason: str) -> None:
        self.traffic.overruns += 1
        _end(self._ended, reason)

    def _refuse(self) -> None:
        self.traffic.refused += 1

    # -- its tasks ---------------------------------------------------------------------------------

    async def _beat(self, connection: Connection, ended: "asyncio.Future[str]") -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            answer = self._loop.create_task(connection.rtt())
            answer.add_done_callback(_take_note)
            try:
                await asyncio.wait([answer], timeout=STALE_SECONDS)
                if not answer.done():
                    await asyncio.wait([answer], timeout=SECOND_LOOK)
                if not answer.done():
                    _end(ended, f"no answer for {STALE_SECONDS + SECOND_LOOK:g} seconds")
                    return
                answer.result()
            finally:
                answer.cancel()

    async def _write(self, connection: Connection, ended: "asyncio.Future[str]") -> None:
        """Ends with the connection. nats-py may swallow a cancellation, so that alone would not do."""
        while not ended.done():
            await self._wake.wait()
            self._wake.clear()
            while self._outgoing and not ended.done():
                subject, payload = self._outgoing.popleft()
                if payload is None:
                    await self._follow(connection, subject)
                    continue
                self._waiting -= len(payload) + OVERHEAD
                self.traffic.published += 1
                if len(payload) <= connection.max_payload:
                    await connection.publish(self._prefix + subject, payload)
                    continue
                size = connection.max_payload - HEADER_ROOM
                for headers, part in parts.split(next(self._part_names), payload, size):
                    await connection.publish(self._prefix + subject, part, headers=headers)

    def _look_at(self, subject: str) -> None:
        if self._connection is not None:
            self._outgoing.append((subject, None))
            self._wake.set()

    async def _follow(self, connection: Connection, subject: str) -> None:
        """Listen to a subject if there is a subscription, else no more."""
        wanted, known = subject in self._subscriptions, self._listening.get(subject)
        if wanted and known is None:
            self._listening[subject] = await connection.subscribe(
                self._prefix + subject,
                cb=partial(self._receive, connection, subject),
                pending_msgs_limit=MOST_RECEIVED,
                pending_bytes_limit=MOST_RECEIVED_BYTES,
            )
        elif known is not None and not wanted:
            del self._listening[subject]
            await known.unsubscribe()

    async def _receive(self, connection: Connection, subject: str, message: Msg) -> None:
        if connection is not self._connection:
            return  # it came before the bus was up, or was still waiting when it went down
        payload: bytes | None = message.data
        if message.headers is not None and parts.HEADER in message.headers:
            payload = self._assembly.add(message.headers[parts.HEADER], message.data)
        if payload is None:
            return
        self.traffic.received += 1
        for received in tuple(self._subscriptions.get(subject, ())):
            received(payload)


def _take_note(task: "asyncio.Future[Any]") -> None:
    """What fails after its connection was given up is of no interest; the loop would complain of it."""
    if not task.cancelled():
        task.exception()


def _end(ended: "asyncio.Future[str]", reason: str) -> None:
    if not ended.done():
        ended.set_result(reason)
