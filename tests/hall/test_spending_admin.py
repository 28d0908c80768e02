"""ADMIN_BUDGET and ADMIN_SET_BUDGET."""

from typing import Any

import pytest

from moothall.hall.admin import replace_copy
from moothall.hall.common import CAPS
from moothall.hall.spending import DAY_MS, MAX_CAPS, TOTAL, Cap, encode_cap
from moothall.identity import PrivateKey
from tests.identity.vectors import ALICE, BOB, CAROL
from tests.support.world import (
    ABSENT,
    ADMIN_KEY,
    TWIN_ID,
    TWINS,
    Guest,
    World,
    assert_refused,
    assert_sent,
)

ALICE_ID = f"@{ALICE.public.agent_id()}"


def world_with_key() -> World:
    return World(admin_key=ADMIN_KEY)


def order(world: World, guest: Guest, **fields: Any) -> None:
    world.send(guest, "ADMIN_SET_BUDGET", admin_key=ADMIN_KEY, **fields)


def report(world: World, guest: Guest, spent: int) -> None:
    world.send(guest, "SET_PRESENCE", budget={"limit": 1000, "spent": spent})


def shown(world: World, guest: Guest, **fields: Any) -> dict[str, Any]:
    guest.read()
    world.send(guest, "ADMIN_BUDGET", admin_key=ADMIN_KEY, **fields)
    return assert_sent(guest, "ADMIN_RESULT", action="budget")


@pytest.mark.parametrize(
    "by",
    [
        {"pubkey": ALICE.public.pem},
        {"agent": ALICE_ID},
        {"agent": ALICE_ID[1:]},
        {"agent": ALICE.public.fingerprint},
        {"agent": "Alice"},
    ],
)
def test_a_cap_is_set_by_key_id_or_name_and_cleared(by: dict[str, str]) -> None:
    world = world_with_key()
    world.agent("alice", key=ALICE)
    operator = world.connect()
    order(world, operator, tokens=5000, **by)
    assert_sent(operator, "ADMIN_RESULT", action="set_budget", success=True, agentId=ALICE_ID, cap=5000)
    assert world.hall.spending.caps.of(ALICE.public.raw) == 5000
    assert world.books.listed(CAPS) == [encode_cap(Cap(ALICE.public.raw.hex(), 5000))]
    order(world, operator, clear=True, **by)
    assert_sent(operator, "ADMIN_RESULT", action="set_budget", success=True, cap=None)
    assert (world.hall.spending.caps.keys, world.books.listed(CAPS)) == ([], [])
    order(world, operator, clear=True, **by)
    assert_refused(operator, "AGENT_NOT_FOUND", f"{ALICE_ID} has no cap")


def test_the_key_of_an_agent_that_is_away_is_found_in_the_store() -> None:
    world = world_with_key()
    world.disconnect(world.agent(key=ALICE))
    operator = world.connect()
    order(world, operator, tokens=1, agent=ALICE_ID)
    assert_sent(operator, "ADMIN_RESULT", agentId=ALICE_ID)
    order(world, operator, tokens=1, agent="@00000000")
    assert_refused(operator, "AGENT_NOT_FOUND", "No key of @00000000 is known here")
    order(world, operator, tokens=1, agent="somebody")
    assert_refused(operator, "AGENT_NOT_FOUND", "give its public key")


def test_a_name_or_an_id_that_is_not_one_key_s_is_not_guessed() -> None:
    world = world_with_key()
    world.agent("alice", key=ALICE)
    world.agent("alice", key=BOB)
    world.agent("anna")
    operator = world.connect()
    order(world, operator, tokens=1, agent="alice")
    assert_refused(operator, "INVALID_MSG", "Several agents are called alice")
    order(world, operator, tokens=1, agent="anna")
    assert_refused(operator, "AGENT_NOT_FOUND")
    order(world, operator, tokens=1, pubkey="no key")
    assert_refused(operator, "INVALID_MSG", "Invalid `pubkey`")
    order(world, operator, tokens=1, agent="alice", pubkey=ALICE.public.pem)
    assert_refused(operator, "INVALID_MSG", "not both")


