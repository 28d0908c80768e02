"""Keep agents of several nodes: identities, packets as they were signed, and `discover:`, `nearest:` and `swarm:`
over all."""

import json
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moothall.identity import PrivateKey
from moothall.settings.limits import Rate
from moothall.wire.keep.packet import Packet
from tests.hall.keep.town import FakePeer
from tests.hall.mesh.square import FakeCaller, Square
from tests.support.cluster import Halls
from tests.support.keep import ALICE, BOB, CAROL, Signer
from tests.support.world import Guest, World, assert_sent

FREE = Rate(0, 1)
SECRET = "AKIAIOSFODNN7EXAMPLE"


class Towns(Halls):
    def make(self, name: str) -> World:
        dice = Random(f"{name} {self.random.random()}")  # noqa: S311
        return Square(books=self.books, clock=self.clock, dice=dice, **self._settings)

    def town(self, name: str) -> Square:
        town = self[name]
        assert isinstance(town, Square)
        return town

    def peer(self, node: str, src: str, signer: Signer = ALICE, join: str = "") -> FakePeer:
        """A connection with this identity. It has spoken in this channel, and read all that there was for it."""
        peer = self.town(node).peer(src, signer)
        self.settle()
        if join:
            self.post(node, peer, src, join, "here I am", signer)
        peer.read()
        return peer

    def caller(self, node: str, key: PrivateKey, name: str, *topics: str) -> FakeCaller:
        caller = self.town(node).caller(key, name, *topics)
        self.settle()
        caller.read()
        return caller

    def post(
        self, node: str, peer: FakePeer, src: str, dst: str, body: str, signer: Signer = ALICE
    ) -> Packet:
        sent = self.town(node).post(peer, src, dst, body, signer)
        self.settle()
        return sent

    def discovered(self, node: str, peer: FakePeer, src: str) -> list[str]:
        answer = json.loads(self.town(node).ask(peer, src, "discover:agents"))
        names: list[str] = answer["agents"]
        return names


def test_a_packet_gets_to_an_identity_of_another_node() -> None:
    towns = Towns("a", "b")
    alice, bob = towns.peer("a", "bot:alice"), towns.peer("b", "bot:bob", BOB)
    sent = towns.town("a").post(alice, "bot:alice", "bot:bob", "hello")
    towns.settle()
    assert bob.only() == sent
    assert alice.read() == []
    towns.cut("a")
    assert towns.town("a").ask(alice, "bot:alice", "bot:bob", "lost") == "error:delivery_failed"
    towns.advance(5)
    towns.heal("a")
    towns.advance(3)
    towns.town("a").post(alice, "bot:alice", "bot:bob", "again")
    towns.settle()
    assert bob.only().body == "again"


def test_all_nodes_list_all_agents() -> None:
    towns = Towns("a", "b")
    alice = towns.peer("a", "bot:alice")
    bob = towns.peer("b", "bot:bob", BOB)
    carol = towns.agent("b", "carol")
    expected = sorted(["bot:alice", "bot:bob", f"agent:{carol.id[1:]}"])
    assert towns.discovered("a", alice, "bot:alice") == expected
    towns.town("b").room.leave(bob)
    towns.disconnect(carol)
    assert towns.discovered("a", alice, "bot:alice") == ["bot:alice"]
    assert towns.town("a").ask(alice, "bot:alice", "bot:bob") == "error:offline"


def test_an_identity_is_at_the_node_that_had_it_last() -> None:
    towns = Towns("a", "b")
    old = towns.peer("a", "bot:alice")
    new = towns.peer("b", "bot:alice")
    assert old.closed
    assert not new.closed
    bob = towns.peer("a", "bot:bob", BOB)
    towns.town("a").post(bob, "bot:bob", "bot:alice", "where are you")
    towns.settle()
    assert new.only().body == "where are you"
    assert towns.discovered("a", bob, "bot:bob") == ["bot:alice", "bot:bob"]
    assert towns.discovered("b", new, "bot:alice") == ["bot:alice", "bot:bob"]


