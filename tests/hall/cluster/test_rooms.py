"""Who is a member of a channel, and what members are told, when nodes disagree for a while."""

from collections.abc import Callable, Collection
from random import Random

import pytest

from moothall.hall.cluster.events import Entered, Said, State
from moothall.hall.cluster.events import encode as encode_events
from moothall.hall.cluster.nodes import LEASE_SECONDS, SILENCE_SECONDS
from moothall.wire.agentchat.codec import encode
from moothall.wire.agentchat.server import Chat
from tests.identity.vectors import ALICE
from tests.support.cluster import Halls
from tests.support.memory_bus import REGISTRY
from tests.support.world import Guest

ROOM = "#room"


def three_nodes() -> tuple[Halls, Guest, Guest, Guest]:
    """The channel's home is c. Alice has a key, and is on a; Bob is on b, Carol on c."""
    halls = Halls("a", "b", "c", no_limits=True, auto_join=False)
    carol = halls.agent("c", "carol")
    halls.send(carol, "CREATE_CHANNEL", channel=ROOM)
    alice = halls.agent("a", "alice", key=ALICE, join=ROOM)
    bob = halls.agent("b", "bob", join=ROOM)
    halls.hush()
    return halls, alice, bob, carol


def heard(guest: Guest) -> list[str]:
    """The texts that the guest has not read yet; "gap" for the announcement of one."""
    found = []
    for message in guest.read():
        if message["type"] == "MSG" and not message.get("replay"):
            is_gap = message["from"] == "@server" and message["content"].startswith("Messages may be missing")
            found.append("gap" if is_gap else message["content"])
    return found


def test_a_node_alone_does_not_take_a_former_connection_for_the_agent() -> None:
    """Alice moves from a to b while the home cannot hear that she has left a."""
    halls, _, bob, _ = three_nodes()
    halls.cut("c")
    again = halls.agent("b", "alice", key=ALICE)
    halls.cut("a", "b")
    halls.advance(2)
    halls.send(again, "JOIN", channel=ROOM)
    halls.hush()
    halls.send(bob, "MSG", to=ROOM, content="hello")
    assert heard(again) == ["hello"]
    halls.heal("a", "b", "c")
    halls.advance(10)
    halls.hush()
    halls.send(bob, "MSG", to=ROOM, content="together")
    assert heard(again) == ["together"]


def test_a_state_that_names_a_new_connection_makes_it_a_member() -> None:
    """The node of Alice has missed that she left and came back."""
    halls, alice, bob, _ = three_nodes()
    halls.broker.losing.add(("c", "a"))
    halls.disconnect(alice)
    again = halls.agent("a", "alice", key=ALICE)
    halls["a"].send(again, "JOIN", channel=ROOM)
    halls.settle()
    home = halls.clusters["c"].channels.homes.logs[ROOM]
    home.skip()  # its records up to here are forgotten
    halls.broker.losing.clear()
    halls.advance(2)
    halls.hush()
    halls.send(bob, "MSG", to=ROOM, content="hello")
    assert heard(again) == ["hello"]


def test_a_member_that_came_while_its_node_was_alone_stays_one() -> None:
    """The node had no part in the channel before, and was given up meanwhile."""
    halls, _, bob, _ = three_nodes()
    halls.start("d")
    halls.settle()
    dave = halls.agent("d", "dave")
    halls.cut("d")
    halls.advance(SILENCE_SECONDS + 2)
    halls.send(dave, "JOIN", channel=ROOM)
    assert "JOINED" in [message["type"] for message in dave.read()]
    halls.heal("d")
    halls.advance(10)
    halls.hush()
    halls.send(bob, "MSG", to=ROOM, content="hello")
    assert heard(dave) == ["hello"]


def test_a_connection_that_left_too_early_takes_no_later_one_out() -> None:
    """Alice leaves while the home lets her in, and comes back. Her node hears of all that later."""
    halls, alice, bob, _ = three_nodes()
    halls.send(alice, "LEAVE", channel=ROOM)
    halls.broker.losing.add(("c", "a"))
    halls.send(alice, "JOIN", channel=ROOM)
    halls.disconnect(alice)
    again = halls.agent("a", "alice", key=ALICE)
    halls.send(again, "JOIN", channel=ROOM)
    halls.broker.losing.clear()
    halls.advance(2)
    assert "JOINED" in [message["type"] for message in again.read()]
    halls.send(bob, "MSG", to=ROOM, content="hello")
    assert heard(again) == ["hello"]


