"""A peer of the network as a source of envelopes: what it brings, what it costs, and what is dropped."""

from typing import Any

import pytest
from msgspec import structs

from moothall.errors import Banned, NotAllowed, OutOfOrder, RateLimited
from moothall.hall.mesh.abroad import LINES_OF_PEER
from moothall.hall.mesh.beacons import LARGEST_AUDIENCE
from moothall.hall.mesh.market import Payer
from moothall.hall.mesh.relay import (
    MAX_RELAY_IN_FLIGHT,
    MAX_RELAY_WAITING,
    MAX_RELAY_WAITING_BYTES,
    MAX_SENDER_WAITING,
    MAX_SENDER_WAITING_BYTES,
    RELAY_FACTOR,
)
from moothall.settings.limits import Rate
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.envelope import Envelope, encode
from moothall.wire.mesh.msg_types import BROADCAST_TOPIC, NAMED_TOPIC, NOTARY_TOPIC, MsgType
from moothall.wire.mesh.nonces import ReplayGuard
from tests.hall.mesh.peers import PEER, Distant, FakeNetwork, Peer, networked
from tests.hall.mesh.town import PromptChecks, Town
from tests.support.world import HALL_KEY


@pytest.fixture
def world() -> tuple[Town, FakeNetwork, Peer, Distant]:
    town, network = networked()
    return town, network, Peer(town), Distant(town, "distant")


World = tuple[Town, FakeNetwork, Peer, Distant]


# -- topics ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "msg_type",
    [MsgType.ADVERTISE, MsgType.DISCOVER, MsgType.BOUNTY, MsgType.NOTARIZE_BID, MsgType.FEEDBACK],
)
def test_a_topic_message_reaches_all_listeners_and_is_not_published_again(
    world: World, msg_type: MsgType
) -> None:
    town, network, peer, distant = world
    alice, bob = town.present("alice"), town.present("bob")
    alice.types(), bob.types(), network.took()
    sent = distant.seal(msg_type, b"{}")
    assert peer.brings(sent)
    assert alice.envelopes() == bob.envelopes() == [sent]
    assert network.took() == []
    assert town.room.border.received == {msg_type.name: 1}
    assert town.room.received[msg_type.name] == 0


def test_what_each_topic_message_of_a_peer_is_for(world: World) -> None:
    town, _, peer, distant = world
    peer.brings(distant.beacon("Dora"))
    advertised = distant.seal(MsgType.ADVERTISE, b"{}")
    discover, bounty = distant.seal(MsgType.DISCOVER, b'{"query": "x"}'), distant.seal(MsgType.BOUNTY)
    bid, feedback = distant.seal(MsgType.NOTARIZE_BID), distant.seal(MsgType.FEEDBACK)
    for envelope in (advertised, discover, bounty, bid, feedback):
        peer.brings(envelope)
    assert town.dealings.advertised == [(advertised, "Dora")]
    assert town.dealings.recorded == [discover, bounty]
    assert town.dealings.queries == []  # a peer is not answered
    assert [envelope for envelope, _ in town.dealings.taken] == [bid, feedback]
    assert town.dealings.abroad == [(bid, distant.id), (feedback, distant.id)]
    assert set(town.dealings.payers) == {Payer("198.51.100.4", is_loopback=False, way="topics")}


def test_what_a_peer_brings_on_streams_and_on_topics_has_shares_of_its_own(world: World) -> None:
    """Any node can publish. That must not use up what agents behind the peer need to deal with agents here."""
    town, _, peer, distant = world
    alice = town.present("alice", proven=True)
    peer.brings(distant.propose(alice))
    peer.brings(distant.seal(MsgType.FEEDBACK))
    alice.send(MsgType.NOTARIZE_BID)
    stream, topics, connection = town.dealings.payers
    assert len({payer.address for payer in (stream, topics, connection._replace(ip=stream.ip))}) == 3
    assert stream.factor == topics.factor > connection.factor == 1
    assert len({payer._replace(is_loopback=True).address for payer in (stream, topics)}) == 1
    neighbours = [stream._replace(ip=f"2001:db8::{number}") for number in range(1, 9)]
    assert len({payer.address for payer in neighbours}) == 1


def test_an_advertisement_that_is_over_a_quota_is_heard(world: World) -> None:
    town, network, peer, distant = world
    alice = town.present("alice")
    alice.types(), network.took()
    town.dealings.error = RateLimited("too many new keys")
    sent = distant.seal(MsgType.ADVERTISE, b"{}")
    peer.brings(sent)
    assert alice.envelopes() == [sent]
    assert town.room.border.dropped == {"RATE_LIMITED": 1}
    assert network.took() == []


