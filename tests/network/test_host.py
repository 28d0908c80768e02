"""Hosts on loopback: who is connected, what is said in topics, envelopes and their ACKs."""

import asyncio
import itertools

import pytest

from moothall.errors import NotDelivered, PeerUnreachable
from moothall.network.host import KeptPeer
from moothall.network.rules import Rules
from moothall.p2p import bilateral, identify, ping, pubsub
from moothall.p2p.multiaddr import Multiaddr
from moothall.wire.mesh.frames import frame
from tests.support.network import Home, Stranger, homes, meet, until, visited

TOPIC = "/0x01/v1/broadcast"
PROTOCOL = pubsub.PROTOCOLS[0].encode()


async def test_two_hosts_identify_themselves_to_each_other() -> None:
    async with homes("alice", "bob") as (alice, bob):
        await meet(alice, bob)
        told = alice.resident.told[bob.id]
        assert told.agent_version == "test/bob"
        assert told.addresses == (bob.address,)
        assert set(told.protocols) == {
            *pubsub.PROTOCOLS,
            bilateral.PROTOCOL,
            identify.IDENTIFY,
            identify.IDENTIFY_PUSH,
            ping.PROTOCOL,
        }
        (peer,) = alice.host.peers()
        assert (peer.agent_id, peer.is_outbound, peer.told) == (bob.id, True, told)
        assert told.observed is not None
        assert told.observed.host == "127.0.0.1"
        assert alice.resident.news == [("connected", bob.id)]
        assert await alice.host.dial(bob.address) == bob.id  # no second connection
        assert alice.links() == bob.links() == 1