def test_an_identity_as_long_as_a_packet_costs_other_nodes_no_more_than_others() -> None:
    """They are told of it with each list of agents, and with the members of each channel."""
    towns = Towns("a", "b")
    published = []
    bus = towns.clusters["a"].bus
    publish = bus.publish

    def count(subject: str, payload: bytes) -> None:
        published.append(len(payload))
        publish(subject, payload)

    bus.publish = count  # type: ignore[method-assign]
    identity = "bot:" + "x" * 60_000
    alice = towns.peer("a", identity)
    assert 0 < sum(published) < 1000
    bob = towns.peer("b", "bot:bob", BOB)
    assert towns.town("b").ask(bob, "bot:bob", identity) == "error:offline"
    (agent_id,) = (agent.id for agent in towns["b"].hall.roster.agents.values() if agent.node == "a")
    towns.post("b", bob, "bot:bob", f"agent:{agent_id}", "under its id", BOB)
    assert alice.only().body == "under its id"


def test_the_nearest_agent_may_be_on_another_node() -> None:
    towns = Towns("a", "b")
    alice = towns.peer("a", "bot:alice")
    bob = towns.peer("b", "bot:bob", BOB)
    dora = towns.agent("b", "dora")
    towns.town("a").post(alice, "bot:alice", "nearest:bob", "are you there")
    towns.advance(1)
    towns.town("a").post(alice, "bot:alice", "nearest:dora", "and you")
    towns.settle()
    assert bob.only().body == "are you there"
    assert_sent(dora, "MSG", content="and you", via="keep")
    towns.cut("a")
    towns.advance(1)
    assert towns.town("a").ask(alice, "bot:alice", "nearest:dora", "lost") == "error:delivery_failed"


def test_a_node_that_comes_late_lists_all_agents() -> None:
    towns = Towns("a")
    towns.peer("a", "bot:alice")
    towns.start("b")
    towns.settle()
    towns.advance(1)
    bob = towns.peer("b", "bot:bob", BOB)
    assert towns.discovered("b", bob, "bot:bob") == ["bot:alice", "bot:bob"]
    towns.kill("a")
    towns.advance(5)
    assert towns.discovered("b", bob, "bot:bob") == ["bot:bob"]


# -- swarm: agents by skill and name, and the members of a channel -------------------------------------


def told(guest: Guest) -> list[str]:
    """The texts that the agent got as direct messages."""
    return [
        message["content"]
        for message in guest.read()
        if message["type"] == "MSG" and message["to"] == guest.id
    ]


def bodies(peer: FakePeer) -> list[str]:
    return [packet.body for packet in peer.read()]


def spoken(caller: FakeCaller) -> list[bytes | None]:
    return [message.content for message in caller.read()]


@pytest.mark.parametrize("sender", ["a", "b", "c", "d"])
def test_a_swarm_reaches_the_members_of_its_channel_on_all_nodes(sender: str) -> None:
    """The home is b, c follows it, and a and d know nothing of the channel."""
    towns = Towns("a", "b", "c", "d", rate_message=FREE)
    carol = towns.agent("b", "carol", join="#general")
    bob = towns.peer("c", "bot:bob", BOB, join="#general")
    near, far = (
        towns.caller(node, PrivateKey(bytes([number]) * 32), node, "general")
        for number, node in enumerate("bc", 1)
    )
    stranger = towns.agent("d", "stranger")
    alice = towns.peer(sender, "bot:alice")
    towns.advance(1)
    towns.hush()
    sent = towns.post(sender, alice, "bot:alice", "swarm:general", "all hands")
    assert bob.only() == sent
    message = assert_sent(carol, "MSG", content="all hands", to=carol.id, via="keep")
    assert message["packet"]
    for caller in (near, far):
        (said,) = caller.read()
        assert (said.topic, said.content) == ("general", b"all hands")
    assert told(carol) == told(stranger) == []
    assert alice.read() == []
    for world in towns:
        assert "all hands" not in [line.content for line in world.hall.channels.find("#general").buffer]


class Member(NamedTuple):
    node: str
    wire: str
    is_named: bool
    is_member: bool


nodes = st.sampled_from("abc")
everybody = st.lists(
    st.builds(Member, nodes, st.sampled_from(("websocket", "keep", "mesh")), st.booleans(), st.booleans()),
    max_size=7,
)


