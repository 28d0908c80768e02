"""Open proposals and disk: what one key and one address may have, and that it is refused in time."""

from typing import Any

import pytest

from moothall.market.quotas import DAY
from moothall.settings.limits import Rate
from tests.identity.vectors import ALICE, BOB, CAROL
from tests.market.test_desk import act, offer, parties
from tests.support.cases import signed_step
from tests.support.world import Guest, World, assert_refused, assert_sent

SECONDS_A_DAY = DAY // 1000
PARTS = ("bytes", "told", "store")


def world_with(**settings: Any) -> World:
    """Without the limits that have to do with time."""
    names = (*(f"budget_{each}" for each in PARTS), *(f"address_{each}" for each in PARTS), "rate_post_auth")
    return World(**{**dict.fromkeys(names, Rate(0, 1)), **settings})


def test_a_pair_has_so_many_open_proposals_in_one_direction() -> None:
    world = world_with(max_open_proposals_per_pair=3)
    alice, bob = parties(world)
    deals = [offer(world, alice, bob) for _ in range(3)]
    act(world, alice, "PROPOSAL", ref="r", to=bob.id, task="one more")
    assert_refused(alice, "RATE_LIMITED", "3 open proposals to this agent", ref="r")
    assert len(world.books.deals) == 3
    offer(world, bob, alice)
    act(world, bob, "ACCEPT", proposal_id=deals[0])
    alice.read(), bob.read()
    act(world, alice, "PROPOSAL", to=bob.id, task="one more")
    assert_refused(alice, "RATE_LIMITED")  # an accepted one is open
    act(world, bob, "REJECT", proposal_id=deals[1])
    alice.read(), bob.read()
    offer(world, alice, bob)


def test_a_proposal_that_is_never_answered_counts_for_a_week() -> None:
    """There is no way to withdraw one."""
    world = world_with(max_open_proposals=2)
    alice, bob = parties(world)
    offer(world, alice, bob), offer(world, alice, bob)
    world.advance(7 * SECONDS_A_DAY - 60)
    alice, bob = parties(world)
    act(world, alice, "PROPOSAL", to=bob.id, task="one more")
    assert_refused(alice, "RATE_LIMITED")
    world.advance(120)
    alice, bob = parties(world)
    offer(world, alice, bob)


def test_a_key_has_so_many_open_proposals_to_all() -> None:
    world = world_with(max_open_proposals=3, max_open_proposals_per_pair=2)
    alice, bob = parties(world)
    carol = world.agent("carol", key=CAROL)
    offer(world, alice, bob), offer(world, alice, bob), offer(world, alice, carol)
    act(world, alice, "PROPOSAL", to=carol.id, task="one more")
    assert_refused(alice, "RATE_LIMITED", "3 open proposals, ")


def test_quotas_are_looked_up_after_the_signature() -> None:
    """They are rows, and no row is read for a command that its sender did not sign."""
    world = world_with(max_open_proposals=1)
    alice, bob = parties(world)
    offer(world, alice, bob)
    world.send(alice, "PROPOSAL", to=bob.id, task="one more", sig="wrong")
    assert_refused(alice, "INVALID_SIGNATURE")
    act(world, alice, "PROPOSAL", to=bob.id, task="one more")
    assert_refused(alice, "RATE_LIMITED")


@pytest.mark.parametrize(
    "off", [{"no_limits": True}, {"max_open_proposals": 0, "max_open_proposals_per_pair": 0}]
)
def test_quotas_can_be_turned_off(off: dict[str, Any]) -> None:
    world = world_with(**{"disk_quota_per_key": 0, "disk_quota_per_address": 0, **off})
    alice, bob = parties(world)
    for _ in range(60):
        offer(world, alice, bob)
    assert not world.books.disk


# -- disk ----------------------------------------------------------------------------------------------


def fill(world: World, proposer: Guest, recipient: Guest, most: int = 50) -> int:
    """Offer until it is refused; how often it was not."""
    for number in range(most):
        act(world, proposer, "PROPOSAL", to=recipient.id, task="review", terms="x" * 1000)
        answer = proposer.next()
        if answer["type"] == "ERROR":
            assert (answer["code"], "midnight UTC" in answer["message"]) == ("RATE_LIMITED", True)
            return number
        recipient.read()
    return most


def test_a_key_fills_its_share_of_a_day_and_goes_on_the_next() -> None:
    world = world_with(disk_quota_per_key=20_000)
    alice, bob = parties(world)
    first = fill(world, alice, bob)
    assert 2 < first < 12
    kept = len(world.books.deals)
    act(world, alice, "REGISTER_SKILLS", skills=[{"capability": "review"}])
    assert_refused(alice, "RATE_LIMITED", "disk_quota_per_key")
    offer(world, bob, alice)  # others have their own
    world.advance(SECONDS_A_DAY)
    alice, bob = parties(world)
    assert fill(world, alice, bob) == first
    assert len(world.books.deals) == kept + 1 + first


def test_an_address_has_a_share_whatever_keys_it_uses() -> None:
    world = world_with(disk_quota_per_address=20_000)
    alice, bob = world.agent("alice", key=ALICE, ip="10.0.0.1"), world.agent("bob", key=BOB, ip="10.0.0.2")
    assert fill(world, alice, bob) < 12
    carol = world.agent("carol", key=CAROL, ip="10.0.0.1")
    assert fill(world, carol, bob) == 0
    assert fill(world, bob, alice) > 2
    world.advance(SECONDS_A_DAY)
    alice, bob = world.agent("alice", key=ALICE, ip="10.0.0.1"), world.agent("bob", key=BOB, ip="10.0.0.2")
    assert fill(world, alice, bob) > 2


def test_cases_and_evidence_are_charged_too() -> None:
    world = world_with(disk_quota_per_key=20_000)
    alice, bob = parties(world)
    deal = offer(world, alice, bob)
    act(world, bob, "ACCEPT", proposal_id=deal)
    alice.read(), bob.read()
    fill(world, alice, bob)
    fields = {"proposal_id": deal, "reason": "late", "commitment": "c" * 64}
    world.send(alice, "DISPUTE_INTENT", **signed_step(ALICE, "DISPUTE_INTENT", **fields))
    assert_refused(alice, "RATE_LIMITED", "disk_quota_per_key")


def test_lookups_are_free() -> None:
    world = world_with(disk_quota_per_key=1)
    alice, bob = parties(world)
    assert fill(world, alice, bob) == 1
    world.send(alice, "LIST_PROPOSALS")
    assert_sent(alice, "PROPOSALS")
