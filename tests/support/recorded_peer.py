"""Packets of one version of moothall, recorded from two real nodes, for later versions to read.

    python -m tests.support.recorded_peer tests/vectors/bus_1.json

runs two nodes with an agent each, that do what nodes tell each other of, and writes down what the nodes published.
Record again only for a new version of the packets, under a new name: an old recording shows that nodes of the
version before can be replaced one by one.
"""

import asyncio
import base64
import json
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

import nats
from nats.aio.msg import Msg

from moothall.identity import PrivateKey
from tests.store.server import Server
from tests.support.nats_server import NatsServer
from tests.support.notes import Record
from tests.support.real_cluster import RealCluster
from tests.support.witness import Witness, enter

ALICE: Final = PrivateKey(bytes(31) + b"a")
BOB: Final = PrivateKey(bytes(31) + b"b")
CHANNEL: Final = "#recorded"
SUBJECTS: Final = ("all", "node", "channel")  # the registry is on others


class Packet(NamedTuple):
    subject: str  # without the prefix of the hall
    payload: bytes


def read(path: Path) -> list[Packet]:
    return [
        Packet(each["subject"], base64.b64decode(each["payload"])) for each in json.loads(path.read_text())
    ]


def write(path: Path, packets: list[Packet]) -> None:
    texts = [
        {"subject": packet.subject, "payload": base64.b64encode(packet.payload).decode()}
        for packet in packets
    ]
    path.write_text(json.dumps(texts, indent=1) + "\n")


async def _act(cluster: RealCluster) -> None:
    """What agents of two nodes do. The channel has its home at Alice's node."""
    record = Record()
    alice = await enter(record, cluster[0], ALICE, CHANNEL)
    bob = await enter(record, cluster[1], BOB, CHANNEL)
    await bob.finds(alice)
    await alice.finds(bob)
    await bob.do("SET_PRESENCE", status="away", status_text="at lunch")
    await alice.hears(await bob.tell(alice.agent_id))
    await bob.hears(await alice.tell(bob.agent_id))
    question = await alice.tell(CHANNEL)
    await bob.hears(question)
    await alice.hears(await bob.tell(CHANNEL))
    await bob.claim(CHANNEL, question, 1000)
    await bob.acked()
    await bob.do("LEAVE", channel=CHANNEL)
    await bob.do("JOIN", channel=CHANNEL)
    again = await Witness.enter(record, cluster[0].url, BOB)
    await bob.closed()
    back = await Witness.enter(record, cluster[1].url, BOB)
    await again.closed()
    await back.join_channel(CHANNEL)
    await back.close()
    await alice.close()


async def _record(cluster: RealCluster, bus: str) -> list[Packet]:
    packets: list[Packet] = []

    async def keep(message: Msg) -> None:
        _, _, subject = message.subject.split(".", 2)  # moothall, and the hall
        if subject.partition(".")[0] in SUBJECTS:
            packets.append(Packet(subject, message.data))

    client = await nats.connect(bus)
    await client.subscribe("moothall.>", cb=keep)
    await client.flush()
    await asyncio.to_thread(cluster.start)
    await cluster.together()
    await _act(cluster)
    await client.flush()
    await client.close()
    return packets


def main() -> None:
    server = Server()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with NatsServer(folder / "nats") as bus:
            cluster = RealCluster(folder, server.new_database(), bus.url, nodes=2)
            try:
                write(Path(sys.argv[1]), asyncio.run(_record(cluster, bus.url)))
            finally:
                cluster.kill()
    server.stop()


if __name__ == "__main__":
    main()
