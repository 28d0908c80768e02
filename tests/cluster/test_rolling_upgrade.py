"""A node of this version is one hall with a node of an earlier version: a recording plays the other one."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from nats import connect
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.store.server import Server
from tests.support.agentchat import AgentChat
from tests.support.nats_server import NatsServer
from tests.support.real_cluster import Node, RealCluster, listed
from tests.support.recorded_peer import ALICE, BOB, CHANNEL, SUBJECTS, Packet, read
from tests.support.server import PATIENCE

RECORDINGS = sorted((Path(__file__).parent.parent / "vectors").glob("bus_*.json"))
OLD, NEW = "n0", "n1"  # Alice's node, which is home to the channel, and Bob's
RENEWAL = 1.0  # seconds


class Sent(NamedTuple):
    """A packet, as any version reads it."""

    subject: str
    node: str
    life: int
    kinds: list[str]


def sent(packet: Packet) -> Sent:
    node, life, messages = msgspec.msgpack.decode(packet.payload[1:])
    return Sent(packet.subject, node, life, [kind for kind, _ in messages])


class RecordedNode:
    """Sends what the old node sent, each packet when the new node has sent what came before it in the recording.

    Packets and marks name lives of nodes. The life of the new node is put in place of the one it had then.
    """

    def __init__(self, client: Client, recording: list[Packet]) -> None:
        self._client = client
        self._packets = iter(recording)
        self._lives = {each.node: each.life for each in map(sent, recording)}
        self._hall = ""
        self._heard: list[Sent] = []
        self._news = asyncio.Event()

    async def listen(self) -> None:
        await self._client.subscribe("moothall.>", cb=self._hear)
        await self._client.flush()

    async def _hear(self, message: Msg) -> None:
        _, hall, subject = message.subject.split(".", 2)
        if subject.partition(".")[0] in SUBJECTS:
            self._hall = hall
            self._heard.append(sent(Packet(subject, message.data)))
            self._news.set()

    async def hears(self, kind: str) -> Sent:
        """A packet of the new node with this kind of message, from now or before."""
        async with asyncio.timeout(PATIENCE):
            while True:
                for each in self._heard:
                    if each.node == NEW and kind in each.kinds:
                        return each
                self._news.clear()
                await self._news.wait()

    async def write(self, bucket: str, key: str, **value: Any) -> None:
        subject = f"$KV.moothall_{self._hall}_{bucket}.{key}"
        await self._client.jetstream().publish(subject, msgspec.json.encode(value))

    @asynccontextmanager
    async def living(self) -> AsyncIterator[None]:
        """It is in the registry, and home to the channel."""

        async def renew() -> None:
            while True:
                await self.write("nodes", OLD, life=self._lives[OLD])
                await asyncio.sleep(RENEWAL)

        self._lives[NEW], recorded = (await self.hears("roster-serial")).life, self._lives[NEW]
        self._changes = [
            (recorded.to_bytes(8), self._lives[NEW].to_bytes(8)),
            (str(recorded).encode(), str(self._lives[NEW]).encode()),
        ]
        await self.write("homes", CHANNEL.encode().hex(), node=OLD, life=self._lives[OLD], epoch=1)
        renewing = asyncio.create_task(renew())
        try:
            yield
        finally:
            renewing.cancel()
            with suppress(asyncio.CancelledError):
                await renewing

    async def play_to(self, kind: str) -> None:
        """Go on up to the next packet of its own that has this kind of message."""
        for packet in self._packets:
            recorded = sent(packet)
            if recorded.node == OLD:
                payload = packet.payload
                for before, after in self._changes:
                    payload = payload.replace(before, after)
                await self._client.publish(f"moothall.{self._hall}.{packet.subject}", payload)
                if kind in recorded.kinds:
                    return
        raise AssertionError(f"the recording has no more {kind}")


@pytest.fixture
def node(tmp_path: Path, server: Server, nats: NatsServer) -> Iterator[Node]:
    cluster = RealCluster(tmp_path, server.new_database(), nats.url, nodes=2)
    assert cluster[1].name == NEW
    try:
        cluster[1].start()
        yield cluster[1]
    finally:
        cluster.kill()


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.stem)
async def test_a_node_is_one_hall_with_one_of_an_earlier_version(
    recording: Path, node: Node, nats: NatsServer
) -> None:
    """Its agents are told of those there, enter a channel that has its home there, and hear what is said there."""
    client = await connect(nats.url, allow_reconnect=False)
    old = RecordedNode(client, read(recording))
    await old.listen()
    async with old.living():
        await old.hears("roster-want")
        await old.play_to("roster-list")
        async with await AgentChat.connect(node.url, "probe"):
            pass
        await old.hears("roster-departed")  # Bob's number in the roster is the one that he had
        await old.play_to("roster-new-key")
        await old.play_to("roster-present")
        bob = await AgentChat.connect(node.url, "agent", BOB)
        alice = f"@{ALICE.public.agent_id()}"
        assert (await listed(bob, alice))["verified"]

        await bob.send(type="JOIN", channel=CHANNEL, ref="r1")
        await old.hears("channel-follow")
        await old.play_to("channel-snapshot")
        await old.hears("channel-submit")
        await old.play_to("channel-happened")
        joined = await bob.answer("JOINED", channel=CHANNEL, ref="r1")
        assert {member["id"] for member in joined["agents"]} == {alice, bob.agent_id}
        await old.play_to("agent-deliver")
        await bob.expect("MSG", **{"from": alice}, to=bob.agent_id)
        await old.play_to("channel-happened")
        await bob.expect("MSG", **{"from": alice}, to=CHANNEL)
        await bob.close()
    await client.close()
    assert node.is_running
    assert "bus_packet_refused" not in node.stderr.text
