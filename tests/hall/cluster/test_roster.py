"""One roster on all nodes: arrivals, changes and departures, lost messages, nodes that come late or die."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from moothall.hall.cluster import roster
from moothall.hall.cluster.remote import AgentRecord
from moothall.hall.cluster.remote_agent import RemoteAgent
from moothall.hall.cluster.roster import HAS_LEFT, LISTED, MAX_AGENTS, AgentList, AgentPresent
from moothall.hall.session import Agent
from moothall.identity import PrivateKey
from moothall.settings.limits import Rate
from moothall.wire.bus import EVERY_NODE
from tests.identity.vectors import ALICE
from tests.support.cluster import Halls
from tests.support.world import World, assert_refused, assert_sent, assert_silent


def seen(world: World) -> dict[str, tuple[object, ...]]:
    """What this node knows of all agents of the hall."""
    return {
        agent.id: (
            agent.name,
            agent.key,
            agent.kind,
            agent.presence,
            agent.status_text,
            agent.budget,
            agent.verified,
            agent.takes_receipts,
            agent.session.ip,
            agent.session.counted,
        )
        for agent in world.hall.roster.everyone()
    }


def assert_one_roster(halls: Halls) -> None:
    views = [seen(world) for world in halls]
    assert all(view == views[0] for view in views)
    for name, world in halls.worlds.items():
        for agent in world.hall.roster.everyone():
            assert agent.session.is_remote == isinstance(agent, RemoteAgent)
            assert isinstance(agent, RemoteAgent) or agent.session in world.hall.sessions
            if isinstance(agent, RemoteAgent):
                assert agent.node != name
                assert agent.session.agent is agent


def test_all_nodes_know_all_agents() -> None:
    halls = Halls("a", "b", "c")
    alice = halls.agent("a", "alice", key=ALICE, kind="human", ip="198.51.100.7")
    halls.agent("b", "bob", features=["receipts"], is_loopback=True)
    carol = halls.agent("c", "carol")
    assert_one_roster(halls)
    halls.send(carol, "LIST_AGENTS")
    listed = assert_sent(carol, "AGENTS")["list"]
    assert sorted(entry["name"] for entry in listed) == ["alice", "bob", "carol"]
    there = halls["b"].hall.roster.agents[alice.id[1:]]
    assert (there.node, there.kind, there.session.ip) == ("a", "human", "198.51.100.7")
    assert halls["b"].hall.roster.holder(ALICE.public.raw) is there
    assert list(halls["b"].hall.roster.named("ALICE")) == [there]


def test_changes_are_told() -> None:
    halls = Halls("a", "b")
    alice = halls.agent("a", "alice", key=ALICE)
    halls.send(alice, "SET_NICK", nick="alicia")
    halls.send(alice, "SET_PRESENCE", status="busy", status_text="thinking")
    halls.send(alice, "SET_PRESENCE", budget={"limit": 100, "spent": 7, "session": "s"})
    assert_one_roster(halls)
    there = halls["b"].hall.roster.agents[alice.id[1:]]
    assert (there.name, there.presence, there.status_text) == ("alicia", "busy", "thinking")
    assert there.budget is not None
    assert there.budget.spent == 7
    assert list(halls["b"].hall.roster.named("alicia")) == [there]
    assert not halls["b"].hall.roster.named("alice")


def test_departures_are_told() -> None:
    halls = Halls("a", "b")
    alice = halls.agent("a", "alice", key=ALICE)
    halls.disconnect(alice)
    assert_one_roster(halls)
    assert not len(halls["b"].hall.roster)
    again = halls.agent("a", "alice", key=ALICE)
    assert_one_roster(halls)
    assert halls["b"].hall.roster.agents[again.id[1:]].node == "a"


def test_a_node_that_comes_late_hears_of_all() -> None:
    halls = Halls("a")
    for number in range(LISTED + 3):
        halls["a"].agent(f"agent{number}", ip=f"10.0.{number // 250}.{number % 250}")
    halls.start("b")
    halls.settle()
    assert_one_roster(halls)
    assert len(halls["b"].hall.roster) == LISTED + 3


@pytest.mark.parametrize("seed", range(10))
def test_a_node_that_joins_waits_for_no_clock(seed: int) -> None:
    """Whichever of the nodes knows the other one first."""
    halls = Halls("a", "b", "c", random=Random(seed))  # noqa: S311
    assert all(cluster.roster.is_whole for cluster in halls.clusters.values())
    halls.agent("a", "alice")
    ready: list[bool] = []
    halls.start("d")
    halls.clusters["d"]._ready = lambda: ready.append(True)
    halls.settle()
    assert ready == [True]
    assert_one_roster(halls)


@pytest.mark.parametrize("seed", range(5))
def test_lists_of_other_nodes_are_asked_for_one_after_the_other(seed: int) -> None:
    """Those of a large hall are more than the bus takes at once."""
    halls = Halls("a", "b", "c", random=Random(seed))  # noqa: S311
    for node in "abc":
        halls.agent(node, node)
    halls.start("d")
    roster = halls.clusters["d"].roster
    while halls.broker.step() or halls.end_turn():
        awaited = [view for view in roster._views.values() if view.is_awaited(halls.clock.monotonic())]
        assert len(awaited) <= 1
    assert_one_roster(halls)


@pytest.mark.parametrize("seed", range(5))
def test_a_node_that_does_not_answer_holds_up_no_other_list(seed: int) -> None:
    halls = Halls("a", "b", "c", random=Random(seed))  # noqa: S311
    for node in "abc":
        halls.agent(node, node)
    halls.broker.held.add("a")
    halls.start("d")
    halls.settle()
    halls.advance(3)
    assert {name for name, *_ in seen(halls["d"]).values()} == {"b", "c"}
    halls.broker.held.clear()
    halls.advance(3)
    assert_one_roster(halls)


def test_agents_of_a_dead_node_are_gone_within_five_seconds() -> None:
    halls = Halls("a", "b", "c")
    halls.agent("a", "alice")
    bob = halls.agent("b", "bob")
    halls.kill("a")
    halls.advance(4.75)
    assert_one_roster(halls)
    assert list(halls["c"].hall.roster.agents) == [bob.id[1:]]


def test_agents_of_a_node_that_leaves_are_gone_at_once() -> None:
    halls = Halls("a", "b")
    halls.agent("a", "alice")
    halls.clusters["a"].close()
    halls.settle()
    assert not len(halls["b"].hall.roster)


def test_what_was_lost_is_noticed_within_a_second() -> None:
    halls = Halls("a", "b")
    halls.agent("a", "before")
    halls.broker.cut("b")
    halls.agent("a", "meanwhile")
    halls.broker.heal("b")
    halls.settle()
    halls.advance(1.5)
    assert_one_roster(halls)
    halls.broker.cut("b")
    lost = halls.agent("a", "lost")
    halls.broker.heal("b")
    halls.send(lost, "SET_NICK", nick="found")  # its serial shows the gap
    assert_one_roster(halls)


def test_a_node_that_was_given_up_brings_its_agents_back() -> None:
    halls = Halls("a", "b")
    alice = halls.agent("a", "alice", key=ALICE)
    first = halls["b"].hall.roster.agents[alice.id[1:]]
    halls.cut("a")
    halls.advance(5)
    assert not len(halls["b"].hall.roster)
    assert first.session.closed
    halls.heal("a")
    halls.advance(3)
    assert_one_roster(halls)
    assert halls["b"].hall.roster.agents[alice.id[1:]] is not first


def test_an_agent_can_be_learnt_of_before_its_node_tells() -> None:
    """A channel's home may tell of a member sooner than the member's node."""
    halls = Halls("a", "b")
    alice = halls["a"].agent("alice")
    roster = halls.clusters["a"].roster
    own = halls["a"].hall.roster.agents[alice.id[1:]]
    record = roster.record_of(own)
    assert roster.learn(record) is own
    learnt = halls.clusters["b"].roster.learn(record)
    assert isinstance(learnt, RemoteAgent)
    halls.settle()
    assert halls["b"].hall.roster.agents[alice.id[1:]] is learnt
    assert halls.clusters["b"].roster.record_of(learnt) == record
    assert halls.clusters["b"].roster.learn(record) is learnt
    halls.disconnect(alice)
    assert halls.clusters["b"].roster.learn(record) is None
    assert roster.learn(record) is None
    assert not len(halls["b"].hall.roster)


def test_an_agent_of_a_node_that_is_not_known_yet_is_kept_for_a_while() -> None:
    halls = Halls("a", "b")
    alice = halls.agent("a", "alice")
    roster = halls.clusters["b"].roster
    told = halls.clusters["a"].roster.record_of(halls["a"].hall.roster.agents[alice.id[1:]])
    halls.kill("a")
    halls.advance(5)
    assert roster.learn(told) is None, "that life is over"
    fields = {name: getattr(told, name) for name in told.__struct_fields__}
    new = AgentRecord(**{**fields, "node": "z", "life": 5})
    assert roster.learn(new) is halls["b"].hall.roster.agents[told.id]
    halls.advance(4)
    assert not len(halls["b"].hall.roster)


def test_of_two_agents_with_one_id_all_nodes_have_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids of agents without a key are random. If two nodes give out the same one, one of the agents has to go."""
    halls = Halls("a", "b", "c")
    for name in "ab":
        world = halls[name]
        monkeypatch.setattr(world.hall.ids, "ephemeral_id", lambda: "samesame")
        halls[name].agent(f"of {name}".replace(" ", "-"))
    halls.settle()
    assert_one_roster(halls)
    assert halls["c"].hall.roster.agents["samesame"].node == "a"
    assert_sent(halls["b"].guests[0], "SESSION_DISPLACED")


