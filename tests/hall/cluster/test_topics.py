"""Topics of the mesh in a hall of several nodes: each subscriber sees each envelope once."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moothall.hall.api_routes import Paged, Viewer
from moothall.hall.cluster import events, originals, topics
from moothall.hall.cluster.nodes import RENEWAL_SECONDS, SILENCE_SECONDS
from moothall.hall.cluster.originals import Originals
from moothall.hall.cluster.topics import TopicEnvelope, TopicsChanged, TopicsHeard
from moothall.hall.mesh import api_agents
from moothall.hall.mesh.other_nodes import MAX_AGENTS
from moothall.wire.agentchat import codec
from moothall.wire.agentchat.server import Chat
from moothall.wire.bus import EVERY_NODE, BusMessage, node_subject, packets
from moothall.wire.mesh.announcements import Beacon
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.envelope import Envelope, decode, encode
from moothall.wire.mesh.msg_types import BROADCAST_TOPIC, NAMED_TOPIC, NOTARY_TOPIC, REPUTATION_TOPIC, MsgType
from tests.hall.cluster.mesh_towns import Towns, text
from tests.hall.mesh.peers import Distant, Peer
from tests.hall.mesh.town import Agent
from tests.support.world import HALL_KEY, assert_sent

SECRET = "sk-ant-api03-" + "a" * 40


def contents(agent: Agent) -> list[bytes | None]:
    """Of the BROADCASTs that have come since the last look."""
    return [
        Broadcast.decode(envelope.payload).content
        for envelope in agent.envelopes()
        if envelope.msg_type is MsgType.BROADCAST
    ]


def inject(towns: Towns, start: str, end: str, message: BusMessage) -> None:
    """A node sends this, whatever its rooms would do."""
    towns.clusters[start].send(end, message)
    towns.settle()


# -- who gets what ---------------------------------------------------------------------------------


def test_subscribers_of_all_nodes_get_a_broadcast_once() -> None:
    towns = Towns("a", "b", "c")
    alice = towns.present("a", "alice")
    near, far, twice, stranger = (
        towns.present("a", "near", hears="news"),
        towns.present("b", "far", hears="news"),
        towns.present("c", "twice", hears="news"),
        towns.present("c", "stranger", hears="other"),
    )
    towns.hush()
    sent = towns.say(alice, "news", "hello")
    assert near.envelopes() == far.envelopes() == twice.envelopes() == [sent]
    assert stranger.envelopes() == alice.envelopes() == []
    answer = towns.say(far, "news", "hello yourself")
    assert alice.envelopes() == near.envelopes() == twice.envelopes() == [answer]
    assert far.envelopes() == []


def test_a_sender_does_not_get_its_own_on_another_node() -> None:
    towns = Towns("a", "b")
    alice = towns.present("a", "alice")
    other = towns.present("b", "alice", hears="news")
    bob = towns.present("b", "bob", hears="news")
    towns.hush()
    sent = towns.say(alice, "news", "hello")
    assert bob.envelopes() == [sent]
    assert other.envelopes() == []


@pytest.mark.parametrize(
    ("msg_type", "payload"),
    [
        (MsgType.ADVERTISE, b'{"capabilities": ["translate"]}'),
        (MsgType.BOUNTY, b"{}"),
        (MsgType.NOTARIZE_BID, b"\x01" + bytes(16)),
        (MsgType.FEEDBACK, b""),
    ],
)
def test_fixed_topics_are_those_of_the_hall(msg_type: MsgType, payload: bytes) -> None:
    towns = Towns("a", "b")
    alice, bob = towns.present("a", "alice"), towns.present("b", "bob")
    towns.hush()
    sent = towns.sends(alice, msg_type, payload)
    assert bob.envelopes() == [sent]
    assert not towns.town("b").dealings.advertised, "the node of the sender did, in the store of all nodes"
    assert not towns.town("b").dealings.taken
    assert not towns.town("b").dealings.recorded


def test_discover_is_answered_by_the_own_node_and_heard_everywhere() -> None:
    towns = Towns("a", "b")
    alice, bob = towns.present("a", "alice"), towns.present("b", "bob")
    towns.hush()
    sent = towns.sends(alice, MsgType.DISCOVER, b'{"query": "translate"}')
    assert alice.types() == ["discover_results"]
    assert bob.envelopes() == [sent]
    assert not towns.town("b").dealings.queries


def test_a_beacon_introduces_an_agent_to_all_nodes() -> None:
    towns = Towns("a", "b")
    bob = towns.present("b", "bob")
    alice = towns.town("a").connect_agent("alice")
    beacon = alice.beacon()
    towns.settle()
    assert bob.envelopes() == [beacon]
    carol = towns.agent("b", "carol")
    carol.read()
    towns.send(carol, "LIST_AGENTS")
    listed = {entry["name"]: entry for entry in assert_sent(carol, "AGENTS")["list"]}
    assert {"alice", "bob", "carol"} <= listed.keys()
    assert listed["alice"]["id"] == "@" + alice.key.public.agent_id(8)


def test_the_api_lists_mesh_agents_of_all_nodes() -> None:
    towns = Towns("a", "b")
    alice, bob = towns.present("a", "alice"), towns.present("b", "bob")
    bob.prove()
    both = [towns.present(node, "both") for node in "ab"]
    towns.settle()
    (route,) = api_agents.routes(towns.town("a").room)
    listed = route.handler(towns.town("a").hall, Viewer(), Paged(limit=10))
    assert isinstance(listed, api_agents.MeshAgentList)
    assert {item.key: (item.name, item.proven) for item in listed.items} == {
        alice.id.hex(): ("alice", False),
        bob.id.hex(): ("bob", True),
        both[0].id.hex(): ("both", False),
    }
    assert all(item.id for item in listed.items)


def test_in_a_crowd_only_news_of_beacons_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moothall.hall.mesh.beacons.SMALL_AUDIENCE", 1)
    towns = Towns("a", "b")
    bob, carol = towns.present("b", "bob"), towns.present("b", "carol")
    alice = towns.present("a", "alice")
    assert [each.types() for each in (bob, carol)] == [["BEACON", "BEACON"], ["BEACON"]]
    alice.beacon()
    towns.settle()
    assert bob.types() == carol.types() == []
    dora = towns.present("b", "dora")
    bob.types(), carol.types()
    alice.beacon()
    towns.settle()
    assert dora.types() == ["BEACON"], "it had none of it yet"
    assert bob.types() == carol.types() == []
    alice.beacon("alicia")
    towns.settle()
    assert bob.types() == carol.types() == dora.types() == ["BEACON"]
    towns.advance(100)
    alice.beacon("alicia")
    towns.settle()
    assert bob.types() == carol.types() == dora.types() == ["BEACON"], "it was silent, so it is news"


def test_a_crowd_is_one_of_all_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or what BEACONs cost would grow with the square of the number of nodes."""
    monkeypatch.setattr("moothall.hall.mesh.beacons.LARGEST_AUDIENCE", 3)
    towns = Towns("a", "b", "c")
    network = towns.network("c")
    alice, near = towns.present("a", "alice"), towns.present("a", "near")
    bob, carol = towns.present("b", "bob"), towns.present("b", "carol")
    towns.advance(1.5)
    towns.hush()
    network.took()
    before = towns.broker.published
    sent = alice.beacon()
    towns.settle()
    assert towns.broker.published == before + 1, "to the node with the network"
    assert network.took() == [(BROADCAST_TOPIC, sent)]
    assert [agent.types() for agent in (near, bob, carol)] == [[], [], []]
    bounty = towns.sends(alice, MsgType.BOUNTY, b"{}")
    assert near.envelopes() == bob.envelopes() == carol.envelopes() == [bounty], "all but BEACONs"
    carol.leave()
    towns.advance(1.5)
    alice.beacon()
    towns.settle()
    assert near.types() == bob.types() == ["BEACON"]
    towns.kill("b")
    towns.advance(5)
    assert towns.town("a").room.handing_on.listeners_elsewhere == 0