def test_feedback_about_a_conversation_of_other_halls_is_heard_and_logged(world: World) -> None:
    town, _, peer, distant = world
    alice = town.present("alice")
    alice.types()
    town.dealings.error = OutOfOrder("not here")
    sent = distant.seal(MsgType.FEEDBACK, b"x")
    peer.brings(sent)
    assert alice.envelopes() == [sent]
    assert town.dealings.recorded == [sent]
    assert town.room.border.dropped == {"OutOfOrder": 1}


def test_beacons_of_the_network_follow_the_rules_of_audiences(world: World) -> None:
    town, _, peer, distant = world
    first = town.present("alice")
    first.types()
    peer.brings(distant.beacon())
    peer.brings(distant.beacon())
    assert first.types() == ["BEACON", "BEACON"]  # a small audience gets all
    others = [town.connect_agent(f"agent-{number}") for number in range(80)]
    for agent in others:
        agent.beacon()
    for agent in (first, *others):
        agent.types()
    peer.brings(distant.beacon())
    assert (first.types(), others[-1].types()) == ([], ["BEACON"])  # only those that came later
    peer.brings(distant.beacon("other name"))
    assert (first.types(), others[-1].types()) == (["BEACON"], ["BEACON"])
    crowd = [
        town.connect_agent(f"crowd-{number}", f"192.0.2.{number % 8}") for number in range(LARGEST_AUDIENCE)
    ]
    for agent in crowd:
        agent.beacon()
    first.types()
    peer.brings(distant.beacon("third name"))
    assert first.types() == []
    assert len(town.room.border.abroad) == 1


# -- named topics ----------------------------------------------------------------------------------------


def test_a_broadcast_reaches_the_subscribers_of_its_topic(world: World) -> None:
    town, network, peer, distant = world
    alice, bob = town.present("alice"), town.present("bob")
    alice.ask(type="subscribe", topic="news")
    alice.types(), bob.types(), network.took()
    sent = distant.broadcast("news")
    peer.brings(sent)
    assert (alice.envelopes(), bob.envelopes()) == ([sent], [])
    assert town.dealings.recorded == [sent]
    assert network.took() == []


@pytest.mark.parametrize("topic", [NAMED_TOPIC + "other", BROADCAST_TOPIC, None])
def test_a_broadcast_on_a_topic_that_it_does_not_name_is_refused(world: World, topic: str | None) -> None:
    town, _, peer, distant = world
    alice = town.present("alice")
    alice.ask(type="subscribe", topic="other")
    alice.ask(type="subscribe", topic="news")
    alice.types()
    peer.relay.receive(encode(distant.broadcast("news")), topic)
    assert alice.envelopes() == []
    assert town.room.border.dropped == {"WrongRoute": 1}


def test_a_broadcast_that_cannot_be_read_is_passed_on_where_it_came(world: World) -> None:
    town, _, peer, distant = world
    alice = town.present("alice")
    alice.ask(type="subscribe", topic="news")
    alice.types()
    sent = distant.seal(MsgType.BROADCAST, b"not CBOR")
    peer.brings(sent, NAMED_TOPIC + "news")
    assert alice.envelopes() == [sent]
    peer.brings(distant.seal(MsgType.BROADCAST, b"not CBOR"), NOTARY_TOPIC)
    assert alice.envelopes() == []
    assert town.room.border.dropped == {"WrongRoute": 1}


def test_only_one_that_speaks_in_a_channel_arrives_there(world: World) -> None:
    town, _, peer, distant = world
    town.presence.chat_topics = {"general"}
    peer.brings(distant.beacon("Dora"))
    peer.brings(distant.broadcast("news"))
    assert town.presence.present == {}
    peer.brings(distant.broadcast("general"))
    assert list(town.presence.present.values()) == [(distant.id, "Dora", False)]
    peer.brings(distant.beacon("Dorothy"))
    assert list(town.presence.present.values()) == [(distant.id, "Dorothy", False)]
    town.advance(89)
    assert len(town.presence.present) == 1
    peer.brings(distant.beacon("Dorothy"))
    town.advance(89)
    assert len(town.presence.present) == 1
    town.advance(1)
    assert town.presence.present == {}
    assert (len(town.room.border.abroad), town.room.border.abroad.speakers) == (0, 0)