@pytest.mark.parametrize(
    ("version", "is_ours"), [("moothall/1", True), ("moothallish/1", False), ("", False)]
)
async def test_which_peers_are_programs_of_ours(
    version: str, is_ours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with homes("alice", "bob") as (alice, bob):
        monkeypatch.setattr(bob.host, "_agent_version", version)
        assert not alice.host.is_ours(bob.id)  # not even connected
        await meet(alice, bob)
        assert alice.host.is_ours(bob.id) is is_ours


async def test_new_addresses_are_pushed() -> None:
    async with homes("alice", "bob") as (alice, bob):
        await meet(alice, bob)
        public = Multiaddr.parse("/dns4/mesh.example.com/tcp/9000")
        bob.host.announce((public,))
        await until(lambda: alice.resident.told[bob.id].addresses == (public,))


async def test_an_address_that_no_peer_can_dial_is_not_told() -> None:
    async with homes("alice", "bob") as (alice, bob):
        bound = await bob.host.listen(Multiaddr.parse("/ip4/0.0.0.0/tcp/0"))
        assert bound.port
        await meet(alice, bob)
        assert alice.resident.told[bob.id].addresses == (bob.address,)
        with pytest.raises(ValueError, match="4,096"):
            bob.host.announce((bob.address,) * 200)
        assert await alice.host.dial(Multiaddr.of_socket("127.0.0.1", bound.port)) == bob.id


async def test_the_wrong_key_and_our_own_address_are_refused() -> None:
    async with homes("alice", "bob") as (alice, bob):
        wrong = Multiaddr.of_socket("127.0.0.1", bob.address.port, alice.id)
        with pytest.raises(PeerUnreachable, match="was expected"):
            await alice.host.dial(wrong)
        with pytest.raises(PeerUnreachable, match="our own address"):
            await alice.host.dial(Multiaddr.of_socket("127.0.0.1", alice.address.port))
        await until(lambda: alice.links() == bob.links() == 0)
        assert alice.resident.news == bob.resident.news == []


async def test_an_address_without_a_host_is_unreachable() -> None:
    async with homes("alice") as (alice,):
        closed = Home("bob")
        await closed.open()
        await closed.host.close()
        with pytest.raises(PeerUnreachable, match="Cannot connect"):
            await alice.host.dial(closed.address)
        with pytest.raises(PeerUnreachable, match="no connection"):
            alice.host.send(closed.id, b"envelope")


@pytest.mark.parametrize("names", list(itertools.permutations(("alice", "bob"))))
async def test_simultaneous_dials_end_with_one_connection_and_lose_nothing(names: tuple[str, str]) -> None:
    async with homes(*names) as (one, other):
        for home in (one, other):
            home.host.join(TOPIC)
        await asyncio.gather(one.host.dial(other.address), other.host.dial(one.address))
        sent = [home.host.send(peer.id, b"early") for home, peer in ((one, other), (other, one))]
        await asyncio.gather(*sent)
        await until(lambda: one.knows(other) and other.knows(one))
        assert one.resident.envelopes == [(other.id, b"early")]
        assert other.resident.envelopes == [(one.id, b"early")]
        assert {news for news, _ in one.resident.news} == {"connected"}
        await until(lambda: one.host.peers_in(TOPIC) and other.host.peers_in(TOPIC))
        assert one.host.publish(TOPIC, b"hello") == 1
        await until(lambda: other.resident.messages)


async def test_a_message_can_go_to_one_peer_first() -> None:
    async with homes("alice", "bob", "carol") as (alice, bob, carol):
        for home in (alice, bob, carol):
            home.host.join(TOPIC)
        await meet(alice, bob)
        await meet(alice, carol)
        await until(lambda: len(alice.host.peers_in(TOPIC)) == 2)
        assert alice.host.publish(TOPIC, b"for bob", only=bob.id) == 1
        assert alice.host.publish(TOPIC, b"for all") == 2
        assert alice.host.publish(TOPIC, b"for no peer", only=alice.id) == 0
        await until(lambda: len(bob.resident.messages) == 2 and carol.resident.messages)
        assert [message.data for message in carol.resident.messages] == [b"for all"]


async def test_what_is_said_gets_through_a_relay() -> None:
    async with homes("alice", "relay", "bob") as (alice, relay, bob):
        for home in (alice, relay, bob):
            home.host.join(TOPIC)
        await meet(alice, relay)
        await meet(relay, bob)
        await until(
            lambda: (
                relay.host.statistics().gossip.meshes[TOPIC] == 2
                and alice.host.peers_in(TOPIC)
                and bob.host.peers_in(TOPIC)
            )
        )
        said = [b"line %d" % number for number in range(3000)]
        for each in said:
            assert alice.host.publish(TOPIC, each) == 1
        await until(lambda: len(bob.resident.messages) == len(said))
        assert [message.data for message in bob.resident.messages] == said
        assert {message.author for message in bob.resident.messages} == {alice.id}
        assert alice.resident.messages == []
        assert relay.host.statistics().dropped == 0
        assert alice.host.statistics().waiting == 0


async def test_a_peer_outside_of_the_mesh_gets_messages_through_ihave() -> None:
    """Its GRAFT was refused because of the backoff, so it is told of messages at the heartbeat."""
    async with homes("alice", "relay", "bob") as (alice, relay, bob):
        for home in (alice, relay, bob):
            home.host.join(TOPIC)
        await meet(alice, relay)
        await meet(relay, bob)
        await until(lambda: relay.host.statistics().gossip.meshes[TOPIC] == 2)
        await until(lambda: bob.host.statistics().gossip.meshes[TOPIC] == 1)
        bob.host.leave(TOPIC)
        await until(lambda: (bob.id, TOPIC) not in relay.resident.joined_topics)
        bob.host.join(TOPIC)
        await until(lambda: (bob.id, TOPIC) in relay.resident.joined_topics)
        assert relay.host.statistics().gossip.meshes[TOPIC] == 1
        alice.host.publish(TOPIC, b"hello")
        await until(lambda: relay.resident.messages)
        assert bob.resident.messages == []
        relay.time.pass_by(5000)
        await until(lambda: bob.resident.messages)


async def test_what_is_not_admitted_is_neither_told_nor_passed_on() -> None:
    async with homes("alice", "relay") as (alice, relay):
        for home in (alice, relay):
            home.host.join(TOPIC)
        await meet(alice, relay)
        await until(lambda: alice.host.peers_in(TOPIC))
        relay.resident.is_busy = True
        alice.host.publish(TOPIC, b"hello")
        await until(lambda: relay.host.statistics().outcomes["not admitted"])
        assert relay.resident.messages == []


async def test_bursts_of_envelopes_both_ways_are_all_acknowledged() -> None:
    async with homes("alice", "bob") as (alice, bob):
        await meet(alice, bob)
        sizes = [65_536 if number % 100 == 0 else 300 for number in range(3000)]
        envelopes = [number.to_bytes(4, "big").ljust(size, b".") for number, size in enumerate(sizes)]
        sent = [
            home.host.send(peer.id, envelope)
            for envelope in envelopes
            for home, peer in ((alice, bob), (bob, alice))
        ]
        await asyncio.gather(*sent)
        for home, peer in ((alice, bob), (bob, alice)):
            assert sorted(home.resident.envelopes) == [(peer.id, envelope) for envelope in envelopes]
        await until(lambda: alice.host.statistics().waiting == bob.host.statistics().waiting == 0)


async def test_small_envelopes_arrive_in_the_order_of_the_calls() -> None:
    async with homes("alice", "bob") as (alice, bob):
        await meet(alice, bob)
        envelopes = [b"%04d" % number for number in range(500)]
        await asyncio.gather(*[alice.host.send(bob.id, envelope) for envelope in envelopes])
        assert [envelope for _, envelope in bob.resident.envelopes] == envelopes


async def test_the_ack_waits_for_the_program() -> None:
    async with homes("alice", "bob") as (alice, bob):
        await meet(alice, bob)
        bob.resident.takes = None
        taken, refused, late = (alice.host.send(bob.id, each) for each in (b"one", b"two", b"three"))
        await until(lambda: len(bob.resident.unsettled) == 3)
        assert not taken.done()
        bob.resident.unsettled[0](True)
        await taken
        bob.resident.unsettled[1](False)
        with pytest.raises(NotDelivered, match="reset"):
            await refused
        bob.time.pass_by(Rules().stream + 1000)
        with pytest.raises(NotDelivered, match="reset"):
            await late
        bob.resident.unsettled[2](True)  # too late, and harmless
        bob.resident.takes = True
        await alice.host.send(bob.id, b"four")


async def test_too_many_waiting_envelopes_are_refused() -> None:
    async with homes("alice", "bob", rules=Rules(requests=3)) as (alice, bob):
        await meet(alice, bob)
        sent = [alice.host.send(bob.id, b"envelope") for _ in range(4)]
        results = await asyncio.gather(*sent, return_exceptions=True)
        assert [type(result) for result in results] == [type(None)] * 3 + [NotDelivered]
        with pytest.raises(ValueError, match="65,536"):
            alice.host.send(bob.id, bytes(65_537))


async def test_two_hundred_connections_to_one_host() -> None:
    rules = Rules(per_address=250)
    async with homes("hub", *(f"peer{number}" for number in range(200)), rules=rules) as (hub, *peers):
        hub.host.join(TOPIC)
        for peer in peers:
            peer.host.join(TOPIC)
        await asyncio.gather(*(peer.host.dial(hub.address) for peer in peers))
        await until(lambda: len(hub.host.peers_in(TOPIC)) == 200)
        assert hub.host.publish(TOPIC, b"hello") == 200
        await until(lambda: all(peer.resident.messages for peer in peers))
        await asyncio.gather(*(peer.host.send(hub.id, b"envelope") for peer in peers))
        assert len(hub.resident.envelopes) == 200


async def test_connections_over_the_limits_are_refused() -> None:
    async with homes("hub", "a", "b", "c", rules=Rules(per_address=2)) as (hub, *peers):
        await meet(peers[0], hub)
        await meet(peers[1], hub)
        with pytest.raises(PeerUnreachable):
            await peers[2].host.dial(hub.address)
        assert hub.host.statistics().refused == 1
        await peers[0].host.close()
        await until(lambda: hub.links() == 1)
        await meet(peers[2], hub)
    async with homes("hub", "a", "b", rules=Rules(connections=1)) as (hub, *peers):
        await meet(peers[0], hub)
        with pytest.raises(PeerUnreachable):
            await peers[1].host.dial(hub.address)
        await meet(hub, peers[1])  # our own dials are not limited


async def test_a_kept_peer_is_dialled_again_when_it_comes_back() -> None:
    async with homes("alice") as (alice,):
        bob = Home("bob")
        await bob.open()
        alice.host.keep(bob.address)
        await until(lambda: alice.knows(bob))
        assert alice.host.kept() == [KeptPeer(bob.address, bob.id, True, "")]
        for _ in range(3):
            await bob.host.close()
            await until(lambda: alice.links() == 0)
            alice.time.pass_by(1000)  # nothing listens
            assert not alice.host.kept()[0].is_connected
            place = bob.address
            bob = Home("bob")
            await bob.open(place)
            for _ in range(100):
                alice.time.pass_by(1000)
                await asyncio.sleep(0)
            await until(lambda: alice.links() == 1)
            await until(lambda: not alice.host.kept()[0].error)
            assert alice.host.kept() == [KeptPeer(place, bob.id, True, "")]
            await alice.host.send(bob.id, b"again")
            assert bob.resident.envelopes == [(alice.id, b"again")]
        await bob.host.close()


async def test_a_peer_that_restarts_takes_the_place_of_its_old_connection() -> None:
    """The old host is not closed: it is as if its machine had lost power."""
    async with homes("alice", "bob") as (alice, bob):
        await meet(bob, alice)
        again = Home("bob")
        await meet(again, alice)
        (peer,) = alice.host.peers()
        assert peer.agent_id == again.id
        await until(lambda: alice.links() == 1)
        await alice.host.send(again.id, b"envelope")
        assert again.resident.envelopes == [(alice.id, b"envelope")]
        assert bob.resident.envelopes == []
        assert alice.resident.news == [("connected", bob.id)] * 3  # once more when the old one had ended
        await again.host.close()


async def test_a_peer_that_dials_twice_at_once_keeps_its_topics() -> None:
    """The second connection is a spare. A node of the reference says its topics on the first one only."""
    subscribed = pubsub.Rpc(subscriptions=[(True, TOPIC)]).encode()
    async with homes("alice") as (alice,), visited(alice) as first, visited(alice) as second:
        alice.host.join(TOPIC)
        await until(lambda: alice.links() == 2)
        first.speak(pubsub.PROTOCOLS[0], subscribed)
        await until(lambda: alice.host.peers_in(TOPIC) == [first.id])
        second.speak(bilateral.PROTOCOL, frame(b"envelope"))
        await until(lambda: alice.resident.envelopes == [(second.id, b"envelope")])
        alice.resident.joined_topics.clear()
        await first.close()
        await until(lambda: alice.links() == 1)
        assert alice.resident.news == [("connected", first.id)] * 2
        assert alice.resident.joined_topics == {(first.id, TOPIC)}
        assert alice.host.publish(TOPIC, b"hello") == 1
        await second.read_until(lambda: any(PROTOCOL in said for said in second.said.values()))
        second.accept(pubsub.PROTOCOLS[0])
        await second.read_until(lambda: any(b"hello" in said for said in second.said.values()))
        await second.close()
        await until(lambda: alice.resident.news[-1] == ("disconnected", second.id))


async def test_a_peer_has_one_spare_connection_and_may_end_it() -> None:
    async with homes("alice") as (alice,), visited(alice) as first, visited(alice) as spare:
        await until(lambda: alice.links() == 2)
        third = Stranger()
        await third.connect(alice.address)
        await until(
            lambda: alice.resident.news == [("connected", first.id)] * 2
        )  # it took the first one's place
        await spare.close()
        await until(lambda: len(alice.resident.news) >= 3)
        assert ("disconnected", first.id) not in alice.resident.news
        await third.close()


async def test_a_host_that_closes_has_its_requests_acknowledged() -> None:
    async with homes("alice", "bob") as (alice, bob):
        await meet(alice, bob)
        sent = [alice.host.send(bob.id, bytes(60_000)) for _ in range(50)]
        await asyncio.sleep(0)  # now they have their streams
        await alice.host.close()
        await asyncio.gather(*sent)
        assert len(bob.resident.envelopes) == 50
        await until(lambda: bob.links() == 0)
        assert bob.resident.news[-1] == ("disconnected", alice.id)


async def test_a_host_waits_for_its_last_connection_to_close() -> None:
    async with homes("alice", "bob", "carol") as (alice, bob, carol):
        await meet(alice, bob)
        await bob.host.close()
        await until(lambda: alice.links() == 0)
        await meet(alice, carol)
        await alice.host.close()
        assert alice.links() == 0


async def test_requests_without_a_stream_fail_when_the_host_closes() -> None:
    async with homes("alice", "bob") as (alice, bob):
        await meet(alice, bob)
        sent = [alice.host.send(bob.id, b"envelope") for _ in range(1000)]
        await alice.host.close()
        results = await asyncio.gather(*sent, return_exceptions=True)
        assert {type(result) for result in results} <= {type(None), NotDelivered}
        assert isinstance(results[-1], NotDelivered)
        assert len(bob.resident.envelopes) == results.count(None)