def test_the_arrival_of_an_agent_is_looked_up_and_told_to_no_node() -> None:
    halls = Halls("a", "b")
    here, there = (halls.clusters[node].roster for node in "ab")
    alice = halls.agent("a", "alice")
    agent = halls["a"].hall.roster.agents[alice.id[1:]]
    copy = halls["b"].hall.roster.agents[alice.id[1:]]
    assert here.arrival_of(agent) == there.arrival_of(copy) == here.record_of(agent).arrival
    halls.disconnect(alice)
    halls["a"].hall.roster.add(agent)  # as in the moment before it is announced
    assert here.arrival_of(agent) == HAS_LEFT
    assert not halls.end_turn()


def test_a_node_speaks_of_its_own_agents_only() -> None:
    halls = Halls("a", "b", "c")
    alice = halls.agent("a", "alice")
    liar = halls.clusters["b"]
    record = liar.roster.record_of(halls["b"].hall.roster.agents[alice.id[1:]])
    halls.disconnect(alice)
    liar.roster._serial += 1
    liar.publish(EVERY_NODE, AgentPresent(liar.roster._serial, record))
    halls.settle()
    assert halls.clusters["c"].post.refused == 1
    assert not len(halls["c"].hall.roster)


def test_a_node_that_tells_of_too_many_agents_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    halls = Halls("a", "b")
    halls.clusters["b"].roster._views["a"].is_whole = False
    halls.clusters["a"].send("b", AgentList(1, 0, MAX_AGENTS, []))
    halls.clusters["a"].send("b", AgentList(1, -1, 1, []))
    halls.settle()
    assert halls.clusters["b"].post.refused == 2
    halls.advance(3)
    monkeypatch.setattr("moothall.hall.cluster.roster.MAX_AGENTS", 2)
    for number in range(3):
        halls.agent("a", f"agent{number}")
    assert halls.clusters["b"].post.refused == 3
    assert len(halls["b"].hall.roster) == 2


