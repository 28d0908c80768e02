"""Searches wait for each other, and nobody else for them."""

from tests.court.books import MemoryBooks
from tests.identity.vectors import ALICE, BOB
from tests.support.deals import signed
from tests.support.world import HeldStore, World, assert_sent, assert_silent


def test_a_deal_waits_for_one_search_and_not_for_a_crowd_of_them() -> None:
    books = MemoryBooks()
    store = HeldStore(books)
    world = World(books=books, store=store)
    crowd = [world.agent() for _ in range(20)]
    alice, bob = world.agent("alice", key=ALICE), world.agent("bob", key=BOB)
    while store.waiting:
        store.do_next()  # what a hall begins with
    world.hush()
    for guest in crowd:
        world.send(guest, "SEARCH_SKILLS", query={})
    world.send(alice, "PROPOSAL", **signed(ALICE, "PROPOSAL", to=bob.id, task="now"))
    store.do_next()
    assert_sent(crowd[0], "SEARCH_RESULTS")
    store.do_next()
    assert_sent(bob, "PROPOSAL", task="now")
    assert_silent(*crowd[1:])
    while store.waiting:
        store.do_next()
    for guest in crowd[1:]:
        assert_sent(guest, "SEARCH_RESULTS")


def test_a_search_that_is_refused_lets_the_next_begin() -> None:
    books = MemoryBooks()
    store = HeldStore(books)
    world = World(books=books, store=store)
    first, second = world.agent(), world.agent()
    while store.waiting:
        store.do_next()
    world.send(first, "SEARCH_SKILLS", query={"limit": -1})
    world.send(second, "SEARCH_SKILLS", query={})
    world.disconnect(first)
    store.do_next()
    store.do_next()
    assert_sent(second, "SEARCH_RESULTS")
    assert store.waiting == []


def test_nobody_searches_for_those_who_are_gone() -> None:
    books = MemoryBooks()
    store = HeldStore(books)
    world = World(books=books, store=store)
    first, *crowd = [world.agent() for _ in range(20)]
    patient = world.agent()
    while store.waiting:
        store.do_next()
    for guest in (first, *crowd, patient):
        world.send(guest, "SEARCH_SKILLS", query={})
    for guest in crowd:
        world.disconnect(guest)
    store.do_next()
    assert_sent(first, "SEARCH_RESULTS")
    store.do_next()
    assert_sent(patient, "SEARCH_RESULTS")
    assert store.waiting == []