def test_an_agent_that_has_left_is_not_announced_again() -> None:
    """It is still in its channel, because the home cannot be told, and its node says who is in it."""
    halls, alice, _, _ = three_nodes()
    halls.cut("c")
    halls.disconnect(alice)
    room = halls["a"].hall.channels.find(ROOM).log
    assert room is not None
    room.state()
    halls.settle()
    assert alice.id[1:] not in halls["b"].hall.roster.agents


def test_members_whom_a_state_does_not_name_are_unheard_until_a_record_names_them() -> None:
    halls, alice, _, _ = three_nodes()
    room = halls["a"].hall.channels.find(ROOM).log
    assert room is not None
    record = halls.clusters["a"].roster.record_of(room.channel.members[alice.id[1:]])
    unheard = []
    room.install(encode_events(State([], [], [], [])), missed=True, apart=True)
    unheard.append(room.is_unheard)
    room.apply(encode_events([Entered(record)]), again=False)
    unheard.append(room.is_unheard)
    room.install(encode_events(State([], [], [], [])), missed=True, apart=True)
    unheard.append(room.is_unheard)
    halls["a"].send(alice, "LEAVE", channel=ROOM)  # it is brought no more
    unheard.append(room.is_unheard)
    assert unheard == [True, False, True, False]


# -- channels without an entry in the registry ---------------------------------------------------------


def test_members_stay_in_a_channel_that_the_registry_has_lost() -> None:
    halls, alice, bob, carol = three_nodes()
    halls.cut("a", "b", "c")
    halls.advance(2)
    halls.broker.forget()
    halls.heal("a", "b", "c")
    halls.advance(10)
    halls.hush()
    halls.send(alice, "MSG", to=ROOM, content="hello")
    for guest in (bob, carol):
        assert heard(guest) == ["hello"]


@pytest.mark.parametrize("seed", range(3))
def test_lines_of_a_node_apart_are_missed_though_its_members_left_and_the_registry_lost_it(seed: int) -> None:
    """It was home, another node took its place, and no entry says so. It needs the channel no more."""
    halls = Halls("a", "b", "c", random=Random(seed), no_limits=True, auto_join=False)  # noqa: S311
    bob = halls.agent("b", "bob")
    halls.send(bob, "CREATE_CHANNEL", channel=ROOM)
    alice, carol = halls.agent("a", "alice", join=ROOM), halls.agent("c", "carol", join=ROOM)
    halls.cut("b")
    halls.advance(SILENCE_SECONDS + 2)
    halls.send(bob, "MSG", to=ROOM, content="alone")
    halls.send(bob, "LEAVE", channel=ROOM)
    halls.hush()
    halls.cut("a", "c")
    halls.broker.forget("homes")
    halls.heal("b")
    halls.settle()
    halls.heal("a", "c")
    halls.advance(10)
    for guest in (alice, carol):
        assert "gap" in heard(guest)


def test_an_old_answer_of_the_registry_does_not_undo_what_it_has_told_since() -> None:
    """The home looks for its entry, which is lost. It hears of the next home, then that there was no entry."""
    halls, _, _, _ = three_nodes()
    homes = {name: cluster.channels.homes for name, cluster in halls.clusters.items()}
    halls.broker.entries["homes"].clear()
    halls.broker.delayed.add((REGISTRY, "c"))
    for name in ("c", "b"):
        homes[name].reach(is_connected=False)
        homes[name].reach(is_connected=True)
        halls.settle()
    halls.broker.delayed.clear()
    halls.settle()
    assert [each.home_of(ROOM) for each in homes.values()] == ["b", "b", "b"]


# -- gaps ----------------------------------------------------------------------------------------------


def test_a_node_that_comes_back_decides_nothing_where_another_one_is_home() -> None:
    halls, alice, bob, carol = three_nodes()
    halls.cut("c")
    halls.advance(SILENCE_SECONDS + 4)
    halls.hush()
    halls.heal("c")
    halls.settle()
    halls.send(carol, "MSG", to=ROOM, content="back")
    for guest in (alice, bob):
        assert heard(guest)[-1:] == ["back"]
    assert heard(carol)[:1] == ["gap"]


def test_members_of_a_node_that_was_too_slow_for_two_homes_stay_members() -> None:
    """The first new home did not hear from it and took its members out. The second one does not know why."""
    halls, alice, _, _ = three_nodes()
    halls.start("d")
    halls.settle()
    halls.agent("d", "dave", join=ROOM)
    halls.broker.held.add("a")
    halls.clusters["c"].close()
    halls.advance(1.6)
    first = halls.clusters["b"].channels.homes.home_of(ROOM)
    assert first is not None
    halls.clusters[first].close()
    halls.advance(0.6)
    halls.broker.held.clear()
    halls.advance(0.6)
    second = halls.clusters["a"].channels.homes.home_of(ROOM)
    assert second is not None
    assert {first, second} == {"b", "d"}
    halls.hush()
    erin = halls.agent(second, "erin", join=ROOM)
    halls.send(erin, "MSG", to=ROOM, content="hello")
    assert heard(alice) == ["hello"]
    halls.send(alice, "MSG", to=ROOM, content="hello back")
    assert heard(erin) == ["hello back"]