def test_beacons_of_a_bounded_number_of_agents_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moothall.hall.mesh.other_nodes.MAX_AGENTS", 2)
    towns = Towns("a", "b")
    towns.present("b", "bob")
    for name in ("one", "two", "three"):
        towns.present("a", name)
    assert len(towns.town("b").room.other_nodes._agents) == 2
    assert MAX_AGENTS >= 10_000


# -- what nodes hear -------------------------------------------------------------------------------


def test_what_no_other_node_hears_costs_the_bus_nothing() -> None:
    towns = Towns("a", "b", "c")
    alice, near = towns.present("a", "alice"), towns.present("a", "near", hears="news")
    towns.advance(2)
    before = towns.broker.published
    towns.say(alice, "news", "hello")
    towns.sends(alice, MsgType.BOUNTY, b"{}")
    towns.sends(alice, MsgType.BEACON, Beacon(alice.id, "alice").encode())
    assert towns.broker.published == before
    far = towns.present("b", "far", hears="news")
    before = towns.broker.published
    towns.say(alice, "news", "hello")
    assert towns.broker.published == before + 1, "to one node"
    assert contents(near) == [b"hello", b"hello"]
    assert contents(far) == [b"hello"]


def test_who_no_longer_hears_a_topic_gets_nothing_of_it() -> None:
    towns = Towns("a", "b")
    alice, bob = towns.present("a", "alice"), towns.present("b", "bob", hears="news")
    towns.unsubscribe(bob, "news")
    towns.say(alice, "news", "unheard")
    towns.subscribe(bob, "news")
    towns.say(alice, "news", "heard")
    assert contents(bob) == [b"heard"]
    towns.unsubscribe(bob, "news")
    towns.advance(1.5)
    assert not towns.clusters["a"].topics.is_heard(NAMED_TOPIC + "news")
    bob.leave()
    towns.advance(1.5)
    assert not any(
        towns.clusters["a"].topics.nodes(topic) for topic in (BROADCAST_TOPIC, NOTARY_TOPIC, REPUTATION_TOPIC)
    )


