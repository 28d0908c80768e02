"""Agents that do not read: agents of other nodes cannot get them closed with files and offers either."""

from collections.abc import Callable

import pytest

from moothall.hall.cluster.backlogs import LASTS
from tests.hall.cluster.test_letters import HallsOnOneStore
from tests.hall.test_other_halls import propose
from tests.identity.vectors import ALICE, BOB, CAROL
from tests.support.cluster import Halls
from tests.support.deals import signed
from tests.support.world import FakeLink, Guest, assert_refused, assert_sent

CHUNK = 200_000
ROUNDS = 60


@pytest.fixture
def halls() -> Halls:
    return Halls("a", "b", "c", no_limits=True)


def stall(guest: Guest) -> None:
    """From now on the guest reads nothing, and what it is sent counts."""
    link = guest.link
    link.watched = []
    put: Callable[..., None] = link.put

    def count(outgoing: object) -> None:
        before = len(link.frames)
        put(outgoing)
        link.unread += sum(map(len, link.frames[before:]))

    link.put = count  # type: ignore[method-assign]


def read_all(halls: Halls, guest: Guest) -> None:
    guest.link.unread = 0
    watched, guest.link.watched = guest.link.watched, []
    for told in watched or ():
        told(True)
    halls.settle()


def chunk(halls: Halls, sender: Guest, to: Guest, *, settles: bool = True) -> None:
    send = halls.send if settles else halls.world_of(sender).send
    send(sender, "FILE_CHUNK", to=to.id, content="x" * CHUNK)


def outbox(halls: Halls) -> int:
    return halls["b"].settings.outbox_limit


def test_chunks_of_other_nodes_fill_no_more_than_half(halls: Halls) -> None:
    """A node is told once that much is unread, and cannot follow how it becomes more."""
    bob = halls.agent("b", "bob")
    senders = [halls.agent(node, node) for node in "ac"]
    stall(bob)
    for _ in range(ROUNDS):
        for sender in senders:
            chunk(halls, sender, bob)
            halls.advance(0.1)
    assert outbox(halls) // 4 < bob.link.unread <= outbox(halls) // 2
    for sender in senders:
        sender.read()
        chunk(halls, sender, bob)
        assert_refused(sender, "RATE_LIMITED", "does not read this fast")
    read_all(halls, bob)
    for sender in senders:
        chunk(halls, sender, bob)
    assert bob.link.unread > 2 * CHUNK


def test_chunks_that_are_all_on_their_way_close_no_connection(halls: Halls) -> None:
    """All of them were sent before their node could hear of it. The receiver asks for those that were dropped."""
    bob = halls.agent("b", "bob")
    senders = [halls.agent(node, f"{node}-{number}") for node in "ac" for number in range(ROUNDS)]
    stall(bob)
    for sender in senders:
        chunk(halls, sender, bob, settles=False)
    halls.settle()
    assert outbox(halls) // 2 < bob.link.unread <= outbox(halls) - CHUNK
    halls.send(senders[0], "MSG", to=bob.id, content="all else is told")
    assert "all else is told" in [each.get("content") for each in bob.read()]


def test_a_node_that_did_not_hear_the_end_of_a_backlog_tries_again(halls: Halls) -> None:
    alice, bob = halls.agent("a", "alice"), halls.agent("b", "bob")
    stall(bob)
    bob.link.unread = outbox(halls) // 2
    chunk(halls, alice, bob)
    chunk(halls, alice, bob)
    assert_refused(alice, "RATE_LIMITED", "does not read this fast")
    halls.broker.losing.add(("b", "a"))
    read_all(halls, bob)
    halls.broker.losing.clear()
    halls.advance(LASTS)
    bob.read()
    chunk(halls, alice, bob)
    assert_sent(bob, "FILE_CHUNK")


def test_offers_of_other_nodes_fill_no_more_than_half() -> None:
    """They come through the store, and not over the bus."""
    halls = HallsOnOneStore("a", "b")
    alice = halls.agent("a", "alice", key=ALICE)
    bob = halls.agent("b", "bob", key=BOB)
    carol = halls.agent("a", "carol", key=CAROL)
    halls.advance(1)
    stall(bob)
    bob.link.unread = outbox(halls) // 2
    propose(halls["a"], alice, ALICE, BOB)
    halls.hear_all()
    assert_sent(bob, "PROPOSAL")
    halls.send(carol, "PROPOSAL", **signed(CAROL, "PROPOSAL", to=bob.id, task="review"))
    assert_refused(carol, "RATE_LIMITED", "does not read this fast")


def test_a_fast_reader_costs_the_bus_nothing(halls: Halls) -> None:
    alice, bob = halls.agent("a", "alice"), halls.agent("b", "bob")
    halls.advance(1)
    published = halls.broker.published
    for _ in range(5):
        chunk(halls, alice, bob)
    assert isinstance(bob.link, FakeLink)
    assert halls.broker.published == published + 5
