"""Hostile peers of the network against a real hall, while agents talk on it."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.mesh_agents import Key, resident_kb

from moothall.identity import PrivateKey
from moothall.identity.signatures import expand
from moothall.network.announcement import HALLS
from moothall.p2p import bilateral, identify
from moothall.p2p.delimited import delimit
from moothall.p2p.multiaddr import Multiaddr
from moothall.p2p.pubsub import Prune, Rpc, publication, signed_message
from moothall.wire.mesh.envelope import encode
from moothall.wire.mesh.frames import frame
from moothall.wire.mesh.msg_types import BROADCAST_TOPIC, MsgType
from tests.support.agentchat import AgentChat
from tests.support.hostile import GOSSIP, answered, pour
from tests.support.mesh_peer import MeshPeer, mesh_peer
from tests.support.network import Stranger
from tests.support.server import HallProcess, running_hall

ALICE = PrivateKey(b"a" * 32)
LINES = 150
TALKATIVE = {"MOOTHALL_RATE_MESSAGE": "0", "MOOTHALL_RATE_POST_AUTH": "0"}


async def address_of(hall: HallProcess) -> Multiaddr:
    line = await asyncio.to_thread(hall.stdout.wait_for, lambda line: line.startswith("  peers"))
    assert line is not None
    return Multiaddr.parse(line.split()[1])


async def metric(hall: HallProcess, name: str) -> float:
    _, _, text = await hall.get("/metrics")
    (line,) = [line for line in text.splitlines() if line.startswith(name)]
    return float(line.rpartition(" ")[2])


@asynccontextmanager
async def connected(address: Multiaddr, name: str = "stranger") -> AsyncIterator[Stranger]:
    stranger = Stranger(name)
    await stranger.connect(address)
    try:
        yield stranger
    finally:
        await stranger.close()


def advertisement(author: Key, node: bytes | None = None) -> bytes:
    """An envelope in the topic of all, and the message of the node that publishes it."""
    author_secret = node or author._secret
    data = encode(author.envelope(MsgType.ADVERTISE, b"{}"))
    number = int.from_bytes(os.urandom(7), "big")
    return publication(signed_message(author_secret, number, BROADCAST_TOPIC, data))


async def harass(address: Multiaddr, number: int) -> None:
    """One of several attacks, until the hall ends the connection or the attack is over."""
    key = Key()
    messages = [advertisement(key) for _ in range(300)]
    forged = [each[:-1] + bytes((each[-1] ^ 1,)) for each in messages]
    joins = [(is_on, topic) for topic in (BROADCAST_TOPIC, HALLS) for is_on in (True, False)]
    spam = [
        b"".join(messages),
        b"".join(forged),
        Rpc(subscriptions=joins * 1000).encode(),
        Rpc(graft=[BROADCAST_TOPIC] * 1000, prune=[Prune(BROADCAST_TOPIC, 60)] * 500).encode(),
        Rpc(ihave=[(BROADCAST_TOPIC, [b"%d" % each for each in range(2000)])]).encode(),
        delimit(b"\x0a\x00" * 200_000),
    ]
    async with connected(address, f"stranger {number}") as stranger:
        for _ in range(20):
            stream = stranger.speak(GOSSIP)
            if not await pour(stranger, stream, spam[number % len(spam)]) and not stream.is_gone:
                return
            envelope = frame(os.urandom(1000))
            if stranger.session.streams < 90:
                stranger.speak(bilateral.PROTOCOL, envelope)
                stranger.speak(identify.IDENTIFY_PUSH, delimit(bytes(8000))[:-1])


async def test_agents_of_a_hall_notice_nothing_of_hostile_peers(tmp_path: Path) -> None:
    with running_hall(tmp_path, "--mesh-port", "0", environment=TALKATIVE) as hall:
        address = await address_of(hall)
        async with (
            await AgentChat.connect(hall.url, "alice") as alice,
            await AgentChat.connect(hall.url, "bob") as bob,
        ):
            await alice.create_channel("#talk")
            await bob.join("#talk")
            before = resident_kb(hall.process.pid)

            async def talk() -> None:
                for number in range(LINES):
                    await alice.say("#talk", f"line {number}")
                    await bob.expect("MSG", content=f"line {number}")

            half_open = [await asyncio.open_connection(address.host, address.port) for _ in range(40)]
            await asyncio.gather(talk(), *(harass(address, number) for number in range(18)))
            assert resident_kb(hall.process.pid) - before < 100 * 1024
            for _, writer in half_open:
                writer.close()
            async with connected(address) as newcomer:
                await answered(newcomer)
        assert await metric(hall, 'moothall_network_messages_total{outcome="forged"}') > 0
        assert not [line for line in hall.log if line["level"] in ("error", "critical")]


async def arrivals(alice: MeshPeer, wanted: Counter[bytes]) -> Counter[bytes]:
    """How many ADVERTISEs of each agent have come, when there are as many as wanted."""
    found: Counter[bytes] = Counter()
    while not wanted <= found:
        found[(await alice.envelope(MsgType.ADVERTISE)).sender] += 1
    return found


async def test_a_relay_of_many_authors_is_not_punished_for_one_of_them(tmp_path: Path) -> None:
    """One author says more than it may; what is over is dropped. All others come through the same peer."""
    honest, spammer = [Key() for _ in range(40)], Key()
    with running_hall(tmp_path, "--mesh-port", "0") as hall:
        async with (
            mesh_peer(hall.url, ALICE) as alice,
            connected(await address_of(hall)) as relay,
        ):
            stream = relay.speak(GOSSIP, Rpc(subscriptions=[(True, BROADCAST_TOPIC)]).encode())
            nodes = {key.id: expand(os.urandom(32)) for key in honest}
            wanted = Counter({key.id: 5 for key in honest})

            async def relaying() -> None:
                for part in range(5):
                    spam = [advertisement(spammer) for _ in range(1000)]
                    assert await pour(relay, stream, b"".join(spam))
                    said = [advertisement(key, nodes[key.id]) for key in honest]
                    assert await pour(relay, stream, b"".join(said)), part

            _, found = await asyncio.gather(relaying(), arrivals(alice, wanted))
            await answered(relay)
            dropped = await metric(hall, 'moothall_network_dropped_total{reason="room is busy"}')
        assert all(found[key.id] == 5 for key in honest)
        assert 0 < dropped <= 5000 - found[spammer.id]
        assert found[spammer.id] < 2500
