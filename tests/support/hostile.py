"""Honest peers that talk through a host while a hostile one is there, and what the host holds because of it."""

import asyncio
import gc
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Final

from moothall.network.rules import Rules
from moothall.p2p import ping, pubsub
from moothall.p2p.pubsub import Rpc
from moothall.p2p.yamux_streams import Stream
from tests.support.network import Home, Stranger, homes, meet, until, visited

KIB: Final = 1024
MIB: Final = 1024 * KIB
TOPIC: Final = "/0x01/v1/broadcast"
GOSSIP: Final = pubsub.PROTOCOLS[0]
_PIECE: Final = 16 * 1024
# Bytes that a host keeps of one line that Bob said: the message, its id, and when it was seen
_LINE: Final = 1500


class Company:
    """`hub` is attacked. Bob talks to Carol through it all the while, in a topic and with envelopes."""

    def __init__(self, hub: Home, bob: Home, carol: Home) -> None:
        self.hub, self.bob, self.carol = hub, bob, carol
        self.said = 0
        self.most_waiting = 0
        self._looked_at = self._counted = self._of_others = 0
        self._heard: list[bytes] = []
        self._is_over = False
        self._weight_before = self.weight()

    def weight(self) -> int:
        return weight(self.hub.host, self.hub.resident)

    @property
    def growth(self) -> int:
        """Bytes that the host holds now and did not hold before the attack, without what Bob said."""
        return self.weight() - self._weight_before - _LINE * self.said

    @property
    def checks(self) -> int:
        """Signatures of others than Bob that the host has checked."""
        new = self.hub.resident.messages[self._counted :]
        self._counted += len(new)
        self._of_others += sum(each.author != self.bob.id for each in new)
        return self._of_others + self.hub.host.statistics().outcomes["forged"]

    async def talk(self) -> None:
        """Until it is over. Each line must arrive before the next is said."""
        while not self._is_over:
            line = b"line %d" % self.said
            self.bob.host.publish(TOPIC, line)
            await self.bob.host.send(self.hub.id, line)
            await self.hub.host.send(self.carol.id, line)
            await until(lambda: self._listen() > self.said)
            self.said += 1
            self.most_waiting = max(self.most_waiting, self.hub.host.statistics().waiting)

    async def pass_by(self, seconds: int) -> None:
        """Time goes on for the hub, while Bob and Carol talk."""
        for _ in range(seconds):
            said = self.said
            await until(lambda: self.said > said)  # noqa: B023  # awaited here
            self.hub.time.pass_by(1000)

    async def stays_well(self) -> None:
        """Says some more lines. All lines have arrived, in their order."""
        said = self.said
        await until(lambda: self.said >= said + 3)
        self._is_over = True

    def check(self) -> None:
        lines = [b"line %d" % number for number in range(self.said)]
        assert self._heard == lines
        for home, peer in ((self.hub, self.bob), (self.carol, self.hub)):
            assert [envelope for name, envelope in home.resident.envelopes if name == peer.id] == lines

    def _listen(self) -> int:
        messages = self.carol.resident.messages
        self._heard += [each.data for each in messages[self._looked_at :] if each.author == self.bob.id]
        self._looked_at = len(messages)
        return len(self._heard)


@asynccontextmanager
async def company(rules: Rules | None = None) -> AsyncIterator[Company]:
    async with homes("hub", "bob", "carol", rules=rules) as (hub, bob, carol):
        for home in (hub, bob, carol):
            home.host.join(TOPIC)
        await meet(bob, hub)
        await meet(carol, hub)
        await until(lambda: hub.host.statistics().gossip.meshes[TOPIC] == 2)
        await until(lambda: bob.host.peers_in(TOPIC) and carol.host.peers_in(TOPIC))
        there = Company(hub, bob, carol)
        talking = asyncio.ensure_future(there.talk())
        try:
            yield there
            await there.stays_well()
            await talking
            there.check()
        finally:
            talking.cancel()
            await asyncio.gather(talking, return_exceptions=True)


@asynccontextmanager
async def attacked(rules: Rules | None = None) -> AsyncIterator[tuple[Company, Stranger]]:
    """A hostile peer is connected to the hub."""
    async with company(rules) as there, visited(there.hub) as stranger:
        yield there, stranger


async def in_topic(there: Company, stranger: Stranger) -> Stream:
    """The stranger is in the mesh of the topic. Returns the stream that it speaks gossipsub on."""
    await stranger.read_until(lambda: any(GOSSIP.encode() in said for said in stranger.said.values()))
    stranger.accept(GOSSIP)
    stream = stranger.speak(GOSSIP, Rpc(subscriptions=[(True, TOPIC)], graft=[TOPIC]).encode())
    await until(lambda: there.hub.host.statistics().gossip.meshes[TOPIC] == 3)
    return stream


@asynccontextmanager
async def several(hub: Home, number: int) -> AsyncIterator[list[Stranger]]:
    strangers = [Stranger(f"stranger {each}") for each in range(number)]
    try:
        for stranger in strangers:
            await stranger.dial(hub)
        yield strangers
    finally:
        for stranger in strangers:
            await stranger.close()


async def cut_off(there: Company, stranger: Stranger, reason: str) -> None:
    await stranger.read_to_the_end()
    await until(lambda: there.hub.links() == 2)
    assert reason in there.hub.resident.reasons[-1]


async def answered(stranger: Stranger) -> None:
    """All that was sent before has been dealt with."""
    stream = stranger.speak(ping.PROTOCOL, bytes(ping.PAYLOAD))
    await stranger.read_until(lambda: stranger.said.get(stream, b"").endswith(bytes(ping.PAYLOAD)))


async def pour(stranger: Stranger, stream: Stream, data: bytes) -> bool:
    """Sends as fast as the host takes it. False if it has ended the stream or the connection."""
    for start in range(0, len(data), _PIECE):
        piece = data[start : start + _PIECE]
        while not stranger.session.send(stream, piece):
            if stream.is_gone or not await stranger.read():
                return False
        stranger.flush()
        try:
            await stranger.writer.drain()
        except ConnectionError:
            return False
    while stream.queue:
        if not await stranger.read():
            return False
    return not stream.is_gone


async def flood(stranger: Stranger, frames: Iterable[bytes]) -> None:
    """Sends frames of yamux past its rules, until the host closes the connection. Reads nothing."""
    channel = stranger.machine._channel
    assert channel is not None
    with suppress(ConnectionError):
        for frame in frames:
            stranger.writer.write(channel.seal(frame))
            await stranger.writer.drain()


def weight(root: object, *others: object) -> int:
    """Bytes of all objects that belong to one, without those of `others`, of the event loop and of the program."""
    apart = (type, ModuleType, FunctionType, BuiltinFunctionType, asyncio.AbstractEventLoop)
    seen = {id(each) for each in others} | {id(None)}
    found = 0
    todo = [root]
    while todo:
        each = todo.pop()
        if id(each) not in seen and not isinstance(each, apart):
            seen.add(id(each))
            found += sys.getsizeof(each)
            todo += gc.get_referents(each)
    return found