def test_to_come_and_go_costs_the_other_nodes_little() -> None:
    towns = Towns("a", "b")
    bob = towns.present("b", "bob", hears="news")
    before = towns.broker.published
    for _ in range(20):
        towns.unsubscribe(bob, "news")
        towns.subscribe(bob, "news")
    assert towns.broker.published == before


def test_a_node_that_hears_too_much_gets_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "MAX_NAMED", 10)
    towns = Towns("a", "b")
    alice, bob = towns.present("a", "alice"), towns.present("b", "bob")
    for number in range(8):
        towns.subscribe(bob, f"topic {number}")
    assert towns.clusters["a"].topics.nodes(NAMED_TOPIC + "other") == {"b"}
    towns.say(alice, "topic 7", "hello")
    towns.say(alice, "topic 9", "for no agent")
    assert contents(bob) == [b"hello"]
    for number in range(6):
        towns.unsubscribe(bob, f"topic {number}")
    towns.advance(1.5)
    assert towns.clusters["a"].topics.nodes(NAMED_TOPIC + "other") == set()
    assert towns.clusters["a"].topics.nodes(NAMED_TOPIC + "topic 7") == {"b"}


def test_an_agent_cannot_make_a_node_name_its_topics_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All of their names are a megabyte, and one name more or less is a short frame."""
    monkeypatch.setattr(topics, "MAX_NAMED", 20)
    towns = Towns("a", "b")
    bob = towns.present("b", "bob")
    for number in range(18):  # with the three fixed topics, it is one more than can be named
        towns.subscribe(bob, f"topic {number}")
    named = 0
    cluster = towns.clusters["b"]
    publish = cluster.publish

    def count(subject: str, message: BusMessage) -> None:
        nonlocal named
        named += isinstance(message, TopicsHeard) and len(message.topics)
        publish(subject, message)

    monkeypatch.setattr(cluster, "publish", count)
    for _ in range(5):
        towns.unsubscribe(bob, "topic 0")
        towns.advance(1.5)
        towns.subscribe(bob, "topic 0")
        towns.advance(1.5)
    assert named == 0
    for number in range(12):
        towns.unsubscribe(bob, f"topic {number}")
    towns.advance(1.5)
    assert 0 < named <= 10


@pytest.mark.parametrize(
    "message",
    [
        TopicsHeard([""]),
        TopicsHeard(["x" * 300]),
        TopicsHeard(["x", "y", "z"]),
        TopicsHeard([], listeners=-1),
        TopicsChanged([], listeners=-1),
        TopicsChanged(["x", "y", "z"]),
    ],
)
def test_what_a_node_cannot_hear_is_refused(message: BusMessage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "MAX_NAMED", 2)
    towns = Towns("a", "b")
    before = towns.clusters["a"].post.refused
    inject(towns, "b", "a", message)
    assert towns.clusters["a"].post.refused == before + 1
    assert not towns.clusters["a"].topics.is_heard("x")


def test_a_node_that_comes_late_hears_and_is_heard() -> None:
    towns = Towns("a")
    alice = towns.present("a", "alice", hears="news")
    towns.start("b")
    towns.settle()
    towns.advance(1)
    bob = towns.present("b", "bob", hears="news")
    alice.types()
    towns.say(bob, "news", "hello")
    towns.say(alice, "news", "hello yourself")
    assert contents(alice) == [b"hello"]
    assert contents(bob) == [b"hello yourself"]
    towns.kill("b")
    towns.advance(5)
    assert towns.clusters["a"].topics.nodes(NAMED_TOPIC + "news") == set()
    towns.start("b")
    towns.advance(1)
    bob = towns.present("b", "bob", hears="news")
    towns.say(alice, "news", "again")
    assert contents(bob) == [b"again"]


def test_a_topic_that_is_heard_just_after_all_were_named_stays_heard() -> None:
    """The node names all topics to one node, while it tells every node of topics before and after that."""
    towns = Towns("a", "b")
    heard = {name: cluster.topics for name, cluster in towns.clusters.items()}
    heard["a"].hear("first", is_heard=True)
    towns.clusters["b"].send("a", TopicsHeard([], asks=True))
    towns.clusters["b"].post.flush()
    towns.broker.run()
    heard["a"].hear("second", is_heard=True)
    towns.settle()
    towns.advance(RENEWAL_SECONDS)
    assert heard["b"].nodes("second") == {"a"}


# -- envelopes that come twice ---------------------------------------------------------------------


def test_an_envelope_is_refused_at_all_nodes_that_have_it() -> None:
    towns = Towns("a", "b")
    alice, bob = towns.present("a", "alice"), towns.present("b", "bob", hears="news")
    sent = towns.say(alice, "news", "hello")
    assert contents(bob) == [b"hello"]
    towns.hush()
    thief = towns.town("b").connect_agent("alice")
    towns.replays(thief, sent)
    (refused,) = thief.texts()
    assert refused["type"] == "refused"
    assert refused["fault"] == "NonceReplay"
    assert bob.types() == alice.types() == []


def test_an_envelope_that_comes_from_two_nodes_is_handed_on_once() -> None:
    towns = Towns("a", "b", "c")
    alice = towns.present("a", "alice")
    carol = towns.present("c", "carol", hears="news")
    sent = alice.seal(MsgType.BROADCAST, text("news", "hello"))
    thief = towns.town("b").connect_agent("alice")
    for agent in (alice, thief):
        agent.post(encode(sent))
    towns.settle()
    assert contents(carol) == [b"hello"]
    assert towns.town("c").room.other_nodes.dropped == {"NonceReplay": 1}


def test_the_clock_of_another_node_does_not_matter() -> None:
    towns = Towns("a", "b")
    alice, bob = towns.present("a", "alice"), towns.present("b", "bob", hears="news")
    late = alice.seal(MsgType.BROADCAST, text("news", "from the past"))
    towns.advance(700)
    towns.town("b").room.other_nodes.take("a", NAMED_TOPIC + "news", encode(late), b"")
    assert contents(bob) == [b"from the past"]
    towns.say(alice, "news", "from today")
    assert contents(bob) == [b"from today"]


def test_if_too_many_senders_come_none_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    towns = Towns("a", "b")
    bob = towns.present("b", "bob", hears="news")
    alice = towns.present("a", "alice")
    bob.types()
    guard = towns.town("b").room._taking.guard
    monkeypatch.setattr(guard, "_most", 0)
    before = guard.windows
    towns.say(alice, "news", "hello")
    assert contents(bob) == [b"hello"]
    assert guard.windows == before


def envelope_of(name: str, msg_type: MsgType, payload: bytes = b"", **fields: bytes) -> bytes:
    towns = Towns("x")
    signer = Distant(towns.town("x"), name)
    return encode(signer.seal(msg_type, payload, **fields))


@pytest.mark.parametrize(
    ("topic", "envelope", "fault"),
    [
        (BROADCAST_TOPIC, b"junk", "CborDecode"),
        (BROADCAST_TOPIC, bytes(70_000), "EnvelopeTooLarge"),
        (NOTARY_TOPIC, envelope_of("alice", MsgType.BOUNTY), "WrongRoute"),
        (BROADCAST_TOPIC, envelope_of("alice", MsgType.BROADCAST, text("x", "y")), "WrongRoute"),
        (BROADCAST_TOPIC, envelope_of("alice", MsgType.PROPOSE, to=bytes(31) + b"x"), "WrongRoute"),
        (NAMED_TOPIC + "x", envelope_of("alice", MsgType.BOUNTY), "WrongRoute"),
    ],
)
def test_what_is_no_envelope_of_the_topic_is_dropped(topic: str, envelope: bytes, fault: str) -> None:
    towns = Towns("a", "b")
    bob = towns.present("b", "bob", hears="x")
    inject(towns, "a", "b", TopicEnvelope(topic, envelope))
    assert towns.town("b").room.other_nodes.dropped == {fault: 1}
    assert bob.types() == []
    assert towns.clusters["b"].post.refused == 0, "what comes after it is read"


def test_envelopes_of_the_hall_itself_are_chat_only() -> None:
    towns = Towns("a", "b")
    bob = towns.present("b", "bob")
    hall = Distant(towns.town("a"), "hall", HALL_KEY)
    bounty = hall.seal(MsgType.BOUNTY, b"{}")
    inject(towns, "a", "b", TopicEnvelope(BROADCAST_TOPIC, encode(bounty)))
    assert bob.types() == []
    assert towns.town("b").room.other_nodes.dropped == {"WrongRoute": 1}


# -- channels --------------------------------------------------------------------------------------


def test_chat_of_the_mesh_is_heard_once_on_all_nodes_by_all_wires() -> None:
    towns = Towns("a", "b")
    carol = towns.agent("b", "carol", join="#general")
    alice = towns.present("a", "alice", hears="general")
    bob = towns.present("b", "bob", hears="general")
    towns.advance(2)
    towns.hush()
    sent = towns.say(alice, "general", "hello")
    assert_sent(carol, "MSG", content="hello", via="mesh")
    assert bob.envelopes() == [sent]
    towns.send(carol, "MSG", to="#general", content="hello back")
    assert contents(alice) == contents(bob) == [b"hello back"]


def test_a_text_without_its_secret_is_signed_by_each_node() -> None:
    towns = Towns("a", "b")
    carol = towns.agent("b", "carol", join="#general")
    alice = towns.present("a", "alice", hears="general")
    near, bob = towns.present("a", "near", hears="general"), towns.present("b", "bob", hears="general")
    towns.advance(2)
    towns.send(carol, "MSG", to="#general", content="from carol")
    towns.hush()
    towns.say(alice, "general", f"my key is {SECRET}")
    (here,), (there,) = near.envelopes(), bob.envelopes()
    assert here.sender == there.sender == HALL_KEY.public.raw
    assert here.payload == there.payload
    assert SECRET.encode() not in there.payload
    assert alice.types() == []


@pytest.mark.parametrize("home", ["a", "b", "c"])
def test_a_replay_at_a_node_that_did_not_hear_it_is_not_said_again(home: str) -> None:
    towns = Towns("a", "b", "c")
    dora = towns.agent(home, "dora", join="#general")
    carol = towns.agent("a", "carol", join="#general")
    alice = towns.present("a", "alice")
    bob = towns.present("c", "bob", hears="general")
    towns.advance(2)
    towns.hush()
    sent = towns.say(alice, "general", "hello")
    assert contents(bob) == [b"hello"]
    for agent in (carol, dora):
        assert_sent(agent, "AGENT_JOINED", name="alice")
        assert_sent(agent, "MSG", content="hello", via="mesh")
    thief = towns.town("b").connect_agent("alice")
    thief.beacon()  # as if it had been replayed, at a node that has no mesh agents
    towns.settle()
    towns.hush()
    towns.replays(thief, sent)
    towns.advance(1)
    for agent in (carol, dora):
        assert all(message["type"] != "MSG" for message in agent.read())
    assert contents(bob) == []
    if home == "b":
        assert [frame["type"] for frame in thief.texts()] == ["refused"]
    again = towns.say(alice, "general", "hello")
    assert bob.envelopes() == [again], "the same text in an envelope of its own"


def test_a_home_that_got_its_state_from_another_one_knows_what_was_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    towns = Towns("a", "b", "c")
    towns.agent("c", "carol", join="#general")
    alice = towns.present("a", "alice")
    sent = towns.say(alice, "general", "hello")
    bob = towns.agent("b", "bob", join="#general")
    homes = towns.clusters["a"].channels.homes
    monkeypatch.setattr(homes, "_claim", lambda *args: None)  # so b is the next home
    towns.kill("c")
    towns.advance(SILENCE_SECONDS + 3)
    assert homes.home_of("#general") == "b"
    thief = towns.town("b").connect_agent("alice")
    thief.beacon()  # as if it had been replayed
    towns.settle()
    towns.hush()
    towns.replays(thief, sent)
    assert all(message["type"] != "MSG" for message in bob.read())
    assert [frame["type"] for frame in thief.texts()] == ["refused"]


def test_a_line_that_members_were_told_before_was_said() -> None:
    """Its first record is lost, and the author's node has submitted it again."""
    towns = Towns("a", "b")
    towns.agent("a", "carol", join="#general")
    room = towns["a"].hall.channels.find("#general").log
    assert room is not None
    line = Chat("@a", "a", "#general", "hello", "1", False, None, None, None, ts=0, via="mesh", packet=b"one")
    assert not room.was_said(line)
    room.apply(
        events.encode([events.Said(codec.encode(line), "a", has_echo=True, by_agent=True)]), again=True
    )
    assert room.was_said(line)


