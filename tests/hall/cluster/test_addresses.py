"""Limits of an address hold for the hall: its budget, and wrong admin keys."""

import msgspec
import pytest

from moothall.hall.budgets import Meter, Price
from moothall.hall.cluster.addresses import REPORT_SECONDS, Loads
from moothall.settings.limits import Rate
from moothall.wire.bus import EVERY_NODE
from tests.support.cluster import Halls
from tests.support.world import ADMIN_KEY, Guest, assert_refused, assert_sent

STEP = 0.05
FLOODER = "198.51.100.7"
OTHER = "198.51.100.8"


def limited(*names: str, no_limits: bool = False) -> Halls:
    """Halls in which an address has 200 frames a second."""
    return Halls(*names, address_frames=Rate(40, 0.2), no_limits=no_limits)


def meter(halls: Halls, node: str, ip: str = FLOODER, *, is_loopback: bool = False) -> Meter:
    return halls[node].hall.budgets.meter(ip, is_loopback=is_loopback)


def flood(halls: Halls, meters: list[Meter], seconds: float) -> int:
    """As many frames as these can have."""
    taken = 0
    for _ in range(round(seconds / STEP)):
        halls.advance(STEP)
        for each in meters:
            while each.charge(Price(frames=1), halls.clock.monotonic()) is None:
                taken += 1
    return taken


def portions(halls: Halls) -> dict[str, dict[str, float]]:
    return {name: dict(cluster.addresses.portions) for name, cluster in halls.clusters.items()}


def test_an_address_that_floods_all_nodes_has_about_one_budget() -> None:
    halls = limited("a", "b", "c")
    meters = [meter(halls, node) for node in "abc"]
    flood(halls, meters, 3)
    assert 0.9 * 2000 <= flood(halls, meters, 10) <= 1.2 * 2000
    assert flood(halls, [meter(halls, "a", OTHER)], 5) >= 1000, "another address has its own"


def test_guests_of_one_address_wait_for_what_it_does_at_another_node() -> None:
    halls = limited("a", "b")
    alice = halls.agent("a", "alice", ip=FLOODER)
    flood(halls, [meter(halls, "b")], 3)
    for _ in range(40):
        halls.send(alice, "PING")
    answered = len(alice.read())
    assert 15 <= answered <= 25, "half of a full bucket"
    halls.advance(10)
    for _ in range(40 - answered):
        assert_sent(alice, "PONG")


def test_an_honest_address_costs_the_bus_nothing() -> None:
    halls = limited("a", "b")
    halls.advance(3)
    before = halls.broker.published
    halls.advance(10)
    silent = halls.broker.published - before
    meters = [meter(halls, node) for node in "ab"]
    before = halls.broker.published
    for _ in range(10):
        for each in meters:
            assert each.charge(Price(frames=20), halls.clock.monotonic()) is None
        halls.advance(1)
    assert halls.broker.published - before == silent
    assert portions(halls) == {"a": {}, "b": {}}


@pytest.mark.parametrize("how", ["dies", "is cut off"])
def test_what_a_node_told_ends_with_it(how: str) -> None:
    halls = limited("a", "b")
    flood(halls, [meter(halls, node) for node in "ab"], 3)
    assert portions(halls)["a"]
    if how == "dies":
        halls.kill("b")
    else:
        halls.cut("a")
    halls.advance(2 * REPORT_SECONDS)
    assert not portions(halls)["a"]


def test_loopback_clients_of_two_machines_have_nothing_in_common() -> None:
    halls = Halls("a", "b", address_frames=Rate(40, 0.2), loopback_factor=1)
    meters = [meter(halls, node, "127.0.0.1", is_loopback=True) for node in "ab"]
    assert flood(halls, meters, 5) >= 2 * 1000
    assert portions(halls) == {"a": {}, "b": {}}


def test_without_limits_nothing_is_told() -> None:
    halls = limited("a", "b", no_limits=True)
    alice = halls.agent("a", "alice", ip=FLOODER)
    for _ in range(500):
        halls["a"].send(alice, "PING")
    halls.advance(3)
    assert portions(halls) == {"a": {}, "b": {}}


@pytest.mark.parametrize("load", [float("nan"), -1.0])
def test_a_load_that_is_none_is_refused(load: float) -> None:
    halls = limited("a", "b")
    halls.clusters["a"].publish(EVERY_NODE, Loads({FLOODER: load}))
    halls.settle()
    assert halls.clusters["b"].post.refused == 1
    assert portions(halls)["b"] == {}


def order(halls: Halls, guest: Guest, key: str) -> None:
    halls.send(guest, "ADMIN_KICK", admin_key=key, agent_id="@00000000")


def test_wrong_admin_keys_of_an_address_count_on_all_nodes() -> None:
    halls = Halls("a", "b", admin_key=ADMIN_KEY, rate_admin=Rate(4, 60))
    guests = [halls.connect(node, FLOODER) for node in "ab"]
    for guest in guests:
        for _ in range(2):
            order(halls, guest, "wrong")
            assert_refused(guest, "AUTH_REQUIRED")
    for guest in guests:
        order(halls, guest, ADMIN_KEY)
        assert_refused(guest, "RATE_LIMITED")
    elsewhere = halls.connect("b", OTHER)
    order(halls, elsewhere, ADMIN_KEY)
    assert_refused(elsewhere, "AGENT_NOT_FOUND")


def test_wrong_admin_keys_of_loopback_count_at_their_own_node() -> None:
    halls = Halls("a", "b", admin_key=ADMIN_KEY, rate_admin=Rate(4, 60))
    here, there = (halls.connect(node, "127.0.0.1", is_loopback=True) for node in "ab")
    for _ in range(4):
        order(halls, here, "wrong")
    order(halls, there, ADMIN_KEY)
    assert_refused(there, "AGENT_NOT_FOUND")


def test_a_report_stays_small() -> None:
    """The bus takes half a megabyte; 512 addresses are less than a tenth of that."""
    loads = {f"2001:db8:{number:x}:ffff::/64": 0.123456789 for number in range(512)}
    assert len(msgspec.msgpack.encode(Loads(loads))) < 50_000
