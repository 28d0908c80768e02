"""Topics of the mesh on real nodes: each subscriber hears each envelope once, and so does the network of peers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from moothall.identity import PrivateKey
from moothall.wire.mesh.announcements import Beacon
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.envelope import Envelope
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.offers import Propose
from tests.store.server import Server
from tests.support.agentchat import AgentChat
from tests.support.mesh_peer import PATIENCE, MeshPeer, mesh_peer
from tests.support.nats_server import NatsServer
from tests.support.nodes import until
from tests.support.real_cluster import Node, RealCluster
from tests.test_mesh_network import address_of, network_of, opened

ALICE, BOB, CAROL, DORA, ERIN = (PrivateKey(letter * 32) for letter in (b"a", b"b", b"c", b"d", b"e"))
TOPIC = "news"
MANY = 50


def text(content: str, topic: str = TOPIC) -> bytes:
    return Broadcast(topic=topic, title="", content=content.encode()).encode()


def content_of(envelope: Envelope) -> str:
    return (Broadcast.decode(envelope.payload).content or b"").decode()


@asynccontextmanager
async def subscriber(node: Node, key: PrivateKey) -> AsyncIterator[MeshPeer]:
    async with mesh_peer(node.url, key) as peer:
        await peer.ask("subscribe", topic=TOPIC)
        yield peer


async def hear(peer: MeshPeer, content: str) -> list[str]:
    """All that it heard up to this, which it has not looked at before."""
    heard: list[str] = []
    while not heard or heard[-1] != content:
        heard.append(content_of(await peer.envelope(MsgType.BROADCAST)))
    return heard


async def reach(sender: MeshPeer, *others: MeshPeer) -> None:
    """Until the sender's node knows what these hear: nodes tell each other a moment after `subscribed`."""
    waiting = {asyncio.create_task(other.envelope(MsgType.BROADCAST)) for other in others}
    async with asyncio.timeout(PATIENCE):
        while waiting:
            await sender.send(MsgType.BROADCAST, text("are you there"))
            _, waiting = await asyncio.wait(waiting, timeout=0.1)
    await sender.send(MsgType.BROADCAST, text("then we begin"))
    for other in others:
        await hear(other, "then we begin")


async def test_agents_of_all_nodes_hear_a_topic(cluster: RealCluster, nats: NatsServer) -> None:
    here, there, third = cluster.nodes
    async with AsyncExitStack() as stack:
        alice, near = [await stack.enter_async_context(subscriber(here, key)) for key in (ALICE, DORA)]
        bob = await stack.enter_async_context(subscriber(there, BOB))
        carol = await stack.enter_async_context(subscriber(third, CAROL))
        others = (near, bob, carol)
        await reach(alice, *others)

        said = [str(number) for number in range(MANY)]
        for content in said:
            await alice.post(alice.seal(MsgType.BROADCAST, text(content)))
        for other in others:
            assert await hear(other, said[-1]) == said

        await bob.send(MsgType.BOUNTY, b"{}")
        for other in (alice, near, carol):
            assert (await other.envelope(MsgType.BOUNTY)).sender == bob.id

        envelope = alice.seal(MsgType.BROADCAST, text("once"))
        await alice.post(envelope)
        for other in others:
            await hear(other, "once")
        async with mesh_peer(there.url, ALICE) as thief:
            await thief.post(envelope)
            assert (await thief.notice("refused"))["fault"] == "NonceReplay"

        nats.kill()
        for node in cluster.nodes:
            await node.reports(bus="down")
        await alice.send(MsgType.BROADCAST, text("apart"))
        assert await hear(near, "apart") == ["apart"]
        nats.start()
        for node in cluster.nodes:
            await node.reports(bus="up")
        await cluster.together()
        await reach(alice, *others)
        assert all(not other.envelopes for other in others), "what was said meanwhile does not come late"


async def test_the_hall_is_one_peer_of_the_network(tmp_path: Path, server: Server, nats: NatsServer) -> None:
    async with AsyncExitStack() as stack:
        outside = await stack.enter_async_context(opened(tmp_path / "outside", server_name="outside"))
        bridge = {0: {"MOOTHALL_MESH_PEERS": address_of(outside)}}
        cluster = RealCluster(tmp_path, server.new_database(), nats.url, nodes=2, environments=bridge)
        stack.callback(cluster.kill)
        await asyncio.to_thread(cluster.start)
        await cluster.together()
        erin = await stack.enter_async_context(mesh_peer(outside.url, ERIN))
        await erin.ask("subscribe", topic=TOPIC)
        bob = await stack.enter_async_context(subscriber(cluster[1], BOB))
        alice = await stack.enter_async_context(subscriber(cluster[0], ALICE))
        await reach(bob, alice, erin)
        await until(lambda: bool(network_of(outside).host.peers_in("/0x01/v1/t/" + TOPIC)))

        await bob.send(MsgType.BROADCAST, text("out"))
        await bob.send(MsgType.BROADCAST, text("and no more"))
        for other in (alice, erin):
            assert await hear(other, "and no more") == ["out", "and no more"]
        await erin.send(MsgType.BROADCAST, text("in"))
        await erin.send(MsgType.BROADCAST, text("and that was it"))
        for other in (alice, bob):
            assert await hear(other, "and that was it") == ["in", "and that was it"]
        assert not erin.envelopes or erin.envelopes[-1].sender != erin.id, "it does not come back"

        work = Propose(message="work").encode()
        await bob.send(MsgType.BEACON, Beacon(bob.id, "bob").encode())
        await erin.envelope(MsgType.BEACON)  # its hall knows the way
        offer = asyncio.create_task(bob.envelope(MsgType.PROPOSE))
        for talk in (bytes((number,)) * 16 for number in range(1, 200)):
            await erin.send(MsgType.PROPOSE, work, to=bob.id, talk=talk)
            if (await asyncio.wait((offer,), timeout=0.1))[0]:  # the store has to know where Bob is
                break
        assert (await offer).sender == erin.id

        async with await AgentChat.connect(cluster[1].url, "carol") as carol:
            await carol.create_channel("#lounge")
            await erin.ask("subscribe", topic="lounge")
            topic = "/0x01/v1/t/lounge"
            await until(lambda: bool(network_of(outside).host.peers_in(topic)))
            await carol.say("#lounge", "hello, network")
            assert await hear(erin, "hello, network") == ["hello, network"]
            await erin.send(MsgType.BROADCAST, text("hello, hall", "lounge"))
            await carol.expect("MSG", content="hello, hall", via="mesh")
