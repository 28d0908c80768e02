"""SET_PRESENCE with `budget`: shown, counted for a key, refused beyond a cap."""

from typing import Any

import msgspec
import pytest

from moothall.hall.budgets import Price
from moothall.hall.costs import REPORT
from moothall.hall.spending import DAY_MS, Cap, day_of
from moothall.identity import PrivateKey
from moothall.settings.limits import Rate
from tests.court.books import MemoryBooks
from tests.identity.vectors import ALICE, BOB
from tests.support.world import (
    ABSENT,
    Guest,
    HeldStore,
    World,
    assert_refused,
    assert_sent,
    assert_silent,
)


def report(world: World, guest: Guest, spent: int, session: str = "s1", **fields: Any) -> None:
    budget = {"limit": 1000, "spent": spent, "session": session}
    world.send(guest, "SET_PRESENCE", budget=budget, ref="r", **fields)


def spent_today(world: World, key: PrivateKey = ALICE) -> int:
    return world.books.spending[day_of(world.now_ms), key.public.raw]


def cap(world: World, tokens: int, key: PrivateKey | None = ALICE) -> None:
    world.hall.spending.caps.set(Cap("" if key is None else key.public.raw.hex(), tokens))


def test_a_stranger_stops_no_worker_that_has_a_cap() -> None:
    world = World()
    alice, bob = world.agent("alice", key=ALICE), world.agent("bob", key=BOB)
    cap(world, 500)
    cap(world, 400, key=None)
    world.hush()
    report(world, bob, 2**53)
    assert_refused(bob, "BUDGET_EXCEEDED", "All workers together have spent")
    report(world, alice, 400)
    assert_sent(alice, "ACK", ref="r")
    report(world, alice, 401)
    assert_refused(alice, "BUDGET_EXCEEDED", "All workers with a cap have spent 401 of 400")


# -- shown ---------------------------------------------------------------------------------------------


def test_a_budget_is_shown_to_others() -> None:
    world = World()
    alice, bob = world.agent("alice", key=ALICE, join="#general"), world.agent(join="#general")
    world.hush()
    report(world, alice, 250, status="busy", status_text="coding")
    shown = {"limit": 1000, "spent": 250}
    assert_sent(bob, "PRESENCE_CHANGED", agent_id=alice.id, presence="busy", budget=shown)
    for question in ({"channel": "#general"}, {}, {"agents": [alice.id]}):
        world.send(bob, "LIST_AGENTS", **question)
        listed = assert_sent(bob, "AGENTS")["list"]
        assert listed[0]["budget"] == shown
        assert all("budget" not in entry for entry in listed[1:])


def test_a_client_that_sends_no_budget_sees_no_difference() -> None:
    world = World()
    alice, bob = world.agent("alice", key=ALICE, join="#general"), world.agent(join="#general")
    world.hush()
    world.send(alice, "SET_PRESENCE", status="away")
    assert_sent(bob, "PRESENCE_CHANGED", budget=ABSENT)
    assert_silent(alice)
    assert not world.books.last_reported
    world.send(alice, "SET_PRESENCE", status_text="x")
    assert_refused(alice, "INVALID_MSG", "Missing field `status`")


