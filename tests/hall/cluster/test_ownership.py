"""One id at a time on all nodes: takeovers, nodes that race, die or are cut off, and ids that are given back."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from moothall.hall.cluster.nodes import SILENCE_SECONDS
from moothall.hall.cluster.ownership import CLAIM_SECONDS, KEPT_SECONDS, Displace
from moothall.hall.cluster.roster import AgentDeparted
from moothall.hall.session import Agent
from moothall.settings.limits import Rate
from tests.hall.test_third_wire import Telegraph
from tests.identity.vectors import ALICE, BOB, CAROL
from tests.support.cluster import Halls
from tests.support.world import Guest, assert_closed, assert_open, assert_refused, assert_sent, assert_silent

ID = ALICE.public.agent_id(8)


def holders(halls: Halls, agent_id: str = ID) -> list[str]:
    """The nodes that have a session of this id."""
    return [
        name
        for name, world in halls.worlds.items()
        if (agent := world.hall.roster.agents.get(agent_id)) is not None and not agent.session.is_remote
    ]


def proven(halls: Halls, node: str) -> Guest:
    """A session that has proven Alice's key, and waits for what comes of it."""
    guest = halls.connect(node)
    halls[node].identify(guest, "alice", key=ALICE)
    return guest


def test_a_session_on_another_node_takes_over() -> None:
    halls = Halls("a", "b", "c")
    old = halls.agent("a", "alice", key=ALICE)
    new = halls.agent("b", "alice", key=ALICE, ip="198.51.100.7")
    assert_sent(old, "SESSION_DISPLACED", new_ip="198.51.100.7")
    assert_closed(old, 1000, "Identity claimed by verified connection")
    assert holders(halls) == ["b"]
    assert halls["c"].hall.roster.agents[ID].node == "b"
    assert_silent(new)
    back = halls.agent("a", "alice", key=ALICE)
    assert_sent(new, "SESSION_DISPLACED")
    assert holders(halls) == ["a"]
    assert_open(back)


def test_the_old_session_is_silent_before_the_new_one_has_its_welcome() -> None:
    halls = Halls("a", "b")
    old = halls.agent("a", "alice", key=ALICE)
    new = proven(halls, "b")
    for _ in range(100):
        halls.end_turn()
        if not halls.broker.step():
            break
        if new.unread:
            assert old.session.closed
    halls.settle()
    assert_sent(new, "WELCOME")


def test_without_an_answer_there_is_no_welcome() -> None:
    halls = Halls("a", "b")
    old = halls.agent("a", "alice", key=ALICE)
    handlers = halls.clusters["a"].post._handlers
    displace = handlers[Displace]
    handlers[Displace] = lambda origin, message: None
    new = proven(halls, "b")
    halls.advance(CLAIM_SECONDS - 0.5)
    assert_silent(new)
    halls.advance(1)
    assert_refused(new, "UNAVAILABLE", "does not answer")
    assert_open(old, new)
    halls["b"].identify(new, "alice", key=ALICE)
    halls.advance(2)
    assert_silent(new)
    handlers[Displace] = displace
    halls.advance(1.5)
    assert_sent(new, "WELCOME")
    assert old.session.closed
    assert holders(halls) == ["b"]


def test_a_node_that_died_on_the_way_leaves_the_former_owner_in_the_entry() -> None:
    """The next node asks it, although the entry named another one meanwhile."""
    halls = Halls("a", "b", "c")
    old = halls.agent("a", "alice", key=ALICE)
    handlers = halls.clusters["a"].post._handlers
    displace = handlers[Displace]
    handlers[Displace] = lambda origin, message: None
    proven(halls, "b")
    halls.advance(1)
    halls.kill("b")
    halls.advance(5)
    handlers[Displace] = displace
    new = proven(halls, "c")
    halls.settle()
    assert old.session.closed
    assert_sent(new, "WELCOME")
    assert holders(halls) == ["c"]


def test_ids_of_a_dead_node_are_free() -> None:
    halls = Halls("a", "b")
    halls.agent("a", "alice", key=ALICE)
    halls.kill("a")
    new = proven(halls, "b")
    halls.settle()
    assert_silent(new)
    halls.advance(SILENCE_SECONDS + 1)
    assert_sent(new, "WELCOME")
    assert holders(halls) == ["b"]