def test_a_node_that_was_given_up_tells_of_a_gap_though_it_finds_no_other() -> None:
    halls, alice, bob, _ = three_nodes()
    halls.clusters["c"].close()
    halls.advance(1)
    halls.broker.held.add("a")
    halls.start("d")
    halls.advance(SILENCE_SECONDS + 1)
    halls.send(bob, "MSG", to=ROOM, content="lost")
    halls.kill("b")
    halls.advance(SILENCE_SECONDS + 1)
    halls.broker.held.clear()
    halls.advance(5)
    assert "gap" in heard(alice)
    dave = halls.agent("d", "dave", join=ROOM)
    halls.hush()
    halls.send(dave, "MSG", to=ROOM, content="hello")
    assert heard(alice) == ["hello"]


def test_a_node_that_was_cut_off_when_the_home_died_tells_of_a_gap() -> None:
    halls, alice, bob, carol = three_nodes()
    halls.cut("a", "b")
    halls.send(carol, "MSG", to=ROOM, content="lost")
    halls.kill("c")
    halls.heal("a", "b")
    halls.advance(SILENCE_SECONDS + 3)
    for guest in (alice, bob):
        assert "gap" in heard(guest)


def test_a_new_home_tells_of_a_gap_if_it_knows_nothing_of_the_last_one() -> None:
    halls, alice, bob, _ = three_nodes()
    halls.broker.held.add("a")
    halls.clusters["c"].close()
    halls.advance(1.5)
    halls.send(bob, "MSG", to=ROOM, content="lost")
    halls.kill("b")
    halls.broker.held.clear()
    halls.advance(SILENCE_SECONDS + 3)
    assert "gap" in heard(alice)


@pytest.mark.parametrize("seed", range(10))
def test_a_lease_that_ran_out_before_its_renewal_leaves_no_silent_gap(seed: int) -> None:
    """The node did not believe what it found in its socket. It was not given up, so it went on as if it had."""
    halls = Halls("a", "c", random=Random(seed), no_limits=True, auto_join=False)  # noqa: S311
    carol = halls.agent("c", "carol")
    halls.send(carol, "CREATE_CHANNEL", channel=ROOM)
    alice = halls.agent("a", "alice", join=ROOM)
    life = halls.clusters["a"].nodes.life
    halls.hush()
    halls.broker.held.add("a")
    halls.send(carol, "MSG", to=ROOM, content="said")
    halls.kill("c")
    halls.start("c")
    halls.advance(LEASE_SECONDS - 0.25)
    halls.broker.held.clear()
    halls.advance(0.4, settles=False)  # it asks for a renewal, and its lease runs out
    halls.settle()
    halls.advance(5)
    assert halls.clusters["a"].nodes.life == life
    assert {"said", "gap"} & set(heard(alice))


@pytest.mark.parametrize("seed", range(10))
def test_what_a_home_said_last_comes_after_the_news_of_its_end(seed: int) -> None:
    """The registry and the nodes tell in no common order."""
    halls = Halls("a", "c", random=Random(seed), no_limits=True, auto_join=False)  # noqa: S311
    carol = halls.agent("c", "carol")
    halls.send(carol, "CREATE_CHANNEL", channel=ROOM)
    alice = halls.agent("a", "alice", join=ROOM)
    halls.hush()
    halls.broker.held.add("a")
    halls.send(carol, "MSG", to=ROOM, content="said")
    halls.kill("c")
    halls.start("c")
    halls.advance(LEASE_SECONDS - 1.5)
    halls.broker.held.clear()
    halls.settle()
    halls.advance(5)
    assert {"said", "gap"} & set(heard(alice))


def four_members() -> tuple[Halls, dict[str, Guest]]:
    """The channel's home is c. Each of four nodes has a member."""
    halls = Halls("a", "b", "c", "d", no_limits=True, auto_join=False)
    guests = {"c": halls.agent("c", "c")}
    halls.send(guests["c"], "CREATE_CHANNEL", channel=ROOM)
    guests |= {node: halls.agent(node, node, join=ROOM) for node in "abd"}
    halls.hush()
    return halls, guests