def test_an_agent_that_is_shown_as_verified_is_so_on_all_nodes() -> None:
    halls = Halls("a", "b", admin_key="open sesame", verified_means="allowlist")
    alice = halls.agent("a", "alice", key=ALICE)
    admin = halls.agent("b", "admin")
    halls.send(admin, "ADMIN_VERIFY", admin_key="open sesame", agent_id=alice.id, verified=True)
    assert_sent(admin, "ADMIN_RESULT", action="verify", success=True)
    assert_sent(alice, "ADMIN_RESULT", action="verify", verified=True)
    assert_one_roster(halls)
    assert halls["b"].hall.roster.agents[alice.id[1:]].verified


def test_rates_go_with_the_key_that_leaves() -> None:
    halls = Halls("a", "b", rate_message=Rate(1, 60))
    halls.agent("b", "bob")
    alice = halls.agent("a", "alice", key=ALICE)
    halls.send(alice, "MSG", to=alice.id, content="one")
    halls.disconnect(alice)
    halls.advance(20)
    again = halls.agent("b", "alice", key=ALICE)
    halls.send(again, "MSG", to=again.id, content="two")
    assert_refused(again, "RATE_LIMITED")
    halls.advance(39.5)
    halls.send(again, "MSG", to=again.id, content="three")
    assert_refused(again, "RATE_LIMITED")
    halls.advance(1)
    halls.send(again, "MSG", to=again.id, content="four")
    assert_sent(again, "MSG", content="four")