def test_what_was_said_is_noted_for_a_while_and_as_far_as_it_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    def line(packet: bytes | None, via: str | None = "mesh") -> Chat:
        return Chat("@a", "a", "#x", "hello", "1", False, None, None, None, ts=0, via=via, packet=packet)

    noted = Originals()
    for other in (line(None), line(b"keep", "keep"), line(b"none", None)):
        noted.note(other, 0)
        assert not noted.has(other, 0)
    assert not len(noted)
    noted.note(line(b"one"), 0)
    assert noted.has(line(b"one"), originals.SECONDS)
    assert not noted.has(line(b"one"), originals.SECONDS + 1)
    assert not noted.has(line(b"two"), 0)
    noted.note(line(b"two"), originals.SECONDS + 1)
    assert len(noted) == 1, "the first is over"
    monkeypatch.setattr(originals, "MAX_NOTED", 2)
    for number in range(5):
        noted.note(line(bytes((number,))), originals.SECONDS + 2)
    assert len(noted) == 2
    assert noted.has(line(b"\x04"), originals.SECONDS + 2)


def test_envelopes_that_were_said_in_any_channel_are_forgotten() -> None:
    """An agent may say something in one channel after the other, and never come back to the first."""
    towns = Towns("a", "b")
    alice = towns.present("a", "alice")
    bob = towns.agent("b", "bob")
    for number in range(5):
        towns.send(bob, "CREATE_CHANNEL", channel=f"#{number}")
        towns.say(alice, str(number), "hello")
        towns.say(alice, str(number), "hello again")
        assert len(towns.clusters["b"].channels.originals) == 2
        towns.advance(originals.SECONDS + 1)


