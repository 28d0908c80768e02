"""Copies of what all halls on one store have in common: when they follow the store."""

import json
from functools import partial

from moothall.hall import admin
from moothall.hall.access import Ban, encode_entry
from moothall.hall.common import ALLOWLIST, BANS, MOTD
from moothall.identity import PrivateKey
from tests.identity.vectors import ALICE, BOB, CAROL
from tests.support.world import (
    ADMIN_KEY,
    World,
    assert_closed,
    assert_open,
    assert_refused,
    assert_sent,
    assert_silent,
)


def read_again(world: World, *lists: str) -> None:
    for of in lists or (ALLOWLIST, BANS, MOTD):
        world.hall.copies.read_again(of, partial(admin.replace_copy, world.hall))  # type: ignore[arg-type]


def ban_elsewhere(world: World, key: PrivateKey, reason: str = "spam") -> None:
    """As another hall on the same store does."""
    ban = Ban(agent_id=key.public.agent_id(), reason=reason, pubkey=key.public.pem)
    world.books.enlist(BANS, ban.name, encode_entry(ban))


def test_an_agent_that_was_banned_elsewhere_is_closed_here() -> None:
    world = World()
    alice, bob = world.agent("alice", key=ALICE), world.agent("bob", key=BOB)
    ban_elsewhere(world, BOB)
    assert_open(bob)
    read_again(world, BANS)
    assert_sent(bob, "BANNED", reason="spam")
    assert_closed(bob, 1000, "Banned by admin")
    assert_open(alice)
    again = world.connect()
    world.identify(again, key=BOB)
    assert_refused(again, "BANNED")


def test_a_ban_that_was_lifted_elsewhere_holds_no_more() -> None:
    world = World()
    ban_elsewhere(world, BOB)
    read_again(world)
    world.books.lists.clear()
    read_again(world)
    world.agent("bob", key=BOB)


def test_who_was_approved_elsewhere_is_let_in() -> None:
    there = World(admin_key=ADMIN_KEY, allowlist=True)
    here = World(books=there.books, allowlist=True)
    operator = there.connect()
    there.send(operator, "ADMIN_APPROVE", admin_key=ADMIN_KEY, pubkey=ALICE.public.pem)
    stranger = here.connect()
    here.send(stranger, "IDENTIFY", name="alice", pubkey=ALICE.public.pem)
    assert_refused(stranger, "NOT_ALLOWED")
    read_again(here)
    here.agent("alice", key=ALICE)
    there.send(operator, "ADMIN_REVOKE", admin_key=ADMIN_KEY, pubkey=ALICE.public.pem)
    read_again(here)
    stranger = here.connect()
    here.send(stranger, "IDENTIFY", name="alice", pubkey=ALICE.public.pem)
    assert_refused(stranger, "NOT_ALLOWED")


def test_a_message_of_the_day_is_told_once() -> None:
    world = World()
    alice = world.agent("alice")
    world.books.enlist(MOTD, b"", json.dumps("tea at five").encode())
    read_again(world)
    read_again(world)
    assert_sent(alice, "MOTD_UPDATE", motd="tea at five")
    assert_silent(alice)
    world.books.strike(MOTD, [b""])
    read_again(world)
    assert_sent(alice, "MOTD_UPDATE", motd=None)


def test_what_the_store_has_and_this_hall_does_not_can_be_taken_out() -> None:
    """It was entered elsewhere a moment ago."""
    world = World(admin_key=ADMIN_KEY)
    operator = world.connect()
    ban_elsewhere(world, BOB)
    world.send(operator, "ADMIN_UNBAN", admin_key=ADMIN_KEY, agent_id=BOB.public.agent_id())
    assert_sent(operator, "ADMIN_RESULT", action="unban", success=True)
    assert world.books.listed(BANS) == []


def test_a_change_on_its_way_to_the_store_stays_in_the_copy() -> None:
    """Read in between, the store would not have it yet, and a banned agent could come in."""
    world = World(held=True, admin_key=ADMIN_KEY)
    operator = world.connect()
    ban_elsewhere(world, CAROL)
    world.send(operator, "ADMIN_BAN", admin_key=ADMIN_KEY, agent_id=BOB.public.agent_id())
    read_again(world, BANS)
    assert len(world.held) == 1
    assert BOB.public.agent_id() in world.hall.bans
    world.held.do_next()
    assert_sent(operator, "ADMIN_RESULT", action="ban")
    world.held.do_next()  # now it is read
    assert BOB.public.agent_id() in world.hall.bans
    assert world.hall.bans.find(CAROL.public)


def test_a_change_that_began_while_the_list_was_read_is_not_overwritten() -> None:
    world = World(held=True, admin_key=ADMIN_KEY)
    operator = world.connect()
    read_again(world, BANS)
    world.send(operator, "ADMIN_BAN", admin_key=ADMIN_KEY, agent_id=BOB.public.agent_id())
    while len(world.held):
        world.held.do_next()
        assert BOB.public.agent_id() in world.hall.bans
    assert_sent(operator, "ADMIN_RESULT", action="ban")


def test_a_list_that_cannot_be_read_is_logged_and_the_copy_stays() -> None:
    world = World(admin_key=ADMIN_KEY)
    operator = world.connect()
    world.send(operator, "ADMIN_BAN", admin_key=ADMIN_KEY, agent_id="deadbeef")

    def listed(of: str) -> list[bytes]:
        raise OSError("gone")

    world.books.listed = listed  # type: ignore[method-assign]
    read_again(world, BANS)
    assert "deadbeef" in world.hall.bans
    assert world.log.find("list_not_read")[0]["list"] == BANS