def test_connections_of_an_address_count_on_all_nodes() -> None:
    halls = Halls("a", "b", max_connections_per_ip=2)
    first = halls.agent("a", "first", ip="198.51.100.7")
    halls.agent("b", "second", ip="198.51.100.7")
    for node in "ab":
        assert halls.connect(node, "198.51.100.7").link.closed
    halls.agent("a", "local", ip="198.51.100.8", is_loopback=True)
    assert halls.connect("b", "198.51.100.8").link.closed is None
    halls.disconnect(first)
    halls.agent("b", "third", ip="198.51.100.7")
    halls.kill("b")
    halls.advance(5)
    assert halls.connect("a", "198.51.100.7").link.closed is None


def test_new_keys_of_an_address_count_on_all_nodes() -> None:
    halls = Halls("a", "b", new_keys_per_hour=2)
    first, second, third = (PrivateKey(bytes([number]) * 32) for number in range(1, 4))
    halls.agent("a", "first", key=first)
    halls.agent("b", "second", key=second)
    for node in "ab":
        guest = halls.connect(node)
        halls[node].send(guest, "IDENTIFY", name="third", pubkey=third.public.pem)
        assert_refused(guest, "RATE_LIMITED", "Too many new keys")
    halls.agent("b", "first", key=first)  # a known one comes in


@given(st.data())
def test_whatever_fails_all_nodes_have_one_roster_afterwards(data: DataObject) -> None:
    halls = Halls("a", "b", "c", random=data.draw(st.randoms(use_true_random=False)))
    guests = []
    down: set[str] = set()
    for act in data.draw(
        st.lists(st.sampled_from(["come", "leave", "rename", "cut", "heal", "wait", "step"]), max_size=30)
    ):
        if act == "come":
            node = data.draw(st.sampled_from("abc"))
            guest = halls.connect(node)
            halls[node].identify(guest, "someone")
            guests.append(guest)
        elif act == "leave" and guests:
            guest = guests.pop(data.draw(st.integers(0, len(guests) - 1)))
            halls.world_of(guest).disconnect(guest)
        elif act == "rename" and guests:
            guest = data.draw(st.sampled_from(guests))
            halls.world_of(guest).send(guest, "SET_NICK", nick=data.draw(st.sampled_from(["x", "y", "z"])))
        elif act == "cut":
            node = data.draw(st.sampled_from("abc"))
            if node not in down:
                down.add(node)
                halls.cut(node)
        elif act == "heal" and down:
            node = data.draw(st.sampled_from(sorted(down)))
            down.discard(node)
            halls.heal(node)
        elif act == "wait":
            halls.advance(data.draw(st.integers(1, 12)) / 2)
        elif act == "step":
            halls.end_turn()
            for _ in range(data.draw(st.integers(1, 8))):
                halls.broker.step()
    halls.heal(*down)
    halls.settle()
    halls.advance(12)
    assert_one_roster(halls)
    assert len(halls["a"].hall.roster) == len(guests)


def test_a_hall_without_a_bus_has_agents_of_its_own_only() -> None:
    world = World()
    world.agent("alice")
    agents: list[Agent] = list(world.hall.roster.everyone())
    assert not agents[0].session.is_remote
    assert_silent(*world.guests)


def test_a_long_list_is_not_sent_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of a large hall is more than the bus takes, and the node that sends it would lose the bus."""
    monkeypatch.setattr(roster, "LISTED", 2)
    monkeypatch.setattr(roster, "PARTS_AT_ONCE", 3)
    halls = Halls("a", no_limits=True)
    for number in range(20):
        halls.agent("a", f"agent-{number}")
    halls.start("b")
    halls.settle()
    view = halls.clusters["b"].roster._views["a"]
    assert len(view.parts) == 3
    late = halls.agent("a", "late")
    halls.advance(roster.PAUSE_SECONDS)
    assert len(view.parts) == 6
    halls.advance(2 * roster.PAUSE_SECONDS)
    assert view.is_whole
    assert len(view.agents) == 21
    assert late.id[1:] in view.agents
