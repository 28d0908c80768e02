"""Who is a member of a channel, and what members are told, when nodes disagree for a while."""

from moothall.hall.cluster.nodes import SILENCE_SECONDS
from tests.identity.vectors import ALICE
from tests.support.cluster import Halls
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