# -- the network of peers --------------------------------------------------------------------------


def test_one_node_has_the_network_for_all() -> None:
    towns = Towns("a", "b", "c")
    network = towns.network("a")
    near, far = towns.present("a", "near", hears="news"), towns.present("c", "far", hears="news")
    alice = towns.present("b", "alice")
    network.took()
    towns.hush()
    sent = towns.say(alice, "news", "hello")
    assert network.took() == [(NAMED_TOPIC + "news", sent)]
    assert near.envelopes() == far.envelopes() == [sent]
    beacon = alice.beacon()
    towns.settle()
    assert network.took() == [(BROADCAST_TOPIC, beacon)]
    towns.hush()
    peer, stranger = Peer(towns.town("a")), Distant(towns.town("a"), "stranger")
    for envelope in (stranger.beacon(), stranger.broadcast("news")):
        peer.brings(envelope)
        peer.brings(envelope)
        towns.settle()
        assert near.envelopes() == far.envelopes() == [envelope]
    assert network.took() == [], "it is never published there again"


def test_the_network_brings_topics_that_only_other_nodes_hear() -> None:
    towns = Towns("a", "b")
    network = towns.network("a")
    bob = towns.present("b", "bob", hears="news")
    assert network.watched == [NAMED_TOPIC + "news"]
    towns.subscribe(bob, "more")
    assert network.watched == [NAMED_TOPIC + "news", NAMED_TOPIC + "more"]
    bob.leave()
    towns.advance(1.5)
    assert network.watched == []


