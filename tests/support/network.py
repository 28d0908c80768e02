"""Hosts on loopback, with a clock that only tests move."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from moothall.hall.mesh.network import Settle
from moothall.identity.signatures import expand
from moothall.network.host import Host
from moothall.network.rules import Rules
from moothall.p2p.connection import Connection
from moothall.p2p.handshake import Credentials
from moothall.p2p.identify import Identification
from moothall.p2p.multiaddr import Multiaddr
from moothall.p2p.multistream import HEADER, line
from moothall.p2p.pubsub import Message
from moothall.p2p.yamux import Session
from moothall.p2p.yamux_streams import Event, Received, Reset, Stream

LOOPBACK: Final = Multiaddr.parse("/ip4/127.0.0.1/tcp/0")
TURNS: Final = 200_000  # of the event loop, until a test gives up


async def until(is_so: Callable[[], object]) -> None:
    for _ in range(TURNS):
        if is_so():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not happen")


class Alarm:
    def __init__(self, due: int, call: Callable[[], None]) -> None:
        self.due = due
        self.call = call
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class MadeUpTime:
    def __init__(self) -> None:
        self._now = 1_000_000
        self._alarms: list[Alarm] = []

    def now(self) -> int:
        return self._now

    def call_later(self, delay: int, call: Callable[[], None]) -> Alarm:
        alarm = Alarm(self._now + delay, call)
        self._alarms.append(alarm)
        return alarm

    def pass_by(self, duration: int) -> None:
        """Time goes on, with all alarms on the way."""
        end = self._now + duration
        while True:
            self._alarms = [alarm for alarm in self._alarms if not alarm.is_cancelled]
            due = [alarm for alarm in self._alarms if alarm.due <= end]
            if not due:
                break
            alarm = min(due, key=lambda each: each.due)
            self._alarms.remove(alarm)
            self._now = max(self._now, alarm.due)
            alarm.call()
        self._now = end


class Resident:
    """Remembers what its host tells."""

    def __init__(self) -> None:
        self.news: list[tuple[str, bytes]] = []
        self.reasons: list[str] = []
        self.told: dict[bytes, Identification] = {}
        self.joined_topics: set[tuple[bytes, str]] = set()
        self.messages: list[Message] = []
        self.envelopes: list[tuple[bytes, bytes]] = []
        self.takes: bool | None = True  # what peers are told of envelopes; None: nothing yet
        self.unsettled: list[Settle] = []
        self.is_busy = False

    def connected(self, peer: bytes) -> None:
        self.news.append(("connected", peer))

    def identified(self, peer: bytes, told: Identification) -> None:
        self.told[peer] = told

    def disconnected(self, peer: bytes, reason: str) -> None:
        self.news.append(("disconnected", peer))
        self.reasons.append(reason)

    def joined(self, peer: bytes, topic: str) -> None:
        self.joined_topics.add((peer, topic))

    def left(self, peer: bytes, topic: str) -> None:
        self.joined_topics.discard((peer, topic))

    def admits(self, relay: bytes, message: Message) -> bool:
        return not self.is_busy

    def message(self, relay: bytes, message: Message) -> None:
        self.messages.append(message)

    def envelope(self, peer: bytes, envelope: bytes, settle: Settle) -> None:
        self.envelopes.append((peer, envelope))
        if self.takes is None:
            self.unsettled.append(settle)
        else:
            settle(self.takes)


class Home:
    """A host that listens, its resident and its time."""

    def __init__(self, name: str, rules: Rules | None = None) -> None:
        self.time = MadeUpTime()
        self.resident = Resident()
        self.host = Host(
            expand(name.encode().ljust(32, b".")),
            self.resident,
            agent_version=f"test/{name}",
            rules=rules,
            outside=self.time,
        )
        self.id = self.host.agent_id
        self.address = LOOPBACK

    async def open(self, address: Multiaddr = LOOPBACK) -> None:
        self.address = await self.host.listen(address)

    def links(self) -> int:
        return self.host.statistics().connections

    def knows(self, *others: "Home") -> bool:
        """True if it has exactly these peers, one connection each, and they have identified themselves."""
        names = {other.id for other in others}
        return {peer.agent_id for peer in self.host.peers()} == names <= self.resident.told.keys() and (
            self.links() == len(names)
        )


@asynccontextmanager
async def homes(*names: str, rules: Rules | None = None) -> AsyncIterator[list[Home]]:
    """They know nothing of each other, and are closed in the end."""
    built = [Home(name, rules) for name in names]
    for home in built:
        await home.open()
    try:
        yield built
    finally:
        for home in built:
            closing = asyncio.ensure_future(home.host.close())
            for _ in range(TURNS):
                if closing.done():
                    break
                await asyncio.sleep(0)
                home.time.pass_by(100)
            await closing


async def meet(one: Home, other: Home) -> None:
    assert await one.host.dial(other.address) == other.id
    await until(lambda: other.id in one.resident.told and one.id in other.resident.told)


class Stranger:
    """A peer that does what a test makes it do: the machine of a connection, on a socket."""

    def __init__(self, name: str = "stranger") -> None:
        self.credentials = Credentials(expand(name.encode().ljust(32, b".")), b"S" * 32)
        self.id = self.credentials.agent_id
        self.machine = Connection(self.credentials, b"E" * 32, is_client=True)
        self.events: list[Event] = []
        self.said: dict[Stream, bytes] = {}  # what the host said on each stream

    @property
    def session(self) -> Session:
        assert self.machine.session is not None
        return self.machine.session

    async def connect(self, address: Multiaddr) -> None:
        """Until both sides speak yamux."""
        self.reader, self.writer = await asyncio.open_connection(address.host, address.port, limit=4096)
        self.flush()
        while self.machine.session is None:
            assert await self.read(), "the connection has ended"

    async def dial(self, home: Home) -> None:
        """Until its key is proven."""
        await self.connect(home.address)
        await until(lambda: self.id in {peer.agent_id for peer in home.host.peers()})

    def flush(self) -> None:
        while data := self.machine.take(60_000):
            self.writer.write(data)

    async def read(self) -> bool:
        """False if the connection has ended."""
        try:
            data = await self.reader.read(65_536)
        except ConnectionError:
            return False
        for event in self.machine.receive(data):
            self.events.append(event)
            if isinstance(event, Received):
                self.said[event.stream] = self.said.get(event.stream, b"") + event.data
                self.session.consumed(event.stream, len(event.data))
        self.flush()
        return bool(data)

    def speak(self, protocol: str, data: bytes = b"") -> Stream:
        """Opens a stream, and goes on as if the protocol were agreed on."""
        stream = self.session.open()
        assert stream is not None
        self.say(stream, line(HEADER) + line(protocol) + data)
        return stream

    def say(self, stream: Stream, data: bytes) -> None:
        assert self.session.send(stream, data)
        self.flush()

    def accept(self, protocol: str) -> Stream:
        """Agrees to the protocol that the host proposes on one of its streams."""
        stream = next(
            each for each, said in self.said.items() if protocol.encode() in said and not each.is_gone
        )
        self.say(stream, line(HEADER) + line(protocol))
        return stream

    def has_reset(self, stream: Stream) -> bool:
        return Reset(stream) in self.events

    async def read_until(self, is_so: Callable[[], object]) -> None:
        for _ in range(TURNS):
            if is_so():
                return
            assert await self.read(), "the connection has ended"
        raise AssertionError("it did not happen")

    async def read_to_the_end(self) -> None:
        for _ in range(TURNS):
            if not await self.read():
                return
        raise AssertionError("the connection goes on")

    async def close(self) -> None:
        """At once, as a crash would."""
        self.writer.transport.abort()
        await asyncio.gather(self.writer.wait_closed(), return_exceptions=True)


@asynccontextmanager
async def visited(home: Home, name: str = "stranger") -> AsyncIterator[Stranger]:
    stranger = Stranger(name)
    await stranger.dial(home)
    try:
        yield stranger
    finally:
        await stranger.close()