@settings(max_examples=60, deadline=None)
@given(everybody, nodes, st.booleans(), st.integers(0, 1000))
def test_a_swarm_reaches_each_agent_once_wherever_it_is(
    agents: list[Member], node: str, is_member: bool, seed: int
) -> None:
    towns = Towns("a", "b", "c", random=Random(seed), rate_message=FREE, no_limits=True)  # noqa: S311
    alice = towns.peer(node, "bot:alice", join="#general" if is_member else "")
    expected = []
    found: list[Guest | FakePeer | FakeCaller] = []
    for number, agent in enumerate(agents, 1):
        seed_of_key, name = bytes([number]) * 32, "general" if agent.is_named else f"name{number}"
        channel = "#general" if agent.is_member else ""
        if agent.wire == "websocket":
            join = [channel] if channel else []
            found.append(towns.agent(agent.node, name, join=join))
        elif agent.wire == "keep":
            found.append(towns.peer(agent.node, f"{number}:{name}", Signer(seed_of_key), join=channel))
        else:
            topics = ["general"] if channel else []
            found.append(towns.caller(agent.node, PrivateKey(seed_of_key), name, *topics))
        expected.append(agent.is_member or (agent.is_named and agent.wire != "mesh"))
    towns.advance(1)
    towns.hush()
    alice.read()
    for each in found:
        if not isinstance(each, Guest):
            each.read()
    towns.post(node, alice, "bot:alice", "swarm:general", "all hands")
    got = [len(told(each)) if isinstance(each, Guest) else len(each.read()) for each in found]
    assert got == expected
    answers = bodies(alice)
    assert len(answers) == (not any(expected))
    assert all(answer.startswith("error:") for answer in answers)


def test_identities_of_one_connection_get_a_swarm_of_another_node_once() -> None:
    """One is found by its name, the others are members."""
    towns = Towns("a", "b", rate_message=FREE)
    alice = towns.peer("a", "bot:alice")
    many = towns.peer("b", "bot:general", BOB)
    for identity in ("bot:first", "bot:second"):
        towns.post("b", many, identity, "#general", "here I am", BOB)
    towns.advance(1)
    many.read()
    towns.post("a", alice, "bot:alice", "swarm:general", "all hands")
    assert bodies(many) == ["all hands"]


@pytest.mark.parametrize("follows", [True, False])
def test_members_on_other_nodes_are_paid_for(follows: bool) -> None:
    """A swarm to five members costs as much as one to five members on the node of the sender."""
    for home in ("a", "b"):
        towns = Towns("a", "b", budget_told=Rate(12, 10), rate_message=FREE, no_limits=False)
        for number in range(5):
            towns.agent(home, f"agent{number}", join="#general")
        if follows:
            towns.agent("a", "follower", join="#general")
        towns.advance(10)
        alice = FakePeer()
        alice.meter = towns.town("a").hall.budgets.meter(alice.ip, is_loopback=False)
        for number in range(2):
            towns.post("a", alice, "bot:alice", "swarm:general", f"{number}")
        assert bodies(alice) == []
        towns.post("a", alice, "bot:alice", "swarm:general", "too much")
        assert bodies(alice) == ["error:rate_limited"]


def test_members_that_left_are_not_paid_for() -> None:
    towns = Towns("a", "b", budget_told=Rate(3, 10))
    guests = [towns.agent("b", "agent", join="#general") for _ in range(5)]
    for guest in guests:
        towns.send(guest, "LEAVE", channel="#general")
    towns.advance(1)
    alice = FakePeer()
    alice.meter = towns.town("a").hall.budgets.meter(alice.ip, is_loopback=False)
    towns.post("a", alice, "bot:alice", "swarm:general", "is there anybody")
    assert bodies(alice) == ["error:offline"]


@pytest.mark.parametrize("home", ["a", "b"])
def test_without_the_bus_members_of_the_same_node_get_a_swarm(home: str) -> None:
    towns = Towns("a", "b", rate_message=FREE)
    member = {node: towns.agent(node, node, join="#general") for node in sorted("ab", key=home.__ne__)}
    alice = towns.peer("a", "bot:alice")
    towns.hush()
    towns.cut("a")
    towns.post("a", alice, "bot:alice", "swarm:general", "at once")
    towns.advance(3)
    towns.post("a", alice, "bot:alice", "swarm:general", "alone")
    towns.heal("a")
    towns.advance(5)
    assert told(member["a"]) == ["at once", "alone"]
    assert told(member["b"]) == []
    assert alice.read() == []


def test_without_the_bus_a_swarm_to_other_nodes_fails() -> None:
    towns = Towns("a", "b", rate_message=FREE)
    bob = towns.peer("b", "bot:bob", BOB, join="#general")
    alice = towns.peer("a", "bot:alice")
    towns.advance(1)
    towns.cut("a")
    towns.post("a", alice, "bot:alice", "swarm:general", "lost")
    assert bodies(alice) == ["error:delivery_failed"]
    towns.heal("a")
    towns.advance(5)
    towns.post("a", alice, "bot:alice", "swarm:general", "again")
    assert bodies(bob) == ["again"]
    assert alice.read() == []


