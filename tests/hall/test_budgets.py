"""Accounts and meters: what a connection, a key and an address may cost."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.hall.budgets import LEAST_PAUSE, Account, Accounts, Budgets, Meter, Price, Shortage, buckets
from moothall.settings import Settings
from moothall.settings.limits import Rate

NOTHING = Rate(0, 1)
FRAMES_ONLY = (Rate(10, 5), NOTHING, NOTHING, NOTHING)


def settings(**changed: Rate | int) -> Settings:
    """No budget but those that a test names."""
    names = ("budget_bytes", "budget_told", "budget_store", "address_bytes", "address_told", "address_store")
    off: dict[str, Any] = dict.fromkeys((*names, "address_frames"), NOTHING)
    return Settings(**{**off, **changed})


def meter(budgets: Budgets, ip: str = "192.0.2.1", *, is_loopback: bool = False) -> Meter:
    return budgets.meter(ip, is_loopback=is_loopback)


@given(
    limit=st.integers(1, 50),
    seconds=st.floats(0.1, 60),
    steps=st.lists(st.tuples(st.floats(0, 20), st.integers(1, 80)), max_size=60),
)
def test_an_account_never_pays_more_than_bucket_refill_and_one_debt(
    limit: int, seconds: float, steps: list[tuple[float, int]]
) -> None:
    account = Account(buckets((Rate(limit, seconds), NOTHING, NOTHING, NOTHING)))
    now = paid = 0.0
    largest = 0
    for pause, amount in steps:
        now += pause
        if not account.take(Price(frames=amount), now):
            paid += amount
            largest = max(largest, amount)
        assert paid <= limit + now * limit / seconds + largest + 1e-6


@given(limit=st.integers(1, 50), seconds=st.floats(0.1, 60), amount=st.integers(1, 200))
def test_after_the_wait_the_price_can_be_paid_and_not_before(limit: int, seconds: float, amount: int) -> None:
    account = Account(buckets((Rate(limit, seconds), NOTHING, NOTHING, NOTHING)))
    price = Price(frames=amount)
    account.charge(Price(frames=limit), 0.0)
    wait = account.take(price, 0.0)
    assert wait > 0
    assert account.take(price, wait * 1.000001) == 0
    assert wait <= seconds + 1e-9


def test_a_price_larger_than_the_bucket_is_possible_and_leaves_a_debt() -> None:
    account = Account(buckets(FRAMES_ONLY))
    assert account.take(Price(frames=40), 0.0) == 0
    assert account.take(Price(frames=1), 0.0) == 15.5  # 31 frames at two a second
    assert account.take(Price(frames=1), 15.5) == 0


def test_only_what_a_price_asks_for_has_to_be_there() -> None:
    account = Account(buckets((Rate(1, 1), Rate(100, 1), NOTHING, NOTHING)))
    account.charge(Price(frames=1), 0.0)
    assert account.take(Price(bytes=50), 0.0) == 0
    assert account.take(Price(frames=1, bytes=50), 0.0) > 0


def test_a_clock_that_stands_still_refills_nothing() -> None:
    account = Account(buckets(FRAMES_ONLY))
    account.charge(Price(frames=10), 5.0)
    assert account.take(Price(frames=1), 5.0) == account.take(Price(frames=1), 5.0) > 0


def test_quiet_accounts_are_forgotten_and_those_that_owe_are_not() -> None:
    accounts = Accounts(FRAMES_ONLY)
    accounts.of("debtor", 0.0).charge(Price(frames=1000), 0.0)
    for number in range(5000):
        accounts.of(f"passer-by {number}", number / 10).charge(Price(frames=1), number / 10)
    assert len(accounts) < 2100
    assert accounts.of("debtor", 400.0).take(Price(frames=1), 400.0) > 0


@given(
    paid=st.lists(st.tuples(st.floats(0, 5), st.integers(1, 4)), max_size=20),
    amount=st.integers(1, 40),
)
def test_what_cannot_be_paid_is_not_charged(paid: list[tuple[float, int]], amount: int) -> None:
    """Neither to the account that lacks it, nor to the other one of the meter."""
    budgets = Budgets(
        settings(budget_bytes=Rate(100, 10), address_bytes=Rate(80, 40), address_told=Rate(1, 1))
    )
    one = meter(budgets)
    now = 0.0
    for pause, size in paid:
        now += pause
        one.charge(Price(bytes=size), now)
    probe = Price(bytes=amount, told=1)
    meter(budgets).owe(Price(told=1), now)
    first = one.charge(probe, now)
    assert first is not None
    second = one.charge(probe, now)
    assert second is not None
    assert second.is_address == first.is_address
    assert second.seconds == pytest.approx(first.seconds)


def pays(shortage: Shortage | None) -> bool:
    return shortage is None


def test_the_connections_of_an_address_share_its_budget() -> None:
    budgets = Budgets(settings(address_frames=Rate(10, 10)))
    one, two, other = meter(budgets), meter(budgets), meter(budgets, "192.0.2.2")
    assert pays(one.charge(Price(frames=9), 0.0))
    assert pays(two.charge(Price(frames=1), 0.0))
    assert not pays(two.charge(Price(frames=1), 0.0))
    assert pays(other.charge(Price(frames=1), 0.0))


def test_who_waits_for_its_address_waits_long_enough_to_be_worth_it() -> None:
    budgets = Budgets(settings(address_frames=Rate(10, 0.01)))
    one = meter(budgets)
    assert pays(one.charge(Price(frames=10), 0.0))
    assert one.charge(Price(frames=1), 0.0) == Shortage(LEAST_PAUSE, is_address=True)


def test_an_ipv6_network_is_one_address() -> None:
    budgets = Budgets(settings(address_frames=Rate(10, 10)))
    assert pays(meter(budgets, "2001:db8::1").charge(Price(frames=10), 0.0))
    assert not pays(meter(budgets, "2001:db8::2").charge(Price(frames=1), 0.0))


def test_a_new_connection_refills_the_budget_of_a_connection_but_not_that_of_a_key() -> None:
    budgets = Budgets(settings(budget_told=Rate(10, 10)))
    assert pays(meter(budgets).charge(Price(told=10), 0.0))
    assert pays(meter(budgets).charge(Price(told=10), 0.0))
    for wait in (False, True):
        verified = meter(budgets)
        verified.belongs_to(b"key")
        assert pays(verified.charge(Price(told=10), 0.0)) is not wait


def test_who_cannot_pay_is_charged_nothing() -> None:
    budgets = Budgets(settings(budget_bytes=Rate(10, 10), address_bytes=Rate(100, 10)))
    poor = meter(budgets)
    assert pays(poor.charge(Price(bytes=10), 0.0))
    for _ in range(100):
        assert not pays(poor.charge(Price(bytes=10), 0.0))
    assert pays(meter(budgets).charge(Price(bytes=10), 0.0))


def test_what_is_owed_is_charged_whether_there_is_room_or_not() -> None:
    budgets = Budgets(settings(budget_bytes=Rate(10, 10)))
    debtor = meter(budgets)
    debtor.owe(Price(bytes=30), 0.0)
    assert debtor.charge(Price(bytes=1), 0.0) == Shortage(21.0, is_address=False)


def test_loopback_budgets_are_so_many_times_larger() -> None:
    budgets = Budgets(settings(address_frames=Rate(10, 10), loopback_factor=100))
    local = meter(budgets, "127.0.0.1", is_loopback=True)
    assert pays(local.charge(Price(frames=999), 0.0))
    assert pays(local.charge(Price(frames=1), 0.0))
    assert not pays(local.charge(Price(frames=1), 0.0))


def test_as_many_refusals_are_answered_as_frames_are_allowed_and_at_least_sixty_in_ten_seconds() -> None:
    budgets = Budgets(settings())
    for rate, refusals in ((Rate(60, 10), 60), (Rate(10, 10), 60), (Rate(600, 10), 600), (Rate(5, 1), 6)):
        counted = meter(budgets)
        counted.limit_frames(rate)
        assert counted.refusals is not None
        assert [counted.refusals.count(0.0) for _ in range(refusals + 1)] == [True] * refusals + [False]
