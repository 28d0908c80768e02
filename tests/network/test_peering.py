"""A hall on the network, with a room that remembers what it gets. The hosts are real, on loopback."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from moothall.errors import NotDelivered
from moothall.hall.mesh.network import Settle, ignore
from moothall.hall.mesh.own_envelopes import OwnEnvelopes
from moothall.identity.signatures import expand, sign_expanded, verify
from moothall.network import outbox, peering
from moothall.network.announcement import DEBOUNCE, EXPIRY, FIRST, HALLS, LAST, PERIOD, Announcement
from moothall.network.outbox import PATIENCE
from moothall.network.peering import BEACON_PERIOD, Peering
from moothall.network.watch import COMPLAINT_PERIOD
from moothall.p2p.multiaddr import Multiaddr
from moothall.wire.mesh.announcements import Beacon
from moothall.wire.mesh.envelope import (
    MICROSECONDS,
    NO_RECIPIENT,
    Envelope,
    decode,
    encode,
    seal,
    sender_of,
)
from moothall.wire.mesh.msg_types import BROADCAST_TOPIC, NOTARY_TOPIC, REPUTATION_TOPIC, MsgType
from moothall.wire.mesh.nonces import TOLERANCE
from moothall.wire.mesh.validation import prove
from tests.support.network import LOOPBACK, TURNS, Home, MadeUpTime, homes, until

EPOCH = 1_790_000_000
TALK = b"t" * 16
NAMED = "/0x01/v1/t/weather"


class Agent:
    """A key, and what it signs."""

    def __init__(self, name: str) -> None:
        self._secret = expand(name.encode().ljust(32, b"."))
        self.key = self._secret[32:]
        self._nonce = 0

    def seal(
        self, msg_type: MsgType, payload: bytes, now: float, *, recipient: bytes = NO_RECIPIENT
    ) -> Envelope:
        self._nonce += 1
        return seal(
            msg_type,
            payload,
            sender=self.key,
            sign=lambda message: sign_expanded(self._secret, message),
            nonce=self._nonce,
            now=int(now * MICROSECONDS),
            recipient=recipient,
            conversation_id=TALK if recipient != NO_RECIPIENT else bytes(16),
        )

    def beacon(self, now: float) -> Envelope:
        return self.seal(MsgType.BEACON, Beacon(self.key, "agent").encode(), now)

    def reject(self, recipient: bytes, now: float) -> Envelope:
        return self.seal(MsgType.REJECT, b"{}", now, recipient=recipient)


class Relay:
    def __init__(self, room: "Room", peer: bytes) -> None:
        self._room = room
        self.peer = peer
        self.has_ended = False

    def receive(self, raw: bytes, topic: str | None, settle: Settle = ignore) -> bool:
        if self._room.is_full:
            return False
        self._room.received.append((self.peer, raw, topic))
        settle(True)
        return True

    def end(self) -> None:
        assert not self.has_ended
        self.has_ended = True


class Room:
    def __init__(self) -> None:
        self.relays: list[Relay] = []
        self.received: list[tuple[bytes, bytes, str | None]] = []
        self.addresses: list[tuple[str, bool]] = []
        self.is_full = False

    def connect_peer(self, peer: bytes, ip: str, *, is_loopback: bool) -> Relay:
        self.relays.append(Relay(self, peer))
        self.addresses.append((ip, is_loopback))
        return self.relays[-1]

    def envelopes(self, msg_type: MsgType) -> list[Envelope]:
        return [each for each in map(decode, self.raws()) if each.msg_type is msg_type]

    def raws(self) -> list[bytes]:
        return [raw for _, raw, _ in self.received]


class Notes:
    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, object]]] = []

    def info(self, event: str, **facts: object) -> None:
        self.lines.append((event, facts))

    warning = info

    def events(self) -> list[str]:
        return [event for event, _ in self.lines]


class House:
    """A hall on the network."""

    def __init__(self, name: str, time: MadeUpTime | None = None) -> None:
        secret = expand(name.encode().ljust(32, b"."))
        self.id = secret[32:]
        self.time = time or MadeUpTime()
        self.room = Room()
        self.notes = Notes()
        own = OwnEnvelopes(self.id, lambda message: sign_expanded(secret, message), self.now)
        self.network = Peering(
            secret,
            self.room,
            own,
            name=name,
            version="1.2.3",
            time=self.now,
            log=self.notes,
            outside=self.time,
        )

    def now(self) -> float:
        return EPOCH + self.time.now() / 1000

    @property
    def address(self) -> Multiaddr:
        assert self.network.address is not None
        return self.network.address

    async def open(self, *peers: Multiaddr, listen: Multiaddr | None = LOOPBACK) -> None:
        await self.network.open(listen, peers)

    async def close(self) -> None:
        closing = asyncio.ensure_future(self.network.close())
        for _ in range(TURNS):
            if closing.done():
                break
            await asyncio.sleep(0)
            self.time.pass_by(100)
        await closing

    def peers(self) -> set[bytes]:
        return {peer.agent_id for peer in self.network.host.peers()}

    def is_in(self, topic: str, *others: "House | Home") -> bool:
        return {other.id for other in others} <= set(self.network.host.peers_in(topic))

    def take_all(self) -> None:
        """The room has checked what it got, and tells the network."""
        for peer, raw, _ in self.room.received:
            envelope = decode(raw)
            prove(envelope, verify)
            self.network.heard(envelope, peer)
        self.room.received.clear()


@asynccontextmanager
async def houses(*names: str) -> AsyncIterator[list[House]]:
    """They listen, share a clock, and know nothing of each other."""
    time = MadeUpTime()
    built = [House(name, time) for name in names]
    for house in built:
        await house.open()
    try:
        yield built
    finally:
        for house in built:
            await house.close()


async def meet(one: House, other: House) -> None:
    await one.network.host.dial(other.address)
    await until(lambda: one.is_in(HALLS, other) and other.is_in(HALLS, one))


async def announced(one: House, *others: House) -> None:
    """Time for an announcement, until the others have heard it."""
    before = [other.network.statistics().routes.hosted for other in others]
    one.time.pass_by(DEBOUNCE)
    for other, hosted in zip(others, before, strict=True):
        await until(partial(_has_other, other, hosted))


def _has_other(house: House, hosted: int) -> bool:
    return house.network.statistics().routes.hosted != hosted


async def test_a_hall_is_in_the_fixed_topics_and_tells_what_it_is() -> None:
    async with houses("alice", "bob") as (alice, bob):
        await meet(alice, bob)
        topics = (BROADCAST_TOPIC, NOTARY_TOPIC, REPUTATION_TOPIC, HALLS)
        await until(lambda: all(alice.is_in(topic, bob) for topic in topics))
        await until(lambda: alice.network.host.peer(bob.id).told)
        told = alice.network.host.peer(bob.id).told
        assert told is not None
        assert told.agent_version == "moothall/1.2.3"
        assert bob.room.addresses == [("127.0.0.1", True)]
        assert ("mesh_listening", {"address": str(alice.address)}) in alice.notes.lines
        assert str(alice.address).endswith(f"/p2p/{str(alice.address).rpartition('/')[2]}")


async def test_the_beacon_of_the_hall_goes_to_each_new_peer_and_every_30_seconds() -> None:
    async with houses("alice", "bob") as (alice, bob):
        await meet(alice, bob)
        await until(lambda: bob.room.envelopes(MsgType.BEACON))
        (beacon,) = bob.room.envelopes(MsgType.BEACON)
        prove(beacon, verify)
        assert Beacon.decode(beacon.payload) == Beacon(alice.id, "alice")
        alice.time.pass_by(BEACON_PERIOD)
        await until(lambda: len(bob.room.envelopes(MsgType.BEACON)) == 2)


async def test_what_agents_say_reaches_the_room_of_another_hall() -> None:
    async with houses("alice", "bob") as (alice, bob):
        for house in (alice, bob):
            house.network.watch(NAMED)
        await meet(alice, bob)
        await until(lambda: alice.is_in(NAMED, bob))
        said = encode(Agent("a").seal(MsgType.ADVERTISE, b"{}", alice.now()))
        named = encode(Agent("a").seal(MsgType.ADVERTISE, b"{}", alice.now()))
        alice.network.publish(BROADCAST_TOPIC, said)
        alice.network.publish(NAMED, named)
        await until(lambda: (alice.id, named, NAMED) in bob.room.received)
        assert (alice.id, said, BROADCAST_TOPIC) in bob.room.received
        alice.network.unwatch(NAMED)
        await until(lambda: not bob.is_in(NAMED, alice))


async def test_what_is_said_without_peers_waits_for_one_if_it_is_young_enough() -> None:
    async with houses("alice", "bob") as (alice, bob):
        agent = Agent("a")
        old = encode(agent.seal(MsgType.ADVERTISE, b"{}", alice.now() - TOLERANCE))
        new = encode(agent.seal(MsgType.ADVERTISE, b"{}", alice.now()))
        alice.network.publish(BROADCAST_TOPIC, old)
        alice.network.publish(BROADCAST_TOPIC, new)
        alice.time.pass_by(2000)
        await meet(alice, bob)
        await until(lambda: new in bob.room.raws())
        assert old not in bob.room.raws()


async def test_an_agent_of_another_hall_is_reached_through_its_announcement() -> None:
    async with houses("alice", "bob") as (alice, bob):
        a, b = Agent("a"), Agent("b")
        bob.network.present(b.key, is_here=True)
        envelope = a.reject(b.key, alice.now())
        results: list[bool] = []
        assert not alice.network.reaches(envelope)
        alice.network.carry(envelope, encode(envelope), results.append)
        assert results == []  # it is told later, in all cases
        await until(lambda: results == [False])
        await meet(alice, bob)
        await until(lambda: alice.network.reaches(envelope))
        alice.network.carry(envelope, encode(envelope), results.append)
        await until(lambda: results == [False, True])
        assert (alice.id, encode(envelope), None) in bob.room.received
        bob.network.present(b.key, is_here=False)
        await announced(bob, alice)
        assert not alice.network.reaches(envelope)


async def test_an_answer_goes_to_the_peer_that_the_conversation_came_from() -> None:
    async with houses("alice", "bob") as (alice, bob):
        a, b = Agent("a"), Agent("b")
        await meet(alice, bob)
        alice.network.heard(b.reject(a.key, alice.now()), bob.id)
        answer = a.reject(b.key, alice.now())
        assert alice.network.reaches(answer)
        results: list[bool] = []
        alice.network.carry(answer, encode(answer), results.append, source=bob.id)
        await until(lambda: results == [False])  # not back to where it came from
        alice.network.carry(answer, encode(answer), results.append)
        await until(lambda: results == [False, True])


async def test_a_third_hall_is_in_the_middle() -> None:
    async with houses("alice", "middle", "bob") as (alice, middle, bob):
        a, b = Agent("a"), Agent("b")
        await meet(alice, middle)
        await meet(middle, bob)
        await until(lambda: middle.network.host.statistics().gossip.meshes[HALLS] == 2)
        await until(lambda: middle.network.host.statistics().gossip.meshes[BROADCAST_TOPIC] == 2)
        bob.network.present(b.key, is_here=True)
        await announced(bob, alice, middle)
        envelope = a.reject(b.key, alice.now())
        results: list[bool] = []
        alice.network.carry(envelope, encode(envelope), results.append)
        await until(lambda: results == [True])
        assert (alice.id, encode(envelope), None) in middle.room.received
        middle.network.carry(envelope, encode(envelope), results.append, source=alice.id)
        await until(lambda: results == [True, True])
        assert (middle.id, encode(envelope), None) in bob.room.received
        said = encode(a.seal(MsgType.ADVERTISE, b"{}", alice.now()))
        alice.network.publish(BROADCAST_TOPIC, said)
        await until(lambda: said in bob.room.raws() and said in middle.room.raws())
        assert bob.room.raws().count(said) == middle.room.raws().count(said) == 1


async def test_a_hall_that_closes_takes_its_agents_away() -> None:
    async with houses("alice", "middle") as (alice, middle):
        bob = House("bob", alice.time)
        await bob.open()
        await meet(alice, middle)
        await meet(middle, bob)
        await until(lambda: middle.network.host.statistics().gossip.meshes[HALLS] == 2)
        bob.network.present(Agent("b").key, is_here=True)
        await announced(bob, alice, middle)
        await bob.close()
        await until(lambda: alice.network.statistics().routes.hosted == 0)


async def test_a_hall_that_vanishes_takes_its_agents_away_later() -> None:
    async with houses("alice", "bob") as (alice, bob):
        bob.network.present(Agent("b").key, is_here=True)
        await meet(alice, bob)
        await until(lambda: alice.network.statistics().routes.hosted)
        assert alice.network.statistics().halls == 1
        silent = MadeUpTime()
        bob.network._alarm, bob.network._outside = silent.call_later(0, lambda: None), silent  # it hangs
        alice.time.pass_by(EXPIRY + PERIOD)
        assert alice.network.statistics().routes.hosted == 0


async def test_announcements_are_checked() -> None:
    async with houses("alice", "bob") as (alice, bob):
        await meet(bob, alice)
        at = int(bob.now() * MICROSECONDS) + 5 * MICROSECONDS
        of_another = Announcement(b"x" * 32, at, FIRST, LAST, (b"k" * 32,))
        mine = Announcement(bob.id, at, FIRST, LAST, (b"k" * 32,))
        for data in (b"nonsense", of_another.encode(), mine.encode(), mine.encode()):
            bob.network.host.publish(HALLS, data)
        await until(lambda: alice.network.statistics().dropped.get("old announcement"))
        counts = alice.network.statistics()
        assert counts.dropped["malformed announcement"] == 1
        assert counts.dropped["announcement of another hall"] == 1
        assert counts.routes.hosted == 1


async def test_a_node_that_is_not_a_hall_is_told_of_the_agents_here() -> None:
    async with houses("alice") as (alice,), homes("node") as (node,):
        a, gone, silent = Agent("a"), Agent("gone"), Agent("silent")
        fresh = encode(a.beacon(alice.now()))
        for raw in (
            encode(silent.beacon(alice.now() - TOLERANCE - 1)),
            encode(a.beacon(alice.now())),
            fresh,
            encode(gone.beacon(alice.now())),
        ):
            alice.network.publish(BROADCAST_TOPIC, raw)
        alice.network.present(gone.key, is_here=True)
        alice.network.present(gone.key, is_here=False)
        node.host.join(BROADCAST_TOPIC)
        await node.host.dial(alice.address)
        await until(lambda: len(node.resident.messages) == 2)
        beacon, told = (message.data for message in node.resident.messages)
        assert sender_of(beacon) == alice.id
        assert told == fresh


async def test_a_hall_is_sent_the_beacons_of_agents_that_are_not_announced() -> None:
    """They have proven nothing, so their BEACONs are the only way to them."""
    async with houses("alice", "bob") as (alice, bob):
        beacon = encode(Agent("a").beacon(alice.now()))
        alice.network.publish(BROADCAST_TOPIC, beacon)
        await meet(bob, alice)
        await until(lambda: beacon in bob.room.raws())


async def test_a_hall_is_not_sent_the_beacons_that_announcements_stand_for() -> None:
    async with houses("alice", "bob") as (alice, bob):
        alice.network.present(Agent("a").key, is_here=True)
        alice.network.publish(BROADCAST_TOPIC, encode(Agent("a").beacon(alice.now())))
        await meet(bob, alice)
        await until(lambda: bob.room.received)
        after = encode(Agent("a").seal(MsgType.ADVERTISE, b"{}", alice.now()))
        alice.network.publish(BROADCAST_TOPIC, after)
        await until(lambda: after in bob.room.raws())
        assert [sender_of(raw) for raw in bob.room.raws()] == [alice.id, Agent("a").key]


async def test_a_peer_that_comes_and_goes_in_topics_is_greeted_once() -> None:
    async with houses("alice") as (alice,), homes("node") as (node,):
        alice.network.publish(BROADCAST_TOPIC, encode(Agent("a").beacon(alice.now())))
        await node.host.dial(alice.address)
        for _ in range(5):
            for topic in (BROADCAST_TOPIC, HALLS):
                node.host.join(topic)
            await until(lambda: alice.is_in(HALLS, node) and alice.is_in(BROADCAST_TOPIC, node))
            await until(lambda: len(node.resident.messages) == 3)
            for topic in (BROADCAST_TOPIC, HALLS):
                node.host.leave(topic)
            await until(lambda: not alice.is_in(HALLS, node) and not alice.is_in(BROADCAST_TOPIC, node))
        seen = alice.network.statistics().host.gossip.seen
        assert (
            seen == 4
        )  # its own: the first announcement, to no peer; a BEACON, the agent's, an announcement


async def test_a_greeting_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peering, "MAX_GREETING", 3)
    async with houses("alice") as (alice,), homes("node") as (node,):
        raws = [encode(Agent(str(each)).beacon(alice.now())) for each in range(10)]
        for raw in raws:
            alice.network.publish(BROADCAST_TOPIC, raw)
        node.host.join(BROADCAST_TOPIC)
        await node.host.dial(alice.address)
        await until(lambda: len(node.resident.messages) == 4)
        assert [message.data for message in node.resident.messages][1:] == raws[-3:]


async def test_the_hall_that_publishes_the_beacons_of_an_agent_is_its_route() -> None:
    async with houses("alice", "bob", "liar") as (alice, bob, liar):
        agent = Agent("a")
        await meet(alice, liar)
        liar.network.present(agent.key, is_here=True)
        await announced(liar, alice)
        await meet(alice, bob)
        bob.network.present(agent.key, is_here=True)
        bob.time.pass_by(DEBOUNCE)
        await until(lambda: alice.network.statistics().halls == 2)
        assert alice.network._routes.find(agent.key) == liar.id
        bob.network.publish(BROADCAST_TOPIC, encode(agent.beacon(bob.now())))
        await until(lambda: any(each.sender == agent.key for each in map(decode, alice.room.raws())))
        alice.take_all()
        assert alice.network._routes.find(agent.key) == bob.id


async def test_bilateral_envelopes_are_retried_and_fail_in_the_end() -> None:
    async with houses("alice", "bob") as (alice, bob):
        await meet(alice, bob)
        envelope = Agent("a").reject(bob.id, alice.now())
        await bob.close()
        await until(lambda: not alice.peers())
        results: list[bool] = []
        alice.network._routes.met(bob.id)  # the connection ends a moment later than that
        alice.network.carry(envelope, encode(envelope), results.append)
        assert results == []
        alice.time.pass_by(PATIENCE + 1000)
        assert results == [False]
        assert alice.network.statistics().dropped["not delivered"] == 1
        assert outbox.ATTEMPTS == 2


async def test_limits_and_a_busy_room_drop_and_count() -> None:
    async with houses("alice", "bob") as (alice, bob):
        await meet(alice, bob)
        await until(lambda: bob.room.received)
        agent = Agent("a")
        bob.room.is_full = True
        alice.network.publish(BROADCAST_TOPIC, encode(agent.seal(MsgType.ADVERTISE, b"{}", alice.now())))
        await until(lambda: bob.network.statistics().dropped.get("room is busy"))
        bob.room.is_full = False
        raw = encode(agent.seal(MsgType.ADVERTISE, b"{}", alice.now()))
        for _ in range(4000):
            bob.network._limits.admits_sender(alice.id, agent.key, len(raw))
        alice.network.publish(BROADCAST_TOPIC, raw)
        await until(lambda: bob.network.statistics().dropped.get("over the limit of a sender"))
        for _ in range(20_000):
            bob.network._limits.admits_stream(alice.id, 10)
        bob.room.received.clear()
        alice.network.publish(BROADCAST_TOPIC, raw)
        with pytest.raises(NotDelivered):
            await alice.network.host.send(bob.id, raw)
        await until(lambda: bob.network.statistics().dropped["over the limit of a peer"] == 2)
        assert bob.room.received == []
        assert bob.network.statistics().host.outcomes["not admitted"] == 1


async def test_a_relay_ends_with_its_connection() -> None:
    async with houses("alice", "bob") as (alice, bob):
        await meet(alice, bob)
        again = House("bob", bob.time)
        await again.open()
        await until(lambda: len(alice.room.relays) == 1)
        await again.network.host.dial(alice.address)
        await until(lambda: len(alice.room.relays) == 2)
        assert [relay.has_ended for relay in alice.room.relays] == [True, False]
        await again.close()
        await until(lambda: alice.room.relays[1].has_ended)


async def test_a_configured_peer_that_is_away_has_a_line_in_the_log_and_one_when_it_is_back() -> None:
    async with houses("bob") as (bob,):
        place = bob.address
        await bob.close()
        alice = House("alice")
        await alice.open(place, place, listen=None)
        assert alice.network.address is None
        for _ in range(3):
            alice.time.pass_by(1000)
            await until(lambda: alice.network.host.kept()[0].error)
        for _ in range(60):
            alice.time.pass_by(1000)
            await asyncio.sleep(0)
        assert alice.notes.events() == ["mesh_peer_unreachable"]
        assert alice.network.statistics().unreachable == 1
        _, facts = alice.notes.lines[0]
        assert facts["address"] == str(place)
        assert "Cannot connect" in str(facts["error"])
        alice.time.pass_by(COMPLAINT_PERIOD)
        assert alice.notes.events() == ["mesh_peer_unreachable"] * 2
        back = House("bob")
        await back.open(listen=place)
        for _ in range(200):
            alice.time.pass_by(1000)
            await asyncio.sleep(0)
        await until(lambda: alice.peers() == {back.id})
        await until(lambda: alice.network.host.kept()[0].is_connected)
        alice.time.pass_by(1000)
        assert alice.notes.events() == ["mesh_peer_unreachable"] * 2 + ["mesh_peer_reached"]
        assert alice.network.statistics().unreachable == 0
        assert alice.network.statistics().outbound == 1
        await alice.close()
        await back.close()


async def test_the_hall_itself_is_not_dialled() -> None:
    async with houses("alice") as (alice,):
        twin = House("alice")
        await twin.open(alice.address)
        assert twin.notes.events() == ["mesh_listening", "mesh_peer_is_this_hall"]
        assert twin.network.host.kept() == []
        await twin.close()


async def test_envelopes_under_way_get_their_ack_when_the_hall_closes() -> None:
    async with houses("bob") as (bob,):
        alice = House("alice")
        await alice.open()
        await meet(alice, bob)
        results: list[bool] = []
        for each in range(10):
            envelope = Agent(str(each)).reject(bob.id, alice.now())
            alice.network.carry(envelope, encode(envelope), results.append)
        await asyncio.sleep(0)
        await alice.close()
        assert results == [True] * 10
        assert len(bob.room.envelopes(MsgType.REJECT)) == 10
        late = Agent("late").reject(bob.id, alice.now())
        alice.network.carry(late, encode(late), results.append)
        await until(lambda: results == [True] * 10 + [False])
