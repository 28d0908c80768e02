"""BEACONs of a node's own agent, and of those that it hosts."""

import asyncio
from itertools import count

from moothall.errors import NodeRefused
from moothall.identity import PrivateKey
from moothall.network.outbox import Outbox
from moothall.node.beacons import LEAST, Beacons
from moothall.node.signers import Signers
from moothall.wire.mesh.announcements import Beacon, default_name
from moothall.wire.mesh.envelope import decode
from moothall.wire.mesh.msg_types import BROADCAST_TOPIC, MsgType
from tests.support.network import MadeUpTime

OWN_SEED, GUEST_SEED = b"o" * 32, b"g" * 32
OWN, GUEST = (PrivateKey(seed).public.raw for seed in (OWN_SEED, GUEST_SEED))


class Host:
    """The network, with one peer in each topic, or with none."""

    def __init__(self) -> None:
        self.peers = [b"p" * 32]
        self.said: list[Beacon] = []

    def send(self, peer: bytes, envelope: bytes) -> asyncio.Future[None]:
        raise AssertionError

    def publish(self, topic: str, data: bytes) -> int:
        envelope = decode(data)
        assert (topic, envelope.msg_type) == (BROADCAST_TOPIC, MsgType.BEACON)
        beacon = Beacon.decode(envelope.payload)
        assert envelope.sender == beacon.agent_id
        self.said.append(beacon)
        return 1

    def peers_in(self, topic: str) -> list[bytes]:
        return self.peers


class Scene:
    def __init__(self) -> None:
        self.host, self.time, self.is_behind = Host(), MadeUpTime(), False
        self.outbox = Outbox(self.host, self.time.now)
        numbers = count(1)

        def nonce() -> int:
            if self.is_behind:
                raise NodeRefused(503, "The disk is behind.")
            return next(numbers)

        self.signers = Signers(lambda: 1_800_000_000_000_000, nonce)
        self.signers.add(OWN, OWN_SEED)
        self.signers.add(GUEST, GUEST_SEED)
        self.beacons = Beacons(self.outbox, self.signers, OWN, "alice", now=self.time.now)


def test_names() -> None:
    scene = Scene()
    scene.beacons.send_own()
    scene.beacons.send(GUEST)
    assert scene.host.said == [Beacon(OWN, "alice"), Beacon(GUEST, default_name(GUEST))]


def test_many_peers_that_come_share_one_beacon_a_second() -> None:
    scene = Scene()
    for _ in range(5):
        scene.beacons.wanted()
    assert len(scene.host.said) == 1
    scene.beacons.tick()
    assert len(scene.host.said) == 1
    scene.time.pass_by(LEAST)
    scene.beacons.tick()
    scene.time.pass_by(LEAST)
    scene.beacons.tick()
    assert len(scene.host.said) == 2


def test_a_beacon_that_no_peer_hears_is_made_when_one_comes() -> None:
    scene = Scene()
    scene.host.peers = []
    scene.beacons.send(GUEST)
    scene.beacons.send(GUEST)
    scene.beacons.send_own()
    scene.signers.remove(GUEST)  # its session has ended meanwhile
    scene.host.peers = [b"p" * 32]
    scene.outbox.joined(BROADCAST_TOPIC)
    assert scene.host.said == [Beacon(OWN, "alice")]


def test_a_disk_that_is_behind_costs_a_beacon() -> None:
    scene = Scene()
    scene.is_behind = True
    scene.beacons.send_own()
    assert scene.host.said == []
    assert scene.outbox.statistics().counts["unpublished"] == 1
