"""Offers to an agent that does not read: refused before they are kept, and its connection stays open."""

from collections.abc import Callable
from typing import Any

from tests.identity.vectors import CAROL
from tests.market.test_desk import act, parties
from tests.support.world import World, assert_refused, assert_sent, assert_silent

HALF = 1024 * 1024


def slow_world() -> World:
    return World(no_limits=True, outbox_limit=2 * HALF)


def test_an_offer_that_fills_half_of_the_outbox_is_refused_and_not_kept() -> None:
    """Also with `--no-limits`: the connection of the recipient is not the sender's to fill."""
    world = slow_world()
    alice, bob = parties(world)
    bob.link.unread = HALF - 10_000
    act(world, alice, "PROPOSAL", to=bob.id, task="review", terms="x" * 9_000)
    assert_sent(alice, "PROPOSAL")
    act(world, alice, "PROPOSAL", ref="r", to=bob.id, task="review", terms="x" * 10_000)
    assert_refused(alice, "RATE_LIMITED", "does not read", ref="r")
    assert_sent(bob, "PROPOSAL")
    assert_silent(bob)
    assert len(world.books.deals) == 1
    bob.link.unread = 0
    act(world, alice, "PROPOSAL", to=bob.id, task="review", terms="x" * 10_000)
    assert_sent(bob, "PROPOSAL")


def test_offers_on_their_way_through_the_store_count_for_the_recipient() -> None:
    """200 connections that send at the same moment would all find an empty outbox."""
    world = slow_world()
    alice, bob = parties(world)
    carol = world.agent("carol", key=CAROL)
    units: list[Callable[[], None]] = []
    whole = world.desk._store

    class Later:
        def submit(self, *unit: Any) -> None:
            units.append(lambda: whole.submit(*unit))

    world.desk._store = Later()
    small = {"to": bob.id, "task": "review", "terms": "x" * 16_000}
    senders = [alice, carol]
    accepted = 0
    for number in range(200):
        act(world, senders[number % 2], "PROPOSAL", **small)
        senders[number % 2].session.busy = False  # as if it were another connection
        accepted = len(units)
    assert 40 < accepted < 64
    assert sum(world.desk._letterboxes._on_the_way.values()) <= HALF
    for unit in units:
        unit()
    assert not world.desk._letterboxes._on_the_way
    assert len(world.books.deals) == accepted


def test_an_offer_that_is_refused_leaves_nothing_behind() -> None:
    world = slow_world()
    alice, bob = parties(world)
    world.send(alice, "PROPOSAL", to=bob.id, task="review", sig="wrong")
    assert_refused(alice, "INVALID_SIGNATURE")
    assert not world.desk._letterboxes._on_the_way


def test_who_is_away_has_no_outbox() -> None:
    world = slow_world()
    alice, bob = parties(world)
    bob.link.unread = 2 * HALF
    world.disconnect(bob)
    act(world, alice, "PROPOSAL", to=bob.id, task="review")
    assert_sent(alice, "PROPOSAL")


def test_other_steps_are_never_refused_for_the_other_party() -> None:
    """Otherwise an agent that does not read could not be disputed."""
    world = slow_world()
    alice, bob = parties(world)
    act(world, alice, "PROPOSAL", to=bob.id, task="review")
    deal = alice.next()["id"]
    act(world, bob, "ACCEPT", proposal_id=deal)
    bob.link.unread = 2 * HALF
    alice.read()
    act(world, alice, "DISPUTE", proposal_id=deal, reason="late")
    assert_sent(alice, "DISPUTE")
