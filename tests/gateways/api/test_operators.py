"""What operators see in the API."""

from moothall.gateways.api import operators
from moothall.gateways.metrics_history import Gauges, MetricsHistory, Totals
from tests.identity.vectors import ALICE
from tests.support.api import ApiOf
from tests.support.world import ADMIN_KEY, World

KEY = {"x-admin-key": ADMIN_KEY}


def history() -> MetricsHistory:
    history = MetricsHistory(0, Totals())
    for number in range(1, 4):
        gauges = Gauges(number, number, 0, 0, 0, 0.001)
        history.add(number * 5000, gauges, Totals(messages=10 * number, refusals={"X": number}))
    return history


def test_metrics_of_the_last_hour_from_a_moment_on() -> None:
    api = ApiOf(World(admin_key=ADMIN_KEY), operators.routes(history()))
    shown = api.get("metrics/history", KEY).body
    assert (shown["period"], [sample["at"] for sample in shown["items"]]) == (5.0, [5000, 10_000, 15_000])
    assert (shown["items"][0]["messages"], shown["items"][0]["refusals"]) == (10, {"X": 1})
    later = api.get("metrics/history?since=10000", KEY).body
    assert [sample["at"] for sample in later["items"]] == [15_000]


def test_connections_with_their_addresses_a_page_at_a_time() -> None:
    world = World(admin_key=ADMIN_KEY)
    guests = [world.agent(f"agent{number}", ip=f"192.0.2.{number}", join="#general") for number in range(3)]
    guests[0].link.unread = 77
    api = ApiOf(world, operators.routes(history()))
    first = api.get("connections?limit=2", KEY).body
    then = api.get(f"connections?limit=2&after={first['next']}", KEY).body
    shown = {each["id"]: each for each in (*first["items"], *then["items"])}
    assert then["next"] is None
    assert {guest.id: guest.ip for guest in guests} == {name: each["ip"] for name, each in shown.items()}
    assert (shown[guests[0].id]["unread"], shown[guests[0].id]["channels"]) == (77, 1)


def test_what_workers_spend_and_their_caps() -> None:
    world = World(admin_key=ADMIN_KEY)
    alice = world.agent("alice", key=ALICE)
    world.send(alice, "SET_PRESENCE", status="online", budget={"limit": 1000, "spent": 250})
    world.send(world.connect(), "ADMIN_SET_BUDGET", admin_key=ADMIN_KEY, agent=alice.id, tokens=400)
    shown = ApiOf(world, operators.routes(history())).get("budgets", KEY).body
    assert (shown["spent"], shown["cap"], shown["keys"]) == (250, None, 1)
    assert shown["items"] == [{"id": alice.id, "name": "alice", "spent": 250, "cap": 400}]


def test_bans_a_page_at_a_time() -> None:
    world = World(admin_key=ADMIN_KEY, banned=["aaaa1111", "bbbb2222"])
    alice = world.agent("alice", key=ALICE)
    order = {"admin_key": ADMIN_KEY, "agent_id": alice.id, "reason": "x" * 300}
    world.send(world.connect(), "ADMIN_BAN", **order)
    api = ApiOf(world, operators.routes(history()))
    first = api.get("bans?limit=2", KEY).body
    then = api.get(f"bans?limit=2&after={first['next']}", KEY).body
    bans = {ban["id"]: ban["reason"] for ban in (*first["items"], *then["items"])}
    assert set(bans) == {"aaaa1111", "bbbb2222", alice.id.removeprefix("@")}
    assert bans[alice.id.removeprefix("@")] == "x" * operators.MAX_REASON