def test_channels_of_other_nodes_and_the_network_are_one_room() -> None:
    towns = Towns("a", "b", "c")
    network = towns.network("a")
    carol, dora = towns.agent("b", "carol", join="#general"), towns.agent("c", "dora", join="#general")
    towns.advance(5)
    assert network.watched == [NAMED_TOPIC + "general"]
    carol.read(), dora.read(), network.took()
    towns.send(carol, "MSG", to="#general", content="hello")
    assert_sent(dora, "MSG", content="hello")
    ((topic, envelope),) = network.took()
    assert topic == NAMED_TOPIC + "general"
    assert envelope.sender == HALL_KEY.public.raw
    assert Broadcast.decode(envelope.payload).content == b"hello"
    peer, stranger = Peer(towns.town("a")), Distant(towns.town("a"), "stranger")
    peer.brings(stranger.beacon())
    peer.brings(stranger.broadcast("general", "hello from afar"))
    towns.settle()
    for agent in (carol, dora):
        assert_sent(agent, "AGENT_JOINED", name="stranger")
        assert_sent(agent, "MSG", content="hello from afar", via="mesh")
    assert network.took() == []


def test_the_network_may_be_opened_after_the_nodes_have_met() -> None:
    towns = Towns("a", "b")
    alice = towns.present("b", "alice")
    network = towns.network("a")
    sent = towns.say(alice, "news", "hello")
    assert network.took() == [(NAMED_TOPIC + "news", sent)]


