"""Peers of the network that `benchmarks/network.py` measures or measures with, as processes of their own.

    python -m benchmarks.network_peer                      one host; the first line is its address
    python -m benchmarks.network_peer 100 ADDRESS          a hundred hosts, each connected to that address

Then each line on standard input is a command in JSON, with an id; its answer is a line on standard output, with the
same id. So `tests/strangers/js_peer.py` can drive this too.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, Final

from moothall.hall.mesh.network import Settle
from moothall.identity.signatures import expand
from moothall.network.host import Host
from moothall.network.rules import Rules
from moothall.p2p import gossipsub
from moothall.p2p.identify import Identification
from moothall.p2p.multiaddr import Multiaddr
from moothall.p2p.pubsub import Message

TOPIC: Final = "/0x01/v1/broadcast"
SIZE: Final = 300  # bytes of an envelope
LOOPBACK: Final = Multiaddr.parse("/ip4/127.0.0.1/tcp/0")
# A crowd would meet a message on other ways too, so it asks for none that it is only told of.
CROWD_RULES: Final = Rules(gossip=gossipsub.Rules(ihaves=0))
HUB_RULES: Final = Rules(per_address=1000)
_SLICE: Final = 0.05  # seconds


class Counting:
    """A resident that counts. `looks` says whether it has signatures checked."""

    def __init__(self, *, looks: bool = True) -> None:
        self._looks = looks
        self._changed = asyncio.Event()
        self.peers: set[bytes] = set()
        self.identified_peers: set[bytes] = set()
        self.in_topic: set[bytes] = set()
        self.arrived = 0
        self.messages = 0
        self.envelopes = 0

    async def until(self, is_so: Callable[[], object]) -> None:
        while not is_so():
            self._changed.clear()
            await self._changed.wait()

    def connected(self, peer: bytes) -> None:
        self.peers.add(peer)

    def identified(self, peer: bytes, told: Identification) -> None:
        self.identified_peers.add(peer)
        self._changed.set()

    def disconnected(self, peer: bytes, reason: str) -> None:
        self.peers.discard(peer)
        self.in_topic.discard(peer)

    def joined(self, peer: bytes, topic: str) -> None:
        self.in_topic.add(peer)
        self._changed.set()

    def left(self, peer: bytes, topic: str) -> None:
        self.in_topic.discard(peer)

    def admits(self, relay: bytes, message: Message) -> bool:
        self.arrived += 1
        return self._looks

    def message(self, relay: bytes, message: Message) -> None:
        self.messages += 1
        self._changed.set()

    def envelope(self, peer: bytes, envelope: bytes, settle: Settle) -> None:
        self.envelopes += 1
        settle(True)


def new_host(resident: Counting, rules: Rules | None = None) -> Host:
    return Host(expand(os.urandom(32)), resident, agent_version="moothall/benchmark", rules=rules)


async def _one() -> None:
    resident = Counting()
    host = new_host(resident, HUB_RULES)
    address = await host.listen(LOOPBACK)

    async def subscribe(topic: str) -> None:
        host.join(topic)

    async def messages(count: int) -> int:
        await resident.until(lambda: resident.messages >= count)
        return resident.messages

    async def numbers() -> dict[str, int]:
        told = host.statistics()
        mesh = told.gossip.meshes.get(TOPIC, 0)
        return {
            "messages": resident.messages,
            "in_topic": len(resident.in_topic),
            "dropped": told.dropped,
            "mesh": mesh,
        }

    print(address, flush=True)
    await _serve({"subscribe": subscribe, "messages": messages, "numbers": numbers})
    await host.close()


async def _crowd(size: int, hub: Multiaddr) -> None:
    residents = [Counting(looks=False) for _ in range(size)]
    hosts = [new_host(resident, CROWD_RULES) for resident in residents]
    for host, resident in zip(hosts, residents, strict=True):
        host.join(TOPIC)
        await host.dial(hub)
        await resident.until(lambda: resident.in_topic)  # noqa: B023  # awaited here

    async def publish(seconds: float, rate: int) -> int:
        loop = asyncio.get_running_loop()
        began = loop.time()
        published = 0
        numbers = count()
        while (passed := loop.time() - began) < seconds:
            while published < passed * rate:
                hosts[next(numbers) % size].publish(TOPIC, os.urandom(SIZE))
                published += 1
            await asyncio.sleep(_SLICE)
        return published

    async def arrived() -> int:
        return sum(resident.arrived for resident in residents)

    print("ready", flush=True)
    await _serve({"publish": publish, "arrived": arrived})
    await asyncio.gather(*(host.close() for host in hosts))


async def _serve(commands: dict[str, Callable[..., Awaitable[Any]]]) -> None:
    """Until standard input ends."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async for line in reader:
        command = json.loads(line)
        number, name = command.pop("id"), command.pop("name")
        result = await commands[name](**command)
        print(json.dumps({"id": number, "result": result}), flush=True)
    transport.close()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(_crowd(int(sys.argv[1]), Multiaddr.parse(sys.argv[2])))
    else:
        asyncio.run(_one())