def test_a_node_that_starts_again_has_its_ids_back() -> None:
    halls = Halls("a", "b")
    halls.agent("a", "alice", key=ALICE)
    halls.kill("a")
    halls.start("a")
    halls.settle()
    halls.agent("a", "alice", key=ALICE)
    assert holders(halls) == ["a"]


def test_without_the_bus_a_key_of_this_node_may_come_back_and_no_other() -> None:
    halls = Halls("a", "b")
    alice = halls.agent("a", "alice", key=ALICE)
    halls.agent("b", "bob", key=BOB)
    halls.cut("a")
    halls.disconnect(alice)
    halls.advance(60)
    again = halls.agent("a", "alice", key=ALICE)
    assert_open(again)
    for key in (BOB, CAROL):
        stranger = halls.connect("a")
        halls.identify(stranger, "stranger", key=key)
        assert_refused(stranger, "UNAVAILABLE", "cannot reach the other nodes")
        assert_open(stranger)
    anonymous = halls.agent("a", "anonymous")
    assert_open(anonymous)


def test_a_minority_takes_over_no_ids() -> None:
    halls = Halls("a", "b", "c")
    halls.agent("a", "alice", key=ALICE)
    halls.cut("b")
    stranger = proven(halls, "b")
    halls.advance(30)
    assert_refused(stranger, "UNAVAILABLE")
    assert holders(halls) == ["a"]


def test_a_node_that_was_cut_off_gives_way_to_a_session_elsewhere() -> None:
    halls = Halls("a", "b")
    old = halls.agent("a", "alice", key=ALICE)
    other = halls.agent("a", "bob", key=BOB)
    halls.cut("a")
    halls.advance(5)
    new = halls.agent("b", "alice", key=ALICE)
    assert_open(old)  # it talks to agents of its own node
    halls.heal("a")
    halls.advance(3)
    assert_sent(old, "SESSION_DISPLACED")
    assert old.session.closed
    assert_open(new, other)
    assert holders(halls) == ["b"]
    assert halls["a"].hall.roster.agents[ID].node == "b"
    assert halls["b"].hall.roster.agents[other.id[1:]].node == "a"


def test_a_node_says_nothing_until_it_has_its_ids_back() -> None:
    halls = Halls("a", "b")
    halls.agent("a", "alice", key=ALICE)
    halls.cut("a")
    halls.advance(5)
    changes: list[bool] = []
    cluster = halls.clusters["a"]
    cluster.on_change(changes.append)
    halls.heal("a")
    for _ in range(1000):
        if cluster.nodes.is_in and not cluster.ownership.is_settled:
            assert not cluster.is_connected
        if not halls.broker.step() and not halls.end_turn():
            break
    halls.advance(1)
    assert cluster.is_connected
    assert changes == [True]


def test_of_two_nodes_that_race_for_an_id_one_has_it() -> None:
    for seed in range(20):
        halls = Halls("a", "b", "c")
        halls.random.seed(seed)
        guests = [proven(halls, name) for name in "abc"]
        halls.settle()
        halls.advance(10)
        assert len(holders(halls)) == 1
        welcome = [guest for guest in guests if guest.session.agent is not None]
        assert len(welcome) == 1
        for guest in guests:
            types = [message["type"] for message in guest.read()]
            assert types in (["WELCOME"], ["WELCOME", "SESSION_DISPLACED"], ["ERROR"])
            assert (types == ["WELCOME"]) == (guest in welcome)


def test_two_sessions_of_one_node_wait_for_the_same_answer() -> None:
    halls = Halls("a", "b")
    halls.agent("a", "alice", key=ALICE)
    first, second = proven(halls, "b"), proven(halls, "b")
    halls.settle()
    assert_sent(first, "WELCOME")
    assert_sent(first, "SESSION_DISPLACED")
    assert_sent(second, "WELCOME")


def test_a_session_that_ends_while_it_waits_leaves_the_id_free() -> None:
    halls = Halls("a", "b")
    halls.agent("a", "alice", key=ALICE)
    gone = proven(halls, "b")
    halls["b"].disconnect(gone)
    halls.settle()
    assert holders(halls) == []
    halls.advance(KEPT_SECONDS + 1)
    assert ID not in halls.broker.entries["ids"]