def test_a_node_with_many_topics_may_have_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "MAX_NAMED", 2)
    towns = Towns("a", "b")
    towns.present("a", "alice")
    towns.settle()
    assert not towns.clusters["b"].topics.bridges
    towns.network("a")
    assert towns.clusters["b"].topics.bridges == {"a"}


# -- when something fails --------------------------------------------------------------------------


def test_while_the_bus_is_down_each_node_goes_on_and_healing_brings_no_doubles() -> None:
    towns = Towns("a", "b")
    alice, near = towns.present("a", "alice"), towns.present("a", "near", hears="news")
    far = towns.present("b", "far", hears="news")
    towns.cut("a", "b")
    towns.say(alice, "news", "one")
    assert contents(near) == [b"one"]
    assert contents(far) == []
    late = towns.town("b").connect_agent("late")
    late.beacon()
    towns.subscribe(late, "late")
    towns.advance(5)
    towns.heal("a", "b")
    towns.advance(5)
    assert contents(near) == contents(far) == []
    towns.say(alice, "news", "two")
    towns.say(alice, "late", "three")
    assert contents(near) == contents(far) == [b"two"]
    assert contents(late) == [b"three"]


def test_a_node_of_the_version_before_gets_nothing_and_says_nothing() -> None:
    """It tells of no topics, and skips what it does not know."""
    towns = Towns("a", "b")
    alice = towns.present("a", "alice")
    cluster = towns.clusters["b"]
    for kind in (TopicsHeard, TopicsChanged, TopicEnvelope):
        del cluster.post._kinds._decoders[kind.KIND]
    towns.subscribe(alice, "news")
    packet = next(packets(towns.clusters["a"].post.origin, [TopicEnvelope(BROADCAST_TOPIC, b"")]))
    for subject in (EVERY_NODE, node_subject("b")):
        towns.broker.deliver("a", subject, packet)
    towns.settle()
    assert cluster.post.refused == 0