def test_a_report_alone_leaves_status_and_text_and_a_status_leaves_the_budget() -> None:
    world = World()
    alice, bob = world.agent("alice", key=ALICE, join="#general"), world.agent(join="#general")
    world.hush()
    world.send(alice, "SET_PRESENCE", status="busy", status_text="coding")
    world.advance(1)
    bob.read()
    report(world, alice, 250)
    assert_sent(alice, "ACK", ref="r")
    known = {"presence": "busy", "status_text": "coding", "budget": {"limit": 1000, "spent": 250}}
    assert_sent(bob, "PRESENCE_CHANGED", **known)
    world.advance(1)
    world.send(alice, "SET_PRESENCE", status="online")
    assert_sent(bob, "PRESENCE_CHANGED", **{**known, "presence": "online", "status_text": None})
    world.advance(1)
    world.send(alice, "SET_PRESENCE", budget=None)
    assert_sent(bob, "PRESENCE_CHANGED", presence="online", budget=ABSENT)


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        (5, "Field `budget`"),
        ({"limit": 5}, "missing required field `spent`"),
        ({"limit": -1, "spent": 0}, "Field `budget.limit`: expected `int` >= 0"),
        ({"limit": 1, "spent": 1.5}, "Field `budget.spent`"),
        ({"limit": 1, "spent": 2**53 + 1}, "Field `budget.spent`: expected `int` <= 9007199254740992"),
        ({"limit": 1, "spent": 1, "session": "a b"}, "Field `budget.session`"),
        ({"limit": 1, "spent": 1, "session": "x" * 65}, "Field `budget.session`"),
    ],
)
def test_what_is_not_a_budget_is_refused(budget: object, said: str) -> None:
    world = World()
    alice = world.agent(key=ALICE)
    world.send(alice, "SET_PRESENCE", status="busy", budget=budget)
    assert_refused(alice, "INVALID_MSG", said)


# -- counted -------------------------------------------------------------------------------------------


def test_reports_of_a_key_are_added_up_over_sessions_and_connections() -> None:
    world = World()
    alice = world.agent(key=ALICE)
    for spent in (0, 100, 100, 250):
        report(world, alice, spent)
    again = world.agent(key=ALICE)  # a takeover
    report(world, again, 300)
    report(world, again, 40, session="s2")
    world.disconnect(again)
    later = world.agent(key=ALICE)
    report(world, later, 70, session="s2")
    assert spent_today(world) == 370


def test_midnight_in_utc_begins_a_new_sum() -> None:
    world = World()
    cap(world, 100)
    alice = world.agent(key=ALICE)
    report(world, alice, 101)
    assert_refused(alice, "BUDGET_EXCEEDED", ref="r")
    world.advance((DAY_MS - world.now_ms % DAY_MS) / 1000)
    report(world, alice, 201)
    assert_sent(alice, "ACK", ref="r")
    assert spent_today(world) == 100
    report(world, alice, 202)
    assert_refused(alice, "BUDGET_EXCEEDED")


def test_an_agent_without_a_key_is_shown_and_not_counted() -> None:
    world = World()
    cap(world, 0, None)
    guest = world.agent(join="#general")
    report(world, guest, 500)
    assert_sent(guest, "ACK", ref="r")
    assert not world.books.spending
    assert world.hall.spending.outcomes == {"counted": 0, "shown": 1, "over_key": 0, "over_total": 0}
    world.send(guest, "LIST_AGENTS", channel="#general")
    assert assert_sent(guest, "AGENTS")["list"][0]["budget"] == {"limit": 1000, "spent": 500}


def test_reports_that_arrive_together_share_a_unit_of_work() -> None:
    books = MemoryBooks()
    store = HeldStore(books)
    world = World(books=books, reports=store)
    guests = [world.agent(key=PrivateKey(bytes([number]) * 32)) for number in range(1, 21)]
    for guest in guests:
        report(world, guest, 7)
    assert len(store) == 1  # the first one; all others wait for its end
    store.do_next()
    assert_sent(guests[0], "ACK", ref="r")
    assert_silent(*guests[1:])
    assert len(store) == 1
    store.do_next()
    assert len(store) == 0
    for guest in guests[1:]:
        assert_sent(guest, "ACK", ref="r")
    assert books.spending.total() == 20 * 7


def test_a_report_that_cannot_be_saved_is_not_acknowledged() -> None:
    world = World()
    alice = world.agent(key=ALICE)
    world.books.full = True
    report(world, alice, 100)
    assert_refused(alice, "INTERNAL_ERROR", "could not save")
    world.books.full = False
    report(world, alice, 130)
    assert_sent(alice, "ACK")
    assert spent_today(world) == 130


