"""A node among others: what it sends, what it believes, and what it forgets when it was given up."""

from functools import partial
from typing import ClassVar

from moothall.wire.bus import EVERY_NODE, BusMessage, Origin
from tests.support.cluster import Halls
from tests.support.world import World


class Said(BusMessage, frozen=True):
    KIND: ClassVar = "said"

    text: str


class Heard:
    def __init__(self, halls: Halls) -> None:
        self.by: dict[str, list[tuple[str, str]]] = {name: [] for name in halls.worlds}
        for name, cluster in halls.clusters.items():
            cluster.handle(Said, partial(self._hear, name))

    def _hear(self, name: str, origin: Origin, message: Said) -> None:
        self.by[name].append((origin.node, message.text))


def test_halls_on_one_bus_are_nodes_of_one_hall() -> None:
    halls = Halls("a", "b", "c")
    for name, world in zip(halls.worlds, halls, strict=True):
        cluster = halls.clusters[name]
        assert world.hall.cluster is cluster
        assert cluster.nodes.live.keys() == {"a", "b", "c"} - {name}


def test_a_message_goes_to_one_node_or_to_all() -> None:
    halls = Halls("a", "b", "c")
    heard = Heard(halls)
    halls.clusters["a"].send("b", Said("to one"))
    halls.clusters["a"].publish(EVERY_NODE, Said("to all"))
    halls.settle()
    assert heard.by["a"] == []
    assert sorted(heard.by["b"]) == [("a", "to all"), ("a", "to one")]
    assert heard.by["c"] == [("a", "to all")]


def test_a_life_that_is_over_is_not_heard() -> None:
    """The node stood still with something to say, and was given up meanwhile."""
    halls = Halls("a", "b")
    heard = Heard(halls)
    halls.clusters["a"].send("b", Said("too late"))
    halls.broker.held.add("a")
    halls.advance(5)
    assert not halls.clusters["b"].nodes.live
    before = halls.broker.published
    halls.broker.held.clear()
    halls.end_turn()
    assert halls.broker.published == before, "not even to nodes that have yet to learn of its end"
    halls.advance(5)
    assert heard.by["b"] == []
    halls.clusters["a"].send("b", Said("in a new life"))
    halls.settle()
    assert heard.by["b"] == [("a", "in a new life")]


def test_a_node_that_stood_still_believes_nothing_of_that_time() -> None:
    """It finds that in its socket, perhaps before it learns that it was given up."""
    halls = Halls("a", "b")
    heard = Heard(halls)
    halls.broker.held.add("b")
    halls.clusters["a"].publish(EVERY_NODE, Said("the members of b have left"))
    halls.advance(5)
    assert not halls.clusters["a"].nodes.live
    halls.broker.held.clear()
    halls.advance(5)
    assert heard.by["b"] == []
    halls.clusters["a"].send("b", Said("in a new life"))
    halls.settle()
    assert heard.by["b"] == [("a", "in a new life")]


def test_packets_of_a_dead_life_are_dropped() -> None:
    halls = Halls("a", "b")
    heard = Heard(halls)
    post = halls.clusters["a"].post
    post.origin = Origin("a", post.origin.life - 1)
    post.send("node.b", Said("from before"))
    halls.settle()
    assert heard.by["b"] == []


def test_a_node_that_closes_says_what_it_has_to_say() -> None:
    halls = Halls("a", "b")
    halls.clusters["a"].send("b", Said("last words"))
    before = halls.broker.published
    halls.clusters["a"].close()
    assert halls.broker.published == before + 1
    halls.settle()
    assert not halls.clusters["b"].nodes.live


def test_a_hall_alone_has_no_cluster() -> None:
    assert World().hall.cluster is None