STORIES = st.lists(
    st.tuples(
        st.sampled_from(["say", "say", "say", "hear", "unhear", "turn", "step", "time", "beacon", "replay"]),
        st.integers(0, 5),
        st.integers(0, 2),
    ),
    max_size=40,
)
TOPICS = ("red", "green", "blue")


@settings(max_examples=60, deadline=None)
@given(STORIES, st.integers(0, 1000), st.booleans())
def test_each_subscriber_sees_each_envelope_once_and_in_order(
    story: list[tuple[str, int, int]], seed: int, has_network: bool
) -> None:
    """An agent that subscribed before, and was heard of, sees all that others say until it unsubscribes."""
    towns = Towns("a", "b", "c", random=Random(seed))  # noqa: S311
    network = towns.network("b") if has_network else None
    agents = [towns.present(node, f"{node}{number}") for node in "abc" for number in range(2)]
    for agent in agents:
        agent.types()
    settled: dict[Agent, set[str]] = {agent: set() for agent in agents}  # topics that all nodes know of
    hears: dict[Agent, set[str]] = {agent: set() for agent in agents}
    said: list[tuple[Agent, str, bytes, set[Agent]]] = []  # with those who must see it
    sent: list[tuple[Agent, Envelope]] = []
    replayed: set[bytes] = set()  # contents: a node that had none to hear them takes them late, and once
    seen: dict[Agent, list[bytes]] = {agent: [] for agent in agents}

    def look() -> None:
        for agent in agents:
            seen[agent] += [content for content in contents(agent) if content is not None]

    def settle() -> None:
        towns.settle()
        for agent in agents:
            settled[agent] = set(hears[agent])
        look()

    for number, (what, one, other) in enumerate(story):
        agent, topic = agents[one], TOPICS[other]
        if what == "say":
            content = f"{number}".encode()
            hears[agent].add(topic)
            envelope = agent.send(MsgType.BROADCAST, text(topic, content.decode()))
            must = {each for each in agents if topic in settled[each] & hears[each] and each is not agent}
            sent.append((agent, envelope))
            said.append((agent, topic, content, must))
        elif what == "hear":
            hears[agent].add(topic)
            agent.tell(type="subscribe", topic=topic)
        elif what == "unhear":
            settle()
            hears[agent].discard(topic)
            settled[agent].discard(topic)
            agent.tell(type="unsubscribe", topic=topic)
        elif what == "turn":
            towns.end_turn()
        elif what == "step":
            towns.broker.step()
        elif what == "time":
            settle()
            towns.advance(0.6)
        elif what == "beacon":
            agent.beacon()
        elif sent:
            settle()
            author, envelope = sent[other % len(sent)]
            replayed.add(Broadcast.decode(envelope.payload).content or b"")
            thief = towns.town("abc"[one % 3]).connect_agent("thief", key=author.key)
            thief.post(encode(envelope))
            towns.settle()
            thief.leave()
        look()
    settle()
    for agent in agents:
        assert len(seen[agent]) == len(set(seen[agent])), "none comes twice"
        for author in agents:
            own = [content for who, _, content, _ in said if who is author and content not in replayed]
            got = [content for content in seen[agent] if content in own]
            assert got == [content for content in own if content in got], "in the order of sending"
    for _, topic, content, must in said:
        for each in must:
            assert content in seen[each], (topic, content)
    if network is not None:
        raws = [raw for _, raw in network.published if decode(raw).msg_type is MsgType.BROADCAST]
        assert len(raws) == len(set(raws)) == len(said)
