"""What crosses between `/mesh` and the network: topics, agents, and amounts that must not."""

import pytest

from moothall.errors import OutOfOrder, RateLimited
from moothall.hall.mesh.abroad import Abroad
from moothall.hall.mesh.border import MAX_WATCHED, Border, is_safe
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.envelope import encode
from moothall.wire.mesh.msg_types import BROADCAST_TOPIC, NAMED_TOPIC, NOTARY_TOPIC, REPUTATION_TOPIC, MsgType
from moothall.wire.mesh.offers import encode_amount
from tests.hall.mesh.peers import Distant, FakeNetwork, networked
from tests.hall.mesh.town import Agent, MemoryPresence, Town
from tests.support.world import World


def without_network() -> Border:
    world = World()
    presence = MemoryPresence()
    return Border(presence, Abroad(presence, world.hall.agenda, world.hall.now), lambda topic: True)


# -- topics ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("msg_type", "topic"),
    [
        (MsgType.BEACON, BROADCAST_TOPIC),
        (MsgType.ADVERTISE, BROADCAST_TOPIC),
        (MsgType.DISCOVER, BROADCAST_TOPIC),
        (MsgType.BOUNTY, BROADCAST_TOPIC),
        (MsgType.NOTARIZE_BID, NOTARY_TOPIC),
        (MsgType.FEEDBACK, REPUTATION_TOPIC),
        (MsgType.BROADCAST, NAMED_TOPIC + "news"),
    ],
)
def test_what_agents_send_to_a_topic_goes_to_the_network_once(msg_type: MsgType, topic: str) -> None:
    town, network = networked()
    alice = town.present("alice")
    for name in ("bob", "carol"):
        town.present(name).ask(type="subscribe", topic="news")
    network.took()
    if msg_type is MsgType.BEACON:
        sent = alice.beacon()
    elif msg_type is MsgType.BROADCAST:
        sent = alice.send(msg_type, Broadcast(topic="news", title="", content=b"x").encode())
    else:
        sent = alice.send(msg_type, b'{"query": "x"}')
    assert network.took() == [(topic, sent)]
    assert town.room.statistics()["published"] == 4


def test_beacons_of_a_crowd_go_to_the_network_all_the_same() -> None:
    town, network = networked()
    agents = [town.connect_agent(f"agent-{number}", f"192.0.2.{number % 8}") for number in range(300)]
    sent = [agent.beacon() for agent in agents]
    assert [envelope for _, envelope in network.took()] == sent


def test_what_is_not_taken_does_not_go_to_the_network() -> None:
    town, network = networked()
    alice = town.present("alice")
    network.took()
    town.dealings.error = OutOfOrder("no")
    alice.send(MsgType.FEEDBACK, b"x")
    alice.send(MsgType.ADVERTISE, b"{}")
    town.presence.refusal = RateLimited("no")
    alice.send(MsgType.BROADCAST, Broadcast(topic="news", title="", content=b"x").encode())
    assert network.took() == []


def test_nothing_goes_to_the_network_before_the_commit() -> None:
    town, network = networked()
    alice = town.present("alice")
    network.took()
    town.dealings.waiting = []
    sent = [alice.send(msg_type, b"{}") for msg_type in (MsgType.ADVERTISE, MsgType.NOTARIZE_BID)]
    assert network.took() == []
    for end in town.dealings.waiting:
        end()
    assert [envelope for _, envelope in network.took()] == sent


def test_lines_of_channels_go_to_the_network() -> None:
    town, network = networked()
    town.presence.said("general", b"an envelope of the hall")
    assert network.published == [(NAMED_TOPIC + "general", b"an envelope of the hall")]


# -- which topics are heard ----------------------------------------------------------------------------------


def subscribe(agent: Agent, *topics: str) -> None:
    for topic in topics:
        agent.ask(type="subscribe", topic=topic)


def quiet(town: Town, *names: str) -> list[Agent]:
    agents = [town.present(name) for name in names]
    for agent in agents:
        agent.types()
    return agents


def test_a_topic_is_watched_while_an_agent_here_hears_it() -> None:
    town, network = networked()
    alice, bob = quiet(town, "alice", "bob")
    subscribe(alice, "news")
    subscribe(bob, "news", "sounds")
    assert network.watched == [NAMED_TOPIC + "news", NAMED_TOPIC + "sounds"]
    alice.ask(type="unsubscribe", topic="news")
    assert NAMED_TOPIC + "news" in network.watched
    bob.leave()
    assert network.watched == []