def test_a_swarm_that_is_lost_on_its_way_is_sent_again() -> None:
    towns = Towns("a", "b", "c", rate_message=FREE)
    carol = towns.agent("b", "carol", join="#general")
    bob = towns.peer("c", "bot:bob", BOB, join="#general")
    alice = towns.peer("a", "bot:alice")
    towns.advance(1)
    towns.hush()
    towns.broker.losing = {("a", "b"), ("b", "c")}
    towns.post("a", alice, "bot:alice", "swarm:general", "all hands")
    towns.broker.losing = {("b", "a"), ("b", "c")}
    towns.advance(1.5)
    towns.broker.losing.clear()
    towns.advance(3)
    assert told(carol) == bodies(bob) == ["all hands"]


def test_a_swarm_outlives_the_home_of_its_channel() -> None:
    towns = Towns("a", "b", "c", rate_message=FREE)
    towns.agent("b", "carol", join="#general")
    bob = towns.peer("c", "bot:bob", BOB, join="#general")
    alice = towns.peer("a", "bot:alice")
    towns.advance(1)
    towns.kill("b")
    towns.post("a", alice, "bot:alice", "swarm:general", "all hands")
    towns.advance(8)
    assert bodies(bob) == ["all hands"]
    assert alice.read() == []


def test_a_rate_of_messages_does_not_keep_a_swarm_from_keep_agents_of_other_nodes() -> None:
    towns = Towns("a", "b", rate_message=Rate(1, 60))
    carol = towns.agent("b", "carol", join="#general")
    bob = towns.peer("b", "bot:bob", BOB, join="#general")
    near = towns.peer("a", "bot:near", CAROL, join="#general")
    alice = towns.peer("a", "bot:alice")
    towns.advance(1)
    towns.hush()
    bob.read()
    for number in range(2):
        towns.post("a", alice, "bot:alice", "swarm:general", f"{number}")
    assert bodies(bob) == bodies(near) == ["0", "1"]
    assert told(carol) == ["0"]
    assert alice.read() == []


def test_a_node_that_does_not_follow_the_channel_says_what_kept_a_swarm_back() -> None:
    towns = Towns("a", "b", rate_message=Rate(1, 60))
    bob = towns.peer("b", "bot:bob", BOB, join="#general")
    alice = towns.peer("a", "bot:alice")
    towns.advance(1)
    for number in range(2):
        towns.post("a", alice, "bot:alice", "swarm:general", f"{number}")
    assert bodies(bob) == ["0"]
    assert bodies(alice) == ["error:rate_limited"]


def test_secrets_are_taken_out_of_a_swarm_for_other_nodes() -> None:
    """Keep agents get the packet as it was signed."""
    towns = Towns("a", "b", rate_message=FREE)
    carol = towns.agent("b", "carol", join="#general")
    bob = towns.peer("b", "bot:bob", BOB, join="#general")
    alice = towns.peer("a", "bot:alice")
    towns.advance(1)
    towns.hush()
    sent = towns.post("a", alice, "bot:alice", "swarm:general", f"key {SECRET}")
    assert bob.only() == sent
    message = assert_sent(carol, "MSG")
    assert SECRET not in message["content"]
    assert "packet" not in message


def test_private_channels_have_no_swarm_on_any_node() -> None:
    towns = Towns("a", "b", rate_message=FREE)
    carol = towns.agent("b", "carol")
    towns.send(carol, "CREATE_CHANNEL", channel="#den", invite_only=True)
    alice = towns.peer("a", "bot:alice")
    towns.advance(1)
    towns.hush()
    towns.post("a", alice, "bot:alice", "swarm:den", "let me in")
    assert bodies(alice) == ["error:offline"]
    assert told(carol) == []


def test_a_swarm_to_members_of_one_node_costs_the_bus_nothing() -> None:
    towns = Towns("a", "b", rate_message=FREE, no_limits=True)
    carol = towns.agent("a", "carol", join="#general")
    alice = towns.peer("a", "bot:alice")
    before = towns.broker.published
    towns.post("a", alice, "bot:alice", "swarm:general", "all hands")
    assert told(carol) == ["all hands"]
    assert towns.broker.published == before
