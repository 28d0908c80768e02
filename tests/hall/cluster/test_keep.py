"""Keep agents of several nodes: identities, packets as they were signed, `discover:` and `nearest:` over all."""

import json
from random import Random

from tests.hall.keep.town import FakePeer, Town
from tests.support.cluster import Halls
from tests.support.keep import ALICE, BOB
from tests.support.world import World, assert_sent


class Towns(Halls):
    def make(self, name: str) -> World:
        dice = Random(f"{name} {self.random.random()}")  # noqa: S311
        return Town(books=self.books, clock=self.clock, dice=dice)

    def town(self, name: str) -> Town:
        town = self[name]
        assert isinstance(town, Town)
        return town

    def peer(self, node: str, src: str, signer: object = ALICE) -> FakePeer:
        peer = self.town(node).peer(src, signer)  # type: ignore[arg-type]
        self.settle()
        return peer

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