def test_a_topic_is_watched_while_its_channel_has_a_member() -> None:
    town, network = networked()
    (alice,) = quiet(town, "alice")
    town.presence.occupied("general", True)
    subscribe(alice, "general")
    town.presence.occupied("general", False)
    assert network.watched == [NAMED_TOPIC + "general"]
    alice.leave()
    assert network.watched == []
    town.presence.occupied("general", True)
    town.presence.occupied("general", True)
    assert network.watched == [NAMED_TOPIC + "general"]


def test_a_bounded_number_of_topics_is_watched() -> None:
    town, network = networked()
    for number in range(MAX_WATCHED + 3):
        town.presence.occupied(f"t{number}", True)
    assert len(network.watched) == town.room.statistics()["watched"] == MAX_WATCHED
    town.presence.occupied(f"t{MAX_WATCHED}", False)  # one that waits for its turn
    town.presence.occupied("t0", False)
    assert len(network.watched) == MAX_WATCHED
    assert network.watched[-1] == f"{NAMED_TOPIC}t{MAX_WATCHED + 1}"
    town.presence.occupied("t1", False)
    town.presence.occupied("t2", False)
    assert len(network.watched) == MAX_WATCHED - 1
    assert network.watched[-1] == f"{NAMED_TOPIC}t{MAX_WATCHED + 2}"


# -- which agents are here -----------------------------------------------------------------------------------


def test_the_network_knows_which_agents_are_here() -> None:
    town, network = networked()
    alice = town.present("alice", proven=True)
    assert network.here == {alice.id}
    again = town.present("alice", proven=True)
    alice.leave()
    assert network.here == {alice.id}
    again.leave()
    assert network.here == set()


def test_a_connection_that_gets_no_mail_is_not_an_agent_that_is_here() -> None:
    town, network = networked()
    sender = town.connect_agent("alice")
    sender.prove(receives=False)
    assert network.here == set()
    town.present("alice", proven=True)
    assert network.here == {sender.id}


def test_a_connection_that_proved_nothing_is_not_announced() -> None:
    """It may have replayed an envelope of an agent that is at another hall."""
    town, network = networked()
    alice = town.present("alice")
    assert network.here == set()
    alice.prove()
    assert network.here == {alice.id}
    town.present("alice")
    alice.leave()
    assert network.here == set()


def test_a_connection_without_a_key_is_no_agent() -> None:
    town, network = networked()
    town.connect_agent("alice").leave()
    assert network.here == set()


# -- amounts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("amount", "is_allowed"),
    [(0, True), (2**63, True), (2**64 - 1, True), (2**64, False), (-1, False), (2**127 - 1, False)],
)
@pytest.mark.parametrize("msg_type", [MsgType.PROPOSE, MsgType.COUNTER, MsgType.ACCEPT])
def test_amounts_beyond_64_bits_do_not_cross(msg_type: MsgType, amount: int, is_allowed: bool) -> None:
    town, network = networked()
    envelope = Distant(town, "distant").seal(msg_type, encode_amount(amount), to=b"r" * 32)
    network.reachable = {envelope.recipient}
    border, done = town.room.border, list[bool]()
    assert is_safe(envelope) is border.reaches(envelope) is is_allowed
    border.carry(envelope, encode(envelope), done.append)
    assert done == [is_allowed]
    assert len(network.carried) == is_allowed


def test_what_has_no_amount_may_begin_with_any_bytes() -> None:
    town, _ = networked()
    assert is_safe(Distant(town, "distant").seal(MsgType.REJECT, b"\xff" * 16, to=b"r" * 32))


# -- without a network ---------------------------------------------------------------------------------------


def test_without_a_network_nothing_crosses() -> None:
    town = Town()
    border = without_network()
    envelope = Distant(town, "distant").propose(b"r" * 32)
    done: list[bool] = []
    border.publish(BROADCAST_TOPIC, b"")
    border.topic_changed("news")
    border.agent_changed(b"r" * 32, is_here=True)
    border.heard(envelope, b"p" * 32)
    border.carry(envelope, b"", done.append)
    assert not border.reaches(envelope)
    assert done == [False]
    assert not any(border.statistics().values())
    assert town.room.network is None


def test_a_room_has_one_network() -> None:
    town, network = networked()
    assert isinstance(town.room.network, FakeNetwork)
    assert town.room.network is network
