"""A client of NATS with the credentials of the hall sends what no node would: no node ends, and all go on."""

from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec
from nats import connect
from nats.aio.client import Client
from nats.aio.msg import Msg

from moothall.bus.parts import HEADER
from moothall.wire.bus import VERSION
from tests.identity.vectors import ALICE, BOB, CAROL
from tests.support.nats_server import NatsServer
from tests.support.notes import Record
from tests.support.real_cluster import RealCluster
from tests.support.recorded_peer import SUBJECTS
from tests.support.witness import enter

CHANGED = 20  # of each packet that was overheard
HEADERS = ("", "x", "x 0 0", "x 0 1", "x 1 2", "x -1 2", f"x 0 {10**30}", "x 0 " + "9" * 5000)
STRANGE: tuple[Any, ...] = (None, -1, 2**63, "", "\0", b"\xff", [], {}, 1e300)  # fields
KEYS = ("x", "=FF", "63", "a.b", "6".zfill(200))
VALUES = (
    b"\xff",
    b"{}",
    b"[]",
    b'{"node":5}',
    b'{"node":"n0","life":1e400}',
    b'{"node":"","life":-1,"epoch":0}',
)


def changed(payload: bytes, dice: Random) -> Iterator[bytes]:
    """The same in another form: cut, with other bytes, or as a packet whose messages have fields of other types."""
    for _ in range(CHANGED):
        body = bytearray(payload)
        for _ in range(dice.randrange(1, 4)):
            body[dice.randrange(len(body))] = dice.randrange(256)
        yield bytes(body)
        yield payload[: dice.randrange(len(payload))]
    node, life, messages = msgspec.msgpack.decode(payload[1:])
    for kind, content in messages:
        for index in range(len(content)):
            odd = [*content[:index], dice.choice(STRANGE), *content[index + 1 :]]
            yield bytes((VERSION,)) + msgspec.msgpack.encode([node, life, [[kind, odd]]])


async def overhear(client: Client, heard: list[Msg]) -> None:
    async def keep(message: Msg) -> None:
        heard.append(message)

    await client.subscribe("moothall.>", cb=keep)
    await client.flush()


async def test_nodes_outlive_a_confused_client(
    cluster: RealCluster, nats: NatsServer, record: Record
) -> None:
    dice, heard = Random(1), list[Msg]()  # noqa: S311
    processes = [node.process.pid for node in cluster.nodes]
    client = await connect(nats.url, allow_reconnect=False)
    await overhear(client, heard)
    alice = await enter(record, cluster[0], ALICE, "#work")
    bob = await enter(record, cluster[1], BOB, "#work")
    await bob.hears(await alice.tell("#work"))
    await alice.hears(await bob.tell(alice.agent_id))
    for agent in (alice, bob):
        await agent.close()

    overheard = [message for message in heard if message.subject.split(".")[2] in SUBJECTS]
    for message in overheard:
        for payload in changed(message.data, dice):
            await client.publish(message.subject, payload)
        for header in HEADERS:
            await client.publish(message.subject, message.data, headers={HEADER: header})
    hall = overheard[0].subject.split(".")[1]
    stream = client.jetstream()
    for bucket in ("nodes", "ids", "homes"):
        for key in KEYS:
            for value in VALUES:
                await stream.publish(f"$KV.moothall_{hall}_{bucket}.{key}", value)
    await client.close()

    await cluster.together()
    assert [node.process.pid for node in cluster.nodes] == processes
    for node in cluster.nodes:
        assert node.is_running
        assert "bus_packet_refused" in node.stderr.text
    carol = await enter(record, cluster[2], CAROL, "#after")
    again = await enter(record, cluster[0], ALICE, "#after")
    await carol.hears(await again.tell("#after"))
    await again.hears(await carol.tell(again.agent_id))
    for agent in (carol, again):
        await agent.close()