def test_ids_are_given_back_after_a_while() -> None:
    halls = Halls("a", "b")
    alice = halls.agent("a", "alice", key=ALICE)
    halls.advance(2 * KEPT_SECONDS)
    assert ID in halls.broker.entries["ids"]
    halls.disconnect(alice)
    halls.advance(KEPT_SECONDS - 1)
    assert ID in halls.broker.entries["ids"]
    again = halls.agent("a", "alice", key=ALICE)
    halls.advance(2 * KEPT_SECONDS)
    assert ID in halls.broker.entries["ids"]
    halls.disconnect(again)
    halls.advance(KEPT_SECONDS + 1)
    assert ID not in halls.broker.entries["ids"]
    assert not halls.clusters["a"].ownership._held


def test_an_id_is_kept_for_as_long_after_each_departure() -> None:
    halls = Halls("a", "b")
    for _ in range(2):
        halls.disconnect(halls.agent("a", "alice", key=ALICE))
        halls.advance(KEPT_SECONDS - 1)
    halls.advance(0.5)
    assert ID in halls.broker.entries["ids"]
    halls.advance(1)
    assert ID not in halls.broker.entries["ids"]


def test_the_rate_of_a_key_is_one_rate_on_all_nodes() -> None:
    halls = Halls("a", "b", rate_message=Rate(2, 60))
    alice = halls.agent("a", "alice", key=ALICE)
    halls.send(alice, "MSG", to=alice.id, content="one")
    halls.advance(30)
    moved = halls.agent("b", "alice", key=ALICE)
    halls.send(moved, "MSG", to=moved.id, content="two")
    assert_sent(moved, "MSG")
    halls.send(moved, "MSG", to=moved.id, content="three")
    assert_refused(moved, "RATE_LIMITED")
    back = halls.agent("a", "alice", key=ALICE)
    halls.send(back, "MSG", to=back.id, content="three")
    assert_refused(back, "RATE_LIMITED")
    halls.advance(31)
    halls.send(back, "MSG", to=back.id, content="three")
    assert_sent(back, "MSG", content="three")


def test_the_rate_of_a_key_is_one_rate_though_its_departure_is_told_late() -> None:
    """Subjects have no common order. So the answer of the former node may come before the news of the departure."""
    halls = Halls("a", "b", rate_message=Rate(1, 60))
    alice = halls.agent("a", "alice", key=ALICE)
    halls.send(alice, "MSG", to=alice.id, content="one")
    halls["a"].disconnect(alice)
    halls.end_turn()
    late = halls.broker.hold_back("a")
    moved = halls.agent("b", "alice", key=ALICE)
    halls.send(moved, "MSG", to=moved.id, content="two")
    assert_refused(moved, "RATE_LIMITED")
    for node, task in late:
        halls.broker.later("a", node, task)
    halls.settle()
    halls.advance(59)
    halls.send(moved, "MSG", to=moved.id, content="three")
    assert_refused(moved, "RATE_LIMITED")
    halls.advance(1)
    halls.send(moved, "MSG", to=moved.id, content="four")
    assert_sent(moved, "MSG", content="four")


def test_a_takeover_brings_the_rate_along_if_the_news_of_the_departure_is_lost() -> None:
    halls = Halls("a", "b", rate_message=Rate(1, 60))
    alice = halls.agent("a", "alice", key=ALICE)
    halls.send(alice, "MSG", to=alice.id, content="one")
    halls.clusters["b"].post._handlers[AgentDeparted] = lambda origin, message: None
    moved = halls.agent("b", "alice", key=ALICE)
    halls.send(moved, "MSG", to=moved.id, content="two")
    assert_refused(moved, "RATE_LIMITED")


def test_the_budget_of_a_key_is_one_budget_on_all_nodes() -> None:
    halls = Halls("a", "b", budget_bytes=Rate(4000, 1000), rate_message=Rate(0, 1))
    alice = halls.agent("a", "alice", key=ALICE)
    for how in ("takeover", "departure"):
        halls.advance(1000)
        halls.send(alice, "MSG", to=alice.id, content="x" * 3500)
        assert_sent(alice, "MSG")
        if how == "departure":
            halls.disconnect(alice)
        node = "b" if how == "takeover" else "a"
        alice = halls.agent(node, "alice", key=ALICE)
        halls.send(alice, "MSG", to=alice.id, content="x" * 3500)
        assert_refused(alice, "RATE_LIMITED")
        alice.read()