def last_words(halls: Halls, guest: Guest, *, lines: int = 1) -> Callable[[Collection[str]], None]:
    """The home says them, and dies. The returned function brings them to these nodes."""
    for number in range(lines):
        halls.world_of(guest).send(guest, "MSG", to=ROOM, content=f"late {number}")
        halls.end_turn()
    late = halls.broker.hold_back("c")
    halls.kill("c")

    def arrive(nodes: Collection[str]) -> None:
        for node, task in late:
            if node in nodes:
                halls.broker.later("c", node, task)
        halls.settle()

    return arrive


@pytest.mark.parametrize("nodes", ["a", "b", "d", "abd"])
@pytest.mark.parametrize("seconds", [0.4, 3])
def test_members_are_told_once_of_what_a_home_said_last(nodes: str, seconds: float) -> None:
    """It comes when another node is about to become home, or is it. All members hear of it from the new home."""
    halls, guests = four_members()
    arrive = last_words(halls, guests["c"], lines=3)
    halls.advance(SILENCE_SECONDS + seconds)
    arrive(nodes)
    halls.advance(5)
    for node in "abd":
        assert heard(guests[node]) == ["gap"], node
    halls.send(guests["a"], "MSG", to=ROOM, content="hello")
    for node in "bd":
        assert heard(guests[node]) == ["hello"]


def test_a_loss_is_reported_to_the_home_until_it_answers() -> None:
    """The home has not heard the last words, and the first reports of the two other nodes are lost."""
    halls, guests = four_members()
    arrive = last_words(halls, guests["c"])
    halls.advance(SILENCE_SECONDS + 3)
    home = halls.clusters["a"].channels.homes.home_of(ROOM)
    assert home is not None
    others = {"a", "b", "d"} - {home}
    halls.broker.losing |= {(node, home) for node in others}
    arrive(others)
    halls.broker.losing.clear()
    assert not any(heard(guests[node]) for node in "abd")
    halls.advance(2)
    for node in "abd":
        assert heard(guests[node]) == ["gap"], node


def test_an_agent_that_left_is_no_member_for_a_home_that_was_apart() -> None:
    """The home does not know, and its node has forgotten the channel."""
    halls = Halls("a", "b", "c", no_limits=True, auto_join=False)
    alice = halls.agent("a", "alice")
    halls.send(alice, "CREATE_CHANNEL", channel=ROOM)
    halls.agent("b", "bob", join=ROOM)
    carol = halls.agent("c", "carol", join=ROOM)
    halls.cut("a")
    halls.advance(SILENCE_SECONDS + 3)
    halls.send(carol, "LEAVE", channel=ROOM)
    halls.advance(1)
    halls.kill("b")
    halls.advance(SILENCE_SECONDS + 1)
    dave = halls.agent("c", "dave")
    halls.send(dave, "JOIN", channel=ROOM)
    halls.heal("a")
    halls.advance(SILENCE_SECONDS + 3)
    halls.hush()
    halls.send(dave, "MSG", to=ROOM, content="hello")
    assert heard(alice) == ["hello"]
    assert heard(carol) == []
    halls.send(alice, "LIST_AGENTS", channel=ROOM)
    (listed,) = [message["list"] for message in alice.read() if message["type"] == "AGENTS"]
    assert {entry["id"] for entry in listed} == {alice.id, dave.id}


def test_an_answer_is_not_for_a_later_connection() -> None:
    halls, alice, _, _ = three_nodes()
    halls["a"].send(alice, "LEAVE", channel=ROOM, ref="1")
    halls.end_turn()
    again = halls.connect("a")
    halls.identify(again, "alice", key=ALICE)
    assert [message["type"] for message in again.read()] == ["WELCOME"]


def test_members_of_a_node_that_has_missed_too_much_are_told_of_a_gap() -> None:
    """The home keeps less than that for nodes that have missed some."""
    halls, alice, bob, carol = three_nodes()
    halls.broker.losing.add(("c", "a"))
    for _ in range(80):
        halls.send(carol, "MSG", to=ROOM, content="x" * 4000)
    halls.broker.losing.clear()
    halls.advance(2)
    assert heard(alice) == ["gap"]
    assert "gap" not in heard(bob) + heard(carol)


def test_what_members_were_told_before_is_kept_and_not_told_again() -> None:
    halls, alice, _, carol = three_nodes()
    room = halls["a"].hall.channels.find(ROOM).log
    assert room is not None
    line = Chat(carol.id, "carol", ROOM, "hello", "1-abc", ts=1)
    room.apply(encode_events([Said(encode(line), carol.id[1:], has_echo=False, by_agent=True)]), again=True)
    assert heard(alice) == []
    assert [line.content for line in room.channel.buffer] == ["hello"]
