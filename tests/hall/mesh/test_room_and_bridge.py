"""The room of the mesh with the hall behind it: one way from an envelope to a line, and back."""

from base64 import b64decode

import pytest

from moothall.hall.gate import Gate
from moothall.hall.mesh.bridge import Bridge
from moothall.hall.mesh.own_envelopes import OwnEnvelopes
from moothall.hall.mesh.presence import Presence
from moothall.settings.limits import Rate
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.envelope import encode
from moothall.wire.mesh.msg_types import NAMED_TOPIC, MsgType
from tests.hall.mesh.peers import Distant, FakeNetwork, Peer
from tests.hall.mesh.town import Town
from tests.support.world import ADMIN_KEY, HALL_KEY, assert_sent, assert_silent


class BridgedTown(Town):
    def _presence(self, own: OwnEnvelopes) -> Presence:
        return Bridge(Gate(self.hall), own)


@pytest.fixture
def town() -> BridgedTown:
    return BridgedTown(rate_message=Rate(0, 1), admin_key=ADMIN_KEY)


def text(topic: str, content: str) -> bytes:
    return Broadcast(topic=topic, title="", content=content.encode()).encode()


def test_a_text_is_said_in_the_channel_and_published_on_the_topic(town: BridgedTown) -> None:
    carol = town.agent("carol", join="#general")
    alice, bob, stranger = town.present("alice"), town.present("bob"), town.connect_agent("stranger")
    for listener in (bob, stranger):
        listener.ask(type="subscribe", topic="general")
    carol.read()
    alice.types()
    sent = alice.send(MsgType.BROADCAST, text("general", "hello"))
    assert_sent(carol, "AGENT_JOINED", name="alice")
    line = assert_sent(carol, "MSG", content="hello", via="mesh")
    assert b64decode(line["packet"]) == encode(sent)
    assert bob.envelopes() == stranger.envelopes() == [sent]
    assert alice.envelopes() == []
    assert town.dealings.recorded == [], "chat is never in the log"
    town.say(carol, "#general", "hello back")
    for listener in (alice, bob):
        (heard,) = listener.envelopes()
        assert heard.sender == HALL_KEY.public.raw
        assert Broadcast.decode(heard.payload).content == b"hello back"
    assert stranger.envelopes() == [], "the hall's channels are for agents"


def test_what_the_mesh_keeps_to_itself_is_logged(town: BridgedTown) -> None:
    carol = town.agent("carol", join="#general")
    alice = town.present("alice")
    carol.read()
    data = Broadcast(topic="general", title="", format="data", content=b"x").encode()
    sent = [alice.send(MsgType.BROADCAST, each) for each in (data, text("elsewhere", "hello"))]
    assert town.dealings.recorded == sent
    assert_sent(carol, "AGENT_JOINED", name="alice")
    assert_silent(carol)


def test_a_refused_text_is_published_nowhere(town: BridgedTown) -> None:
    carol = town.agent("carol", join="#general")
    alice, bob = town.present("alice"), town.present("bob")
    for agent in (alice, bob):
        agent.ask(type="subscribe", topic="general")
    carol.read()
    alice.send(MsgType.BROADCAST, text("general", "x" * 5000))
    (refused,) = alice.texts()
    assert (refused["type"], refused["fault"]) == ("refused", "INVALID_MSG")
    assert bob.envelopes() == []
    assert_silent(carol)


def test_a_kick_ends_all_connections_of_the_key(town: BridgedTown) -> None:
    admin = town.agent("admin")
    alice, again = town.present("alice", proven=True), town.present("alice", proven=True)
    agent_id = alice.key.public.agent_id(8)
    assert town.hall.roster.agents[agent_id].verified
    town.send(admin, "ADMIN_KICK", admin_key=ADMIN_KEY, agent_id=f"@{agent_id}")
    assert alice.link.closed is not None
    assert again.link.closed is not None
    assert not town.room.guests
    assert town.hall.roster.get(agent_id) is None
    town.present("alice")
    assert town.hall.roster.agents[agent_id].via == "mesh"


def test_a_banned_key_stays_out_whatever_it_sends(town: BridgedTown) -> None:
    admin = town.agent("admin")
    alice = town.present("alice")
    agent_id = alice.key.public.agent_id(8)
    town.send(admin, "ADMIN_BAN", admin_key=ADMIN_KEY, agent_id=f"@{agent_id}")
    again = town.connect_agent("alice")
    again.beacon()
    (refused,) = again.texts()
    assert refused["fault"] == "BANNED"
    assert town.hall.roster.get(agent_id) is None


