"""A hall on the network of the mesh: one peer with the hall's key, between its room and the other peers.

What agents of the hall say in topics is published here, and what comes in topics is handed to the room. Bilateral
envelopes go to the peer that reaches their recipient. All that arrives goes through the limits, and then to the
room, which checks signatures, time and nonces. It tells which envelopes it has taken, and routes are learnt from
them. The replay window of the room ends loops and duplicates.

A BEACON of the hall goes out every 30 seconds, and to each peer that joins its topic. Nodes route to agents by
their BEACONs. So a peer also gets the latest BEACONs of the agents here, as far as they are young enough: the hall
cannot sign for agents. Later ones follow within 30 seconds. Halls know agents that have proven their keys from
announcements, and get the BEACONs of the others.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, Protocol

import msgspec

from moothall.hall.mesh.network import Delivered, Relay, Settle, ignore
from moothall.hall.mesh.own_envelopes import OwnEnvelopes
from moothall.hall.outside import Log
from moothall.network import announcement, host, outbox, routes
from moothall.network.announcement import HALLS, Hosted
from moothall.network.hall_routes import HallRoutes
from moothall.network.host import OURS, Host
from moothall.network.limits import Limits, PeerLimits
from moothall.network.outbox import Outbox
from moothall.network.outside import Alarm, LoopTime, Outside
from moothall.network.routes import Recent, Routes
from moothall.network.rules import Rules
from moothall.network.watch import Watch
from moothall.p2p.identify import Identification
from moothall.p2p.multiaddr import Multiaddr
from moothall.p2p.pubsub import Message
from moothall.wire.mesh.announcements import BEACON_SECONDS, MAX_NAME, Beacon
from moothall.wire.mesh.envelope import MICROSECONDS, Envelope, decode, encode, is_beacon, sender_of
from moothall.wire.mesh.msg_types import (
    BILATERAL,
    BROADCAST_TOPIC,
    NOTARY_TOPIC,
    REPUTATION_TOPIC,
    MsgType,
)
from moothall.wire.mesh.nonces import within_tolerance
from moothall.wire.origins import is_loopback

TICK: Final = 1000  # ms
BEACON_PERIOD: Final = BEACON_SECONDS * 1000
MAX_ROUTES: Final = 40_000  # of each way
MAX_BEACONS: Final = 10_000  # agents here whose latest BEACON is kept, with some 300 bytes
MAX_GREETING: Final = 50  # of them for a new peer: the reference takes 100 messages in a second
# BEACONs of which the publishing node is remembered until the room has checked them
MAX_AUTHORS: Final = 4096

_FIXED: Final = (BROADCAST_TOPIC, NOTARY_TOPIC, REPUTATION_TOPIC, HALLS)


class Room(Protocol):
    """The room of the mesh, as the network uses it."""

    def connect_peer(self, peer: bytes, ip: str, *, is_loopback: bool) -> Relay: ...


class Statistics(msgspec.Struct, frozen=True):
    host: host.Statistics
    outbound: int  # peers that this hall dialled
    outbox: outbox.Statistics
    routes: routes.Statistics
    halls: int  # that announce agents
    announced: int  # agents of this hall
    counts: dict[str, int]  # envelopes by way
    dropped: dict[str, int]  # by reason
    unreachable: int  # configured peers without a connection


class _Peer:
    __slots__ = ("greeted", "relay")

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.greeted: set[str] = (
            set()
        )  # topics: to come and go costs a peer little, and a greeting costs us much


class Peering:
    """Implements `network.resident.Resident` and `hall.mesh.network.Network`. `time` is Unix seconds."""

    def __init__(
        self,
        secret: bytes,
        room: Room,
        own: OwnEnvelopes,
        *,
        name: str,
        version: str,
        time: Callable[[], float],
        log: Log,
        limits: Limits | None = None,
        rules: Rules | None = None,
        outside: Outside | None = None,
    ) -> None:
        self._room = room
        self._own = own
        self._payload = Beacon(own.key, name.encode()[:MAX_NAME].decode(errors="ignore")).encode()
        self._time = time
        self._log = log
        self._outside = outside or LoopTime()
        self._loop = asyncio.get_running_loop()
        self.host = Host(secret, self, agent_version=f"{OURS}/{version}", rules=rules, outside=self._outside)
        self.address: Multiaddr | None = None  # where this hall listens
        self._limits = PeerLimits(self.host.now, limits)
        self._routes = Routes(MAX_ROUTES)
        self._outbox = Outbox(self.host, self.host.now, needs_order=lambda peer: not self.host.is_ours(peer))
        self._hosted = Hosted(own.key)
        self._halls = HallRoutes(self._routes)
        self._peers: dict[bytes, _Peer] = {}
        self._beacons: Recent[bytes, bytes] = Recent(MAX_BEACONS)
        self._authors: Recent[bytes, bytes] = Recent(MAX_AUTHORS)
        self._beacon_at = 0
        self._watch = Watch(log)
        self._counts: Counter[str] = Counter(
            dict.fromkeys(("topic in", "topic out", "bilateral in", "bilateral out"), 0)
        )
        self._dropped: Counter[str] = Counter()
        self._alarm: Alarm | None = None
        for topic in _FIXED:
            self.host.join(topic)

    # -- its life ------------------------------------------------------------------------------------------

    async def open(self, listen: Multiaddr | None, peers: Iterable[Multiaddr]) -> None:
        """Listens, if there is an address for it, and connects to these peers again and again. Raises OSError."""
        if listen is not None:
            self.address = await self.host.listen(listen)
            self._log.info("mesh_listening", address=str(self.address))
        for peer in peers:
            if peer.agent_id == self.host.agent_id:
                self._log.warning("mesh_peer_is_this_hall", address=str(peer))
            else:
                self.host.keep(peer)
        self._tick()

    async def close(self) -> None:
        """Envelopes under way get their ACK, within a time limit. Other halls are told that no agents are here."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._announce(self._hosted.farewell(self._microseconds()))
        await self.host.close()
        self._outbox.close()

    def statistics(self) -> Statistics:
        return Statistics(
            self.host.statistics(),
            sum(peer.is_outbound for peer in self.host.peers()),
            self._outbox.statistics(),
            self._routes.statistics(),
            len(self._halls),
            len(self._hosted),
            dict(self._counts),
            dict(self._dropped),
            sum(not kept.is_connected for kept in self.host.kept()),
        )

    # -- what the room asks (`hall.mesh.network.Network`) --------------------------------------------------

    def publish(self, topic: str, raw: bytes) -> None:
        sender = sender_of(raw)
        self._counts["topic out"] += 1
        beacon = is_beacon(raw)
        if beacon:
            self._beacons.put(sender, raw)
            if not self.host.peers_in(topic):
                return  # a peer that comes gets the latest one
        self._outbox.publish(topic, sender, partial(self._young, raw), is_beacon=beacon)

    def reaches(self, envelope: Envelope) -> bool:
        return self._routes.find(envelope.recipient, envelope.conversation_id) is not None

    def carry(self, envelope: Envelope, raw: bytes, done: Delivered, *, source: bytes | None = None) -> None:
        peer = self._routes.find(envelope.recipient, envelope.conversation_id, but=source)
        if peer is None:
            self._dropped["no route"] += 1
            self._loop.call_soon(done, False)
            return

        def ended(reason: str | None) -> None:
            if reason is None:
                self._counts["bilateral out"] += 1
            else:
                self._dropped["not delivered"] += 1
            done(reason is None)

        self._outbox.post(peer, envelope.sender, partial(self._young, raw), ended)

    def heard(self, envelope: Envelope, peer: bytes) -> None:
        if envelope.msg_type is MsgType.BEACON:
            self._routes.beacon(envelope.sender, peer, self._authors.pop(envelope.signature))
        elif envelope.msg_type in BILATERAL:
            self._routes.talked(envelope.conversation_id, envelope.sender, peer)

    def watch(self, topic: str) -> None:
        self.host.join(topic)

    def unwatch(self, topic: str) -> None:
        self.host.leave(topic)

    def present(self, key: bytes, *, is_here: bool) -> None:
        self._hosted.change(key, self.host.now(), is_here=is_here)
        if not is_here:
            self._beacons.pop(key)

    # -- what the host tells (`network.resident.Resident`) -------------------------------------------------

    def connected(self, peer: bytes) -> None:
        before = self._peers.pop(peer, None)
        if before is not None:
            before.relay.end()
        ip = self.host.peer(peer).address.host
        self._peers[peer] = _Peer(self._room.connect_peer(peer, ip, is_loopback=is_loopback(ip)))
        self._routes.met(peer)
        self._outbox.connected(peer)

    def identified(self, peer: bytes, told: Identification) -> None:
        """There is nothing to do: the host knows which peers are ours."""

    def disconnected(self, peer: bytes, reason: str) -> None:
        self._routes.lost(peer)
        self._peers.pop(peer).relay.end()

    def joined(self, peer: bytes, topic: str) -> None:
        self._outbox.joined(topic)
        greeted = self._peers[peer].greeted
        if topic in (BROADCAST_TOPIC, HALLS) and topic not in greeted:
            greeted.add(topic)
            self._greet(peer, topic)

    def left(self, peer: bytes, topic: str) -> None:
        """There is nothing to do: the host knows who is in a topic."""

    def admits(self, relay: bytes, message: Message) -> bool:
        is_admitted = self._limits.admits(relay, message.author, len(message.encoded))
        self._dropped["over the limit of a peer"] += not is_admitted
        return is_admitted

    def message(self, relay: bytes, message: Message) -> None:
        if message.topic == HALLS:
            fault = self._halls.hear(relay, message, self.host.now(), self._microseconds())
            if fault is not None:
                self._dropped[fault] += 1
            return
        self._counts["topic in"] += 1
        if is_beacon(message.data) and message.data[-64:] not in self._authors:
            self._authors.put(message.data[-64:], message.author)
        self._receive(relay, message.data, message.topic)

    def envelope(self, peer: bytes, envelope: bytes, settle: Settle) -> None:
        self._counts["bilateral in"] += 1
        if self._limits.admits_stream(peer, len(envelope)):
            self._receive(peer, envelope, None, settle)
        else:
            self._drop("over the limit of a peer", settle)

    # -- how it is done ------------------------------------------------------------------------------------

    def _receive(self, peer: bytes, raw: bytes, topic: str | None, settle: Settle = ignore) -> None:
        place = self._peers.get(peer)
        if place is None:
            self._drop("peer is gone", settle)
        elif not self._limits.admits_sender(peer, sender_of(raw), len(raw)):
            self._drop("over the limit of a sender", settle)
        elif not place.relay.receive(raw, topic, settle):
            self._drop("room is busy", settle)

    def _drop(self, reason: str, settle: Settle) -> None:
        self._dropped[reason] += 1
        settle(False)

    def _greet(self, peer: bytes, topic: str) -> None:
        """The peer can hear BEACONs now, or announcements."""
        if topic == HALLS:
            greeting = [each.encode() for each in self._hosted.whole(self._microseconds())]
        else:
            is_hall = peer in self.host.peers_in(HALLS)
            agents = [raw for key, raw in self._beacons.items() if not (is_hall and key in self._hosted)]
            greeting = [self._beacon(), *filter(self._young, agents[-MAX_GREETING:])]
        for data in greeting:
            self.host.publish(topic, data, only=peer)

    def _beacon(self) -> bytes:
        return encode(self._own.make(MsgType.BEACON, self._payload))

    def _young(self, raw: bytes) -> bytes | None:
        """The envelope, unless others would refuse it for its age."""
        return raw if within_tolerance(decode(raw).timestamp, self._microseconds()) else None

    def _microseconds(self) -> int:
        return int(self._time() * MICROSECONDS)

    def _tick(self) -> None:
        self._alarm = self._outside.call_later(TICK, self._tick)
        now = self.host.now()
        if now >= self._beacon_at:
            self._beacon_at = now + BEACON_PERIOD
            if self.host.peers_in(BROADCAST_TOPIC):  # each that comes later gets one of its own
                self.host.publish(BROADCAST_TOPIC, self._beacon())
        self._announce(self._hosted.due(now, self._microseconds()))
        self._halls.expire(now)
        self._outbox.tick()
        self._watch.look(self.host.kept(), now)

    def _announce(self, announcements: Iterable[announcement.Announcement]) -> None:
        for each in announcements:
            self.host.publish(HALLS, each.encode())