def test_a_cap_is_for_the_key_and_not_for_its_digits() -> None:
    world = world_with_key()
    world.agent("first", key=TWINS[0])
    operator = world.connect()
    order(world, operator, tokens=1, agent=TWIN_ID)
    assert_sent(operator, "ADMIN_RESULT", success=True)
    assert world.hall.spending.caps.keys == [TWINS[0].public.raw]


def test_the_total_cap_and_what_was_spent() -> None:
    world = world_with_key()
    alice, bob = world.agent("alice", key=ALICE), world.agent("bob", key=BOB)
    operator = world.connect()
    order(world, operator, tokens=10_000)
    assert_sent(operator, "ADMIN_RESULT", action="set_budget", success=True, cap=10_000, agentId=ABSENT)
    order(world, operator, tokens=500, pubkey=CAROL.public.pem)
    order(world, operator, tokens=400, agent="bob")
    report(world, alice, 100)
    report(world, bob, 300)
    world.disconnect(bob)
    result = shown(world, operator)
    assert (result["day"], result["spent"], result["cap"], result["total"]) == ("2025-10-09", 400, 10_000, 2)
    bob_shown, alice_shown, carol_shown = result["budgets"]
    assert bob_shown == {"agentId": bob.id, "pubkey": BOB.public.pem, "spent": 300, "cap": 400}
    assert alice_shown == {"agentId": alice.id, "pubkey": ALICE.public.pem, "spent": 100, "name": "alice"}
    assert (carol_shown["spent"], carol_shown["cap"]) == (0, 500)
    order(world, operator, clear=True)
    assert shown(world, operator)["cap"] is None


def test_another_day_can_be_shown() -> None:
    world = world_with_key()
    alice, operator = world.agent(key=ALICE), world.agent()
    report(world, alice, 100)
    world.advance(DAY_MS / 1000)
    report(world, alice, 130)
    assert shown(world, operator)["spent"] == 30
    assert shown(world, operator, day="2025-10-09")["spent"] == 100
    assert shown(world, operator, day="2025-10-08")["budgets"] == []
    for day in ("2025-13-01", "yesterday", "2025-10-09T00"):
        world.send(operator, "ADMIN_BUDGET", admin_key=ADMIN_KEY, day=day)
        assert_refused(operator, "INVALID_MSG", "day")


def test_the_number_of_caps_is_bounded() -> None:
    world = world_with_key()
    operator = world.connect()
    for number in range(MAX_CAPS):
        world.hall.spending.caps.set(Cap(number.to_bytes(32).hex(), 1))
    order(world, operator, tokens=1, pubkey=ALICE.public.pem)
    assert_refused(operator, "INVALID_MSG", "1,000 keys have a cap")
    order(world, operator, tokens=1)  # the total is not one of them
    assert_sent(operator, "ADMIN_RESULT", success=True)


@pytest.mark.parametrize(
    "fields",
    [{}, {"tokens": 5, "clear": True}, *({"tokens": wrong} for wrong in (-1, 2**53 + 1, 1.5, "5", None))],
)
def test_a_cap_is_a_whole_number(fields: dict[str, Any]) -> None:
    world = world_with_key()
    operator = world.connect()
    order(world, operator, **fields)
    assert_refused(operator, "INVALID_MSG", "`tokens`")


def test_a_cap_of_another_hall_on_the_same_store_holds_here() -> None:
    world = world_with_key()
    alice = world.agent(key=ALICE)
    replace_copy(world.hall, CAPS, [encode_cap(Cap("", 50))])
    assert world.hall.spending.caps.of(TOTAL) == 50
    report(world, alice, 51)
    assert_refused(alice, "BUDGET_EXCEEDED")


def test_many_keys_are_listed_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moothall.hall.spending_admin.MAX_LISTED", 3)
    world = world_with_key()
    for number in range(1, 6):
        report(world, world.agent(key=PrivateKey(bytes([number]) * 32)), number)
    result = shown(world, world.connect())
    assert [entry["spent"] for entry in result["budgets"]] == [5, 4, 3]
    assert (result["total"], result["spent"]) == (5, 15)