def test_a_proof_without_a_beacon_is_no_presence(town: BridgedTown) -> None:
    alice = town.connect_agent("alice")
    alice.prove()
    assert len(town.hall.roster) == 0
    alice.beacon()
    (agent,) = town.hall.roster.everyone()
    assert agent.verified
    alice.leave()
    assert len(town.hall.roster) == 0


# -- with a network of peers -----------------------------------------------------------------------------


@pytest.fixture
def wide() -> tuple[BridgedTown, FakeNetwork]:
    town = BridgedTown(rate_message=Rate(0, 1), admin_key=ADMIN_KEY)
    town.room.network = network = FakeNetwork()
    return town, network


Wide = tuple[BridgedTown, FakeNetwork]


def test_a_line_of_a_channel_is_signed_once_for_all(wide: Wide) -> None:
    town, network = wide
    carol = town.agent("carol", join="#general")
    alice, bob = town.present("alice"), town.present("bob")
    for listener in (alice, bob):
        listener.ask(type="subscribe", topic="general")
    network.took(), alice.types(), bob.types()
    town.say(carol, "#general", "hello")
    (topic, line), *others = network.took()
    assert (topic, others) == (NAMED_TOPIC + "general", [])
    assert line.sender == HALL_KEY.public.raw
    assert Broadcast.decode(line.payload).content == b"hello"
    assert alice.envelopes() == bob.envelopes() == [line]


def test_lines_go_to_the_network_from_public_channels_with_a_member(wide: Wide) -> None:
    town, network = wide
    carol = town.agent("carol")
    town.send(carol, "CREATE_CHANNEL", channel="#secret", invite_only=True)
    town.send(carol, "CREATE_CHANNEL", channel="#open")
    assert network.watched == [NAMED_TOPIC + "open"]
    town.say(carol, "#secret", "psst")
    assert network.took() == []
    town.send(carol, "LEAVE", channel="#open")
    assert network.watched == []
    town.send(carol, "JOIN", channel="#open")
    assert network.watched == [NAMED_TOPIC + "open"]
    town.say(carol, "#open", "hello")
    assert len(network.took()) == 1


def test_a_channel_that_had_members_before_is_heard_too() -> None:
    town, network = BridgedTown(rate_message=Rate(0, 1)), FakeNetwork()
    carol = town.agent("carol", join="#general")
    town.room.network = network
    assert network.watched == [NAMED_TOPIC + "general"]
    town.say(carol, "#general", "hello")
    assert len(network.took()) == 1


def test_a_text_from_the_network_is_said_in_the_channel(wide: Wide) -> None:
    town, network = wide
    carol = town.agent("carol", join="#general")
    bob = town.present("bob")
    bob.ask(type="subscribe", topic="general")
    peer, dora = Peer(town), Distant(town, "dora")
    peer.brings(dora.beacon())
    carol.read(), bob.types(), network.took()
    sent = dora.broadcast("general", "from afar")
    peer.brings(sent)
    assert_sent(carol, "AGENT_JOINED", name="dora")
    line = assert_sent(carol, "MSG", content="from afar", via="mesh", from_name="dora")
    assert b64decode(line["packet"]) == encode(sent)
    assert bob.envelopes() == [sent]
    assert network.took() == [], "it came from there"
    assert town.dealings.recorded == []
    town.advance(90)
    assert_sent(carol, "AGENT_LEFT")


def test_a_ban_counts_for_agents_of_the_network(wide: Wide) -> None:
    town, network = wide
    carol = town.agent("carol", join="#general")
    peer, dora = Peer(town), Distant(town, "dora")
    peer.brings(dora.beacon())
    peer.brings(dora.broadcast("general", "spam"))
    assert_sent(carol, "AGENT_JOINED", name="dora")
    dora_id = assert_sent(carol, "MSG", content="spam")["from"]
    town.send(carol, "ADMIN_BAN", admin_key=ADMIN_KEY, agent_id=dora_id)
    assert town.room.border.abroad.speakers == 0
    carol.read()
    peer.brings(dora.broadcast("general", "more spam"))
    assert_silent(carol)
    assert town.room.border.dropped["BANNED"] == 1
    assert network.took() == []


def test_a_secret_does_not_go_to_the_network(wide: Wide) -> None:
    town, network = wide
    town.agent("carol", join="#general")
    alice = town.present("alice")
    network.took()
    alice.send(MsgType.BROADCAST, text("general", "my key is AKIAIOSFODNN7EXAMPLE"))
    ((_, published),) = network.took()
    assert published.sender == HALL_KEY.public.raw
    assert b"AKIAIOSFODNN7EXAMPLE" not in published.payload