def test_many_agents_of_a_peer_cannot_flood_a_channel() -> None:
    """Each has a rate of its own, and keys are free. The subscribers of the topic get all lines."""
    town, _ = networked()
    peer = Peer(town, is_loopback=True)
    alice = town.present("alice")
    alice.ask(type="subscribe", topic="general")
    alice.types()
    town.presence.chat_topics = {"general"}
    for number in range(LINES_OF_PEER.limit + 50):
        peer.brings(Distant(town, f"agent {number}").broadcast("general"))
    assert len(town.presence.present) == 1 + LINES_OF_PEER.limit
    assert town.room.border.dropped == {"TooManyLines": 50}
    assert len(alice.envelopes()) == LINES_OF_PEER.limit + 50
    honest = Distant(town, "honest")
    Peer(town, b"\x02" * 32).brings(honest.broadcast("general"))
    assert honest.id in {key for key, _, _ in town.presence.present.values()}


# -- what is refused ---------------------------------------------------------------------------------------


def broken(envelope: Envelope, **fields: Any) -> Envelope:
    return structs.replace(envelope, **fields)


def test_envelopes_are_checked_as_those_of_a_connection(world: World) -> None:
    town, network, peer, distant = world
    alice = town.present("alice")
    alice.types()
    good = distant.seal(MsgType.BOUNTY, b"{}")
    assert peer.relay.receive(b"junk", BROADCAST_TOPIC)
    peer.brings(broken(good, signature=bytes(64)))
    peer.brings(broken(good, version=2))
    peer.brings(good, NOTARY_TOPIC)
    peer.brings(good)
    peer.brings(good)
    hall = Distant(town, "hall", HALL_KEY)
    peer.brings(hall.seal(MsgType.BOUNTY, b"{}"))
    town.presence.banned = {distant.id: Banned("no")}
    peer.brings(distant.seal(MsgType.BOUNTY, b"{}"))
    assert alice.envelopes() == [good]
    assert town.room.border.dropped == {
        "CborDecode": 1,
        "InvalidSignature": 1,
        "UnsupportedVersion": 1,
        "WrongRoute": 1,
        "NonceReplay": 1,
        "ReservedKey": 1,
        "BANNED": 1,
    }
    assert not town.room.refused
    assert network.carried == []
    assert network.senders == [(distant.id, PEER)]  # only of the one that passed all checks


def test_an_envelope_counts_once_whichever_way_it_comes(world: World) -> None:
    town, network, peer, distant = world
    alice, bob = town.present("alice"), town.present("bob")
    other = Peer(town, b"\x02" * 32)
    alice.types(), bob.types(), network.took()
    sent = distant.seal(MsgType.BOUNTY, b"{}")
    peer.brings(sent)
    other.brings(sent)
    assert bob.envelopes() == [sent]
    mine = alice.send(MsgType.BOUNTY, b"{}")
    peer.brings(mine)  # it came back
    assert bob.envelopes() == [mine]
    assert [envelope for _, envelope in network.took()] == [mine]
    assert town.room.border.dropped == {"NonceReplay": 2}


# -- what it costs -----------------------------------------------------------------------------------------


def test_what_exceeds_the_queue_is_dropped_and_counted() -> None:
    checks = PromptChecks()
    checks.is_stopped = True
    town, _ = networked(checks=checks)
    peer = Peer(town)
    raws = [encode(Distant(town, f"{number}").seal(MsgType.BOUNTY, b"{}")) for number in range(8)]
    raw = raws[0]
    assert all(peer.relay.receive(each, None) for each in raws * MAX_SENDER_WAITING)
    assert not peer.relay.receive(encode(Distant(town, "new").seal(MsgType.BOUNTY, b"{}")), None)
    assert town.room.border.dropped == {"QueueFull": 1}
    assert town.room.statistics()["relay_waiting"] == MAX_RELAY_WAITING
    assert town.room.statistics()["relay_waiting_bytes"] == MAX_RELAY_WAITING * len(raw)


def test_the_queue_is_bounded_in_bytes_too() -> None:
    checks = PromptChecks()
    checks.is_stopped = True
    town, _ = networked(checks=checks)
    peer = Peer(town)
    number = 0
    while peer.relay.receive(number.to_bytes(2, "big") * 30_000, None):
        number += 1
        assert peer.relay.waiting_bytes <= MAX_RELAY_WAITING_BYTES
    assert peer.relay.waiting == MAX_RELAY_WAITING_BYTES // 60_000