def test_a_flood_of_reports_is_over_the_budget_of_the_store() -> None:
    world = World(rate_post_auth=Rate(0, 1), budget_store=Rate(10 * REPORT, 5))
    alice = world.agent(key=ALICE)
    world.advance(5)
    for spent in range(20):
        report(world, alice, spent)
    answers = [message.get("code", message["type"]) for message in alice.read()]
    assert answers.count("ACK") < 12
    assert answers[-1] == "RATE_LIMITED"
    for _ in range(20):
        world.send(alice, "SET_PRESENCE", status="busy")  # costs no time of the store
    assert_silent(alice)


def test_a_report_costs_time_of_the_store_only_where_it_is_counted() -> None:
    world = World()
    guests = world.agent(key=ALICE), world.agent()
    row = next(command for command in world.hall.commands if command.name == "SET_PRESENCE")
    for budget, costs in ((None, (0, 0)), ({"limit": 1, "spent": 1}, (REPORT, 0))):
        message = msgspec.convert({"type": "SET_PRESENCE", "status": "busy", "budget": budget}, row.message)
        prices = [row.cost.price(world.hall, guest.session, message, 100) for guest in guests]
        assert prices == [Price(store=cost) for cost in costs]


# -- caps ----------------------------------------------------------------------------------------------


def test_a_report_beyond_the_cap_of_its_key_is_refused_and_counted() -> None:
    world = World()
    cap(world, 100)
    alice, bob = world.agent(key=ALICE), world.agent(key=BOB)
    report(world, alice, 100)
    assert_sent(alice, "ACK")
    report(world, alice, 150)
    error = assert_refused(alice, "BUDGET_EXCEEDED", "This key has spent 150 of 100 tokens today", ref="r")
    assert "2025-10-10T00:00:00.000Z" in error["message"]
    assert spent_today(world) == 150
    report(world, alice, 150)  # also a worker that starts anew
    assert_refused(alice, "BUDGET_EXCEEDED", ref="r")
    report(world, bob, 5000)
    assert_sent(bob, "ACK")
    assert world.hall.tally.refused["BUDGET_EXCEEDED"] == 2
    assert world.hall.spending.outcomes == {"counted": 2, "shown": 0, "over_key": 2, "over_total": 0}


def test_the_total_cap_is_for_all_together() -> None:
    world = World()
    cap(world, 100, None)
    alice, bob = world.agent(key=ALICE), world.agent(key=BOB)
    report(world, alice, 60)
    report(world, bob, 60)
    assert_sent(alice, "ACK")
    assert_refused(bob, "BUDGET_EXCEEDED", "All workers together have spent 120 of 100 tokens today")
    assert world.hall.spending.outcomes["over_total"] == 1


# -- what is known -------------------------------------------------------------------------------------


def test_the_sums_of_the_day_are_known_without_the_store() -> None:
    world = World()
    spending = world.hall.spending
    cap(world, 1000)
    report(world, world.agent(key=ALICE), 60)
    report(world, world.agent(key=BOB), 40)
    today = day_of(world.now_ms)
    assert spending.known(today).total == 100
    assert spending.known(today).by_key == {ALICE.public.raw: 60}  # only keys with a cap
    assert spending.known(today + 1).total == 0
    world.books.spend(today, {ALICE.public.raw: 5}, {})  # another hall on the same store
    spending.look(world.hall)
    assert spending.known(today).total == 105
    world.books.spend(today, {ALICE.public.raw: 5}, {})
    spending.look(world.hall)
    assert spending.known(today).total == 105  # it was asked a moment ago
    world.advance(5)
    spending.look(world.hall)
    assert spending.known(today).by_key == {ALICE.public.raw: 70}


def test_a_store_that_cannot_be_read_is_in_the_log() -> None:
    class Broken:
        def submit(self, work: object, done: object, failed: Any) -> None:
            failed(OSError("gone"))

    world = World(reports=Broken())
    world.hall.spending.look(world.hall)
    assert world.log.find("spending_not_read")
