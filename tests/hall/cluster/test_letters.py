"""What market and court tell agents of other nodes: once, through the store if nodes share one, else by the bus."""

from random import Random

import pytest

from tests.hall.test_other_halls import HallOfMany, SharedBooks, propose
from tests.identity.vectors import ALICE, BOB
from tests.support.cluster import Halls
from tests.support.deals import signed
from tests.support.world import World, assert_sent, assert_silent


class HallsOnOneStore(Halls):
    """Nodes that share a store with letters, besides the bus."""

    def __init__(self, *names: str) -> None:
        self.shared = SharedBooks()
        super().__init__(*names)
        self.hear_all()

    def make(self, name: str) -> World:
        dice = Random(f"{name} {self.random.random()}")  # noqa: S311
        return HallOfMany(self.shared, name, clock=self.clock, dice=dice)

    def hear_all(self) -> None:
        """Signals of the store arrive."""
        for world in self:
            assert isinstance(world, HallOfMany)
            world.others.hear("news")
            world.hear_all()
        self.settle()


@pytest.mark.parametrize("has_letters", [True, False])
def test_a_deal_between_nodes_is_told_once(has_letters: bool) -> None:
    halls = HallsOnOneStore("a", "b", "c") if has_letters else Halls("a", "b", "c")
    alice, bob = halls.agent("a", "alice", key=ALICE), halls.agent("b", "bob", key=BOB)
    halls.advance(1)
    deal = propose(halls["a"], alice, ALICE, BOB)
    halls.settle()
    if isinstance(halls, HallsOnOneStore):
        assert_silent(bob)
        halls.hear_all()
    assert_sent(bob, "PROPOSAL", id=deal)
    halls.send(bob, "ACCEPT", **signed(BOB, "ACCEPT", proposal_id=deal))
    if isinstance(halls, HallsOnOneStore):
        halls.hear_all()
    assert_sent(bob, "ACCEPT", proposal_id=deal)
    assert_sent(alice, "ACCEPT", proposal_id=deal)
    halls.advance(3)
    assert_silent(alice, bob)


def test_letters_reach_agents_of_a_node_that_the_store_does_not_know_yet() -> None:
    halls = HallsOnOneStore("a")
    alice = halls.agent("a", "alice", key=ALICE)
    halls.advance(1)
    halls.start("b")
    halls.settle()
    bob = halls.agent("b", "bob", key=BOB)
    here = halls["a"]
    assert isinstance(here, HallOfMany)
    assert here.others._is_alone
    deal = propose(here, alice, ALICE, BOB)
    halls.hear_all()
    assert_sent(bob, "PROPOSAL", id=deal)
    halls.advance(3)
    assert_silent(alice, bob)


def test_letters_go_on_while_the_bus_is_down() -> None:
    halls = HallsOnOneStore("a", "b")
    alice, bob = halls.agent("a", "alice", key=ALICE), halls.agent("b", "bob", key=BOB)
    halls.advance(1)
    halls.cut("a", "b")
    deal = propose(halls["a"], alice, ALICE, BOB)
    halls.hear_all()
    assert_sent(bob, "PROPOSAL", id=deal)


def test_a_node_writes_down_its_own_agents_only() -> None:
    halls = HallsOnOneStore("a", "b")
    alice = halls.agent("a", "alice", key=ALICE)
    halls.agent("b", "bob", key=BOB)
    halls.advance(1)
    assert {name: set(keys) for name, keys in halls.shared.halls.items()} == {
        "a": {ALICE.public.raw},
        "b": {BOB.public.raw},
    }
    del halls.shared.halls["b"]  # the store has forgotten it: it says everything again
    halls.advance(3)
    assert set(halls.shared.halls["b"]) == {BOB.public.raw}
    halls.disconnect(alice)
    halls.advance(1)
    assert not halls.shared.halls["a"]
