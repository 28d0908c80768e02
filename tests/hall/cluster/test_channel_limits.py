"""Channels that are made and removed on several nodes: their limits hold, and nothing is left of those that go."""

from random import Random

import pytest

from moothall.hall.cluster.homes import REVISION_SECONDS
from moothall.hall.gallery import Gallery
from moothall.settings.limits import Rate
from tests.support.cluster import Halls
from tests.support.world import FakeLink, Guest, assert_sent

IP = "192.0.2.1"
OTHER_IP = "192.0.2.2"
DEFAULT = 3  # channels that each hall has


def halls_with(*nodes: str, **settings: object) -> Halls:
    return Halls(*nodes, random=Random(5), rate_create=Rate(0, 1), **settings)  # noqa: S311


def make(halls: Halls, guest: Guest, channel: str) -> None:
    """Make a channel and leave it, and let time pass until all nodes know."""
    halls.send(guest, "CREATE_CHANNEL", channel=channel)
    halls.send(guest, "LEAVE", channel=channel)
    halls.advance(1)
    guest.read()


def test_an_empty_channel_makes_way_though_people_watch_another_node() -> None:
    """That node follows all public channels, and has members in none of them."""
    halls = halls_with("a", "b", max_channels=DEFAULT + 2)
    Gallery(halls["b"].hall).connect(FakeLink(), OTHER_IP)
    alice = halls.agent("a", "alice")
    for number in range(6):
        make(halls, alice, f"#{number}")
    for world in halls:
        assert len(world.hall.channels) == DEFAULT + 2
        assert world.hall.channels.get("#5") is not None


def test_channels_that_are_made_at_the_same_time_remove_one_each() -> None:
    """The registry has not confirmed the first removal when the next channel needs a place."""
    share, guests = 5, 4
    halls = halls_with("a", "b", max_channels_per_ip=share)
    makers = [halls.agent("a", f"maker-{number}") for number in range(guests)]
    for turn in range(6):
        for number, maker in enumerate(makers):
            halls["a"].send(maker, "CREATE_CHANNEL", channel=f"#{turn}-{number}")
        halls.settle()
        for number, maker in enumerate(makers):
            halls.send(maker, "LEAVE", channel=f"#{turn}-{number}")
        halls.advance(1)
    for world in halls:
        assert world.hall.channels.made_by(IP) < share + guests


def test_a_channel_that_an_agent_has_entered_meanwhile_stays() -> None:
    halls = halls_with("a", "b", max_channels=DEFAULT + 1)
    alice = halls.agent("a", "alice")
    make(halls, alice, "#old")
    halls["a"].send(alice, "CREATE_CHANNEL", channel="#new")
    channels, now = halls["a"].hall.channels, halls.clock.monotonic()
    assert channels.count(now) == DEFAULT
    halls.settle()
    assert_sent(alice, "JOINED", channel="#new")
    bob = halls.agent("b", "bob", ip=OTHER_IP)
    halls.send(bob, "CREATE_CHANNEL", channel="#newer")
    assert_sent(bob, "ERROR", code="INVALID_MSG")
    assert channels.count(now) == DEFAULT + 1


@pytest.mark.parametrize(("node", "command"), [("a", "JOIN"), ("b", "JOIN"), ("b", "LIST_AGENTS")])
def test_a_command_to_a_channel_that_is_being_removed_is_answered(node: str, command: str) -> None:
    """Its node has sent it to the home, or is the home; the home has asked the registry to remove the channel."""
    halls = halls_with("a", "b", max_channels=DEFAULT + 1)
    alice = halls.agent("a", "alice")
    make(halls, alice, "#old")
    bob = halls.agent(node, "bob", ip=OTHER_IP)
    halls["a"].send(alice, "CREATE_CHANNEL", channel="#new")
    halls[node].send(bob, command, channel="#old", ref="1")
    halls.settle()
    assert_sent(bob, "ERROR", code="CHANNEL_NOT_FOUND", ref="1")
    halls.send(bob, "PING")
    assert_sent(bob, "PONG")
    for world in halls:
        assert world.hall.channels.get("#old") is None


def test_a_channel_is_made_again_if_a_node_has_members_that_its_home_did_not_know() -> None:
    halls = halls_with("a", "b")
    alice, bob = halls.agent("a", "alice"), halls.agent("b", "bob")
    make(halls, alice, "#room")
    halls.send(bob, "JOIN", channel="#room")
    bob.read()
    entries = halls.broker.entries["homes"]
    key = b"#room".hex()
    assert halls.broker.change("homes", key, b"", entries[key].revision) is not None
    halls.advance(1)
    carol = halls.agent("a", "carol", join="#room")
    halls.send(carol, "MSG", to="#room", content="still here")
    assert "still here" in [each.get("content") for each in bob.read()]


def test_nothing_is_left_of_channels_that_were_removed() -> None:
    halls = halls_with("a", "b", max_channels=DEFAULT + 1)
    alice = halls.agent("a", "alice")
    for number in range(20):
        make(halls, alice, f"#{number}")
    halls.advance(REVISION_SECONDS + 1)
    for cluster in halls.clusters.values():
        homes = cluster.channels.homes
        assert homes._revisions.keys() == homes.entries.keys() == {"#19"}
        assert not homes._removed_at