@pytest.mark.parametrize(
    ("size", "half", "share"),
    [
        (300, MAX_RELAY_WAITING // 2, MAX_SENDER_WAITING),
        (30_000, MAX_RELAY_WAITING_BYTES // 2 // 30_000, MAX_SENDER_WAITING_BYTES // 30_000),
    ],
)
def test_one_sender_leaves_room_for_others_behind_the_same_peer(size: int, half: int, share: int) -> None:
    checks = PromptChecks()
    checks.is_stopped = True
    town, _ = networked(checks=checks)
    peer = Peer(town)

    def taken(sender: bytes) -> int:
        return sum(peer.relay.receive(sender * (size // 4), None) for _ in range(2 * half))

    assert taken(b"spam") == half
    assert [taken(sender) for sender in (b"one ", b"two ")] == [share, share]
    while peer.relay.take([], 100):
        pass
    assert (peer.relay.waiting, peer.relay._by_sender, peer.relay._bytes_by_sender) == (0, {}, {})
    assert taken(b"spam") == half


@pytest.mark.parametrize("size", [300, 30_000])
def test_topics_leave_room_for_bilateral_envelopes(size: int) -> None:
    """Any node can publish with ever new keys, and an honest peer passes that on."""
    checks = PromptChecks()
    checks.is_stopped = True
    town, _ = networked(checks=checks)
    peer = Peer(town)
    numbers = iter(range(10_000))

    def fill(topic: str | None) -> int:
        number = 0
        while peer.relay.receive(next(numbers).to_bytes(4, "big") * (size // 4), topic):
            number += 1
        return number

    published, sent = fill(BROADCAST_TOPIC), fill(None)
    assert 3 * sent - 3 <= published <= 3 * sent + 3
    assert fill(BROADCAST_TOPIC) == 0


def test_a_peer_has_more_room_than_a_connection_of_its_address() -> None:
    rate = Rate(80, 1)  # 20 envelopes
    town, _ = networked(address_frames=rate, mesh_rate=Rate(0, 1))
    peer, distant = Peer(town), Distant(town, "distant")
    count = 20 * RELAY_FACTOR
    for _ in range(2 * count):
        assert peer.brings(distant.seal(MsgType.BOUNTY, b"{}"))
    assert count <= town.room.border.received["BOUNTY"] <= count + 1
    assert peer.relay.waiting >= count - 1
    town.advance(2)
    assert town.room.border.received["BOUNTY"] == 2 * count
    assert not town.room.border.dropped


def test_a_peer_that_cannot_pay_does_not_hold_up_others() -> None:
    town, _ = networked(address_frames=Rate(8, 1))
    alice, peer, distant = town.present("alice"), Peer(town), Distant(town, "distant")
    for _ in range(50):
        peer.brings(distant.seal(MsgType.BOUNTY, b"{}"))
    assert peer.relay.waiting
    alice.types()
    other = Peer(town, b"\x02" * 32, "203.0.113.9")
    other.brings(distant.seal(MsgType.BOUNTY, b"{}"))
    assert alice.types() == ["BOUNTY"]


def test_a_peer_has_a_bounded_number_of_envelopes_under_way(world: World) -> None:
    town, _, peer, distant = world
    alice = town.present("alice", proven=True)
    town.dealings.waiting = []
    for _ in range(MAX_RELAY_IN_FLIGHT + 20):
        peer.brings(distant.propose(alice))
    assert peer.relay.in_flight == MAX_RELAY_IN_FLIGHT
    assert len(town.dealings.taken) == MAX_RELAY_IN_FLIGHT
    waiting, town.dealings.waiting = town.dealings.waiting, None
    for end in waiting:
        end()
    assert len(town.dealings.taken) == MAX_RELAY_IN_FLIGHT + 20
    assert peer.relay.in_flight == 0


def test_a_peer_without_limits_pays_nothing() -> None:
    town, _ = networked(no_limits=True)
    peer = Peer(town)
    assert peer.relay.meter is None


# -- coming and going --------------------------------------------------------------------------------------


def test_what_a_peer_had_sent_is_handled_after_its_end() -> None:
    checks = PromptChecks()
    checks.is_stopped = True
    town, _ = networked(checks=checks)
    peer, distant = Peer(town), Distant(town, "distant")
    peer.brings(distant.seal(MsgType.BOUNTY, b"{}"))
    assert town.room.statistics()["relays"] == 1
    peer.relay.end()
    peer.relay.end()  # once more is harmless
    assert town.room.statistics()["relays"] == 0
    assert not peer.brings(distant.seal(MsgType.BOUNTY, b"{}"))
    checks.is_stopped = False
    checks.run()
    assert town.room.border.received == {"BOUNTY": 1}


def test_a_hall_that_is_about_to_close_takes_nothing_more_of_peers(world: World) -> None:
    town, _, peer, distant = world
    finished: list[bool] = []
    town.room.take_no_more(lambda: finished.append(True))
    late = Peer(town, b"\x03" * 32)
    for each in (peer, late):
        each.brings(distant.seal(MsgType.BOUNTY, b"{}"))
    assert finished == [True]
    assert not town.room.border.received


def test_a_bug_of_ours_costs_the_peer_one_envelope(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    town, _, peer, distant = world

    def fails(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(town.dealings, "record", fails)
    peer.brings(distant.seal(MsgType.BOUNTY, b"{}"))
    assert town.room.border.dropped == {"InternalError": 1}
    assert town.log.find("a frame of the mesh could not be handled")
    peer.brings(distant.beacon())
    assert town.room.border.received["BEACON"] == 1


def test_a_broadcast_of_data_is_not_said_in_a_channel(world: World) -> None:
    town, _, peer, distant = world
    town.presence.chat_topics = {"general"}
    payload = Broadcast(topic="general", title="", format="data", content=b"\x00").encode()
    peer.brings(distant.seal(MsgType.BROADCAST, payload))
    assert town.presence.present == {}


def test_senders_of_peers_have_a_share_of_the_replay_windows() -> None:
    town, _ = networked()
    town.room._taking.guard = ReplayGuard(floor=town.room.floor, most=12)
    peer = Peer(town, is_loopback=True)
    for number in range(20):
        peer.brings(Distant(town, f"agent {number}").beacon())
    assert town.room.border.received == {"BEACON": 4}
    assert town.room.border.dropped == {"TooManySenders": 16}
    assert Peer(town, b"\x02" * 32).brings(Distant(town, "agent 20").beacon())
    assert town.room.border.received == {"BEACON": 5}
    alice = town.present("alice", proven=True)
    assert town.room.connections.is_proven(alice.id)


def test_what_a_banned_peer_brings_is_refused() -> None:
    """So an operator can do something about a peer that brings spam of ever new keys."""
    town, _ = networked()
    peer, distant = Peer(town), Distant(town, "distant")
    town.presence.banned = {PEER: Banned("no")}
    peer.brings(distant.beacon())
    assert (town.room.border.received, town.room.border.dropped) == ({}, {"BANNED": 1})
    Peer(town, b"\x02" * 32).brings(distant.beacon())
    assert town.room.border.received == {"BEACON": 1}


def test_a_peer_needs_no_approval_to_bring_envelopes_of_approved_agents() -> None:
    town, _ = networked()
    town.presence.banned = {PEER: NotAllowed("approved keys only")}
    Peer(town).brings(Distant(town, "distant").beacon())
    assert town.room.border.received == {"BEACON": 1}


def test_mail_for_an_agent_whose_envelope_was_replayed_here_goes_on_to_the_agent() -> None:
    """A connection that proved nothing gets a copy. It must not take the mail away from the agent."""
    town, network = networked()
    peer, sender, agent = Peer(town), Distant(town, "sender"), Distant(town, "agent")
    thief = town.connect_agent("thief")
    thief.post(encode(agent.beacon()))
    network.reachable = {agent.id}
    mail = sender.propose(agent)
    peer.brings(mail)
    assert network.carried == [(mail, PEER)]
    town.present("agent", proven=True)
    peer.brings(sender.propose(agent))
    assert len(network.carried) == 1


def test_an_envelope_that_was_not_carried_on_may_be_sent_again() -> None:
    """The peer gets no ACK and sends it again. An ACK for a replay would say that it was delivered."""
    town, network = networked()
    peer, sender, agent = Peer(town), Distant(town, "sender"), Distant(town, "agent")
    network.reachable, network.delivers = {agent.id}, False
    mail, answers = encode(sender.propose(agent)), list[bool]()
    assert peer.relay.receive(mail, None, answers.append)
    network.delivers = True
    assert peer.relay.receive(mail, None, answers.append)
    assert answers == [False, True]
    assert len(network.carried) == 2


def test_an_envelope_that_the_store_failed_on_may_be_sent_again() -> None:
    town, _ = networked()
    peer, sender, alice = Peer(town), Distant(town, "sender"), town.present("alice", proven=True)
    mail, answers = encode(sender.propose(alice)), list[bool]()
    town.dealings.error = OSError("disk")
    assert peer.relay.receive(mail, None, answers.append)
    town.dealings.error = None
    alice.types()
    assert peer.relay.receive(mail, None, answers.append)
    assert answers == [False, True]
    assert alice.types() == ["PROPOSE"]