def test_a_takeover_waits_on_another_node_too() -> None:
    halls = Halls("a", "b", takeover_delay=2)
    old = halls.agent("a", "alice", key=ALICE)
    new = proven(halls, "b")
    halls.settle()
    assert_sent(new, "TAKEOVER_PENDING", wait_ms=2000)
    assert_open(old)
    halls.advance(2.5)
    assert_sent(new, "WELCOME")
    assert old.session.closed
    back = proven(halls, "a")
    halls.settle()
    assert_sent(back, "TAKEOVER_PENDING", wait_ms=4000)
    halls.disconnect(new)
    halls.advance(0.5)
    assert_sent(back, "WELCOME")


def test_an_agent_of_another_wire_makes_way_on_its_node() -> None:
    halls = Halls("a", "b")
    telegraph = Telegraph(halls["a"], "office")
    halls["a"].hall.remove(telegraph.agent)
    agent = Agent(telegraph.agent.session, ID, "alice", None, None)
    agent.via = "telegraph"
    telegraph.agent = agent
    telegraph.gate.enter(agent, {}, make_way=lambda: telegraph.close(1000, ""))
    telegraph.gate.arrived(agent)
    halls.settle()
    assert halls["b"].hall.roster.agents[ID].via == "telegraph"
    halls.agent("b", "alice", key=ALICE)
    assert holders(halls) == ["b"]
    assert halls["a"].hall.roster.agents[ID].via is None


def test_a_session_that_was_taken_over_does_not_come_back() -> None:
    """Also where the node of the new session is gone before the old node knows of it."""
    halls = Halls("a", "b", "c")
    old = halls.agent("a", "alice", key=ALICE)
    halls.cut("a")
    halls.advance(SILENCE_SECONDS + 1)
    halls.agent("b", "alice", key=ALICE)
    assert_open(old)
    halls.kill("b")
    halls.advance(SILENCE_SECONDS + 1)
    halls.heal("a")
    halls.advance(SILENCE_SECONDS + 1)
    assert old.session.closed
    assert holders(halls) == []


def test_entries_that_cannot_be_read_are_replaced() -> None:
    halls = Halls("a", "b")
    halls.broker.change("ids", ID, b"junk", 0)
    halls.agent("a", "alice", key=ALICE)
    assert holders(halls) == ["a"]


STEPS = ["connect", "connect", "leave", "cut", "heal", "wait", "step", "step", "freeze", "go on"]


@given(st.data())
@settings(max_examples=60)
def test_no_id_is_at_two_nodes_that_reach_each_other(data: DataObject) -> None:
    halls = Halls("a", "b", "c", random=data.draw(st.randoms(use_true_random=False)))
    guests: list[Guest] = []
    down: set[str] = set()

    def check() -> None:
        speaking = [name for name in holders(halls) if halls.clusters[name].is_connected]
        assert len(speaking) <= 1, "two nodes may speak for one id"

    for act in data.draw(st.lists(st.sampled_from(STEPS), max_size=25)):
        node = data.draw(st.sampled_from("abc"))
        if act == "connect" and node not in halls.broker.held:
            guest = halls.connect(node)
            halls[node].identify(guest, "alice", key=ALICE)
            guests.append(guest)
        elif act == "leave" and guests:
            guest = guests.pop(data.draw(st.integers(0, len(guests) - 1)))
            halls.world_of(guest).disconnect(guest)
        elif act == "cut" and node not in down:
            down.add(node)
            halls.cut(node)
        elif act == "heal" and node in down:
            down.discard(node)
            halls.heal(node)
        elif act == "freeze":
            halls.broker.held.add(node)
        elif act == "go on":
            halls.broker.held.discard(node)
        elif act == "wait":
            halls.advance(data.draw(st.integers(1, 12)) / 2)
        elif act == "step":
            halls.end_turn()
            for _ in range(data.draw(st.integers(1, 12))):
                halls.broker.step()
                check()
        check()
    halls.broker.held.clear()
    halls.heal(*down)
    halls.settle()
    halls.advance(15)
    owners = holders(halls)
    assert len(owners) <= 1
    for name, world in halls.worlds.items():
        agent = world.hall.roster.agents.get(ID)
        assert (agent is None) == (not owners)
        if agent is not None and owners != [name]:
            assert [agent.node] == owners
    for guest in guests:
        if guest.session.agent is None and not guest.session.closed:
            assert guest.read()[-1]["type"] in ("ERROR", "CHALLENGE"), "no session waits for ever"
