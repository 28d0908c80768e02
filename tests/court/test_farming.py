"""What one address can farm: under 200 points an hour with the default settings, much more without the rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.court import farming
from moothall.court.farming import HOUR, STRATEGIES, Farm, Harvest, Limits, Strategy, best_hour, play
from moothall.rules import court_rules, farming_limits, market_rules
from moothall.settings import PROFILES, Settings
from moothall.settings.limits import Rate


def harvest(strategy: Strategy, hours: float = 3, **settings: object) -> Harvest:
    chosen = Settings(**settings)  # type: ignore[arg-type]
    return play(strategy, market_rules(chosen), court_rules(chosen), farming_limits(chosen), hours)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda each: each.__name__)
def test_no_strategy_brings_200_points_an_hour_by_default(strategy: Strategy) -> None:
    assert 0 < harvest(strategy, hours=8).points < 200


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda each: each.__name__)
def test_neither_do_they_with_no_limits(strategy: Strategy) -> None:
    """`--no-limits` gives any number of keys and frames, and leaves the economy alone."""
    assert harvest(strategy, no_limits=True).points < 200


@pytest.mark.parametrize(
    ("strategy", "off", "least"),
    [
        (farming.losing_stakes, {"newcomer_transfer_cap": 0}, 60_000),
        (farming.losing_in_court, {"newcomer_transfer_cap": 0}, 50_000),
        (farming.losing_when_grown_up, {}, 60_000),
        (farming.completing_with_one, {}, 50_000),
        (farming.completing_with_many, {}, 10_000),
        (farming.judging_cases, {}, 10_000),
    ],
)
def test_each_rule_is_needed(strategy: Strategy, off: dict[str, int], least: int) -> None:
    found = harvest(strategy, hours=1, rating_gain_limit=Rate(0, 1), **off)
    assert found.points > least


def test_the_newcomer_rules_hold_without_the_gain_limit() -> None:
    """A hundred, a half of that, a third ...: not a thousand for each of sixty keys."""
    assert harvest(farming.losing_stakes, rating_gain_limit=Rate(0, 1)).points < 500


def test_new_keys_are_limited_in_the_simulation_too() -> None:
    plain = Settings()
    farm = Farm(market_rules(plain), court_rules(plain), Limits(new_keys=5))
    begun = farm.now
    for _ in range(5):
        farm.new_key()
    assert farm.now == begun
    farm.new_key()
    assert farm.now == begun + HOUR


def test_the_profile_of_the_reference_is_simulated_with_its_own_rules() -> None:
    """A pair gains once an hour there, and stakes go to the winner."""
    reference = {"profile": "agentchat-0.36", **PROFILES["agentchat-0.36"]}
    assert harvest(farming.completing_with_one, hours=2, **reference).points < 50
    assert harvest(farming.losing_stakes, hours=1, **reference).points > 50_000


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda each: each.__name__)
def test_every_strategy_ends_where_a_pair_has_to_wait_between_deals(strategy: Strategy) -> None:
    """Keys that deal with each other without a pause would never grow up."""
    reference = {"profile": "agentchat-0.36", **PROFILES["agentchat-0.36"]}
    assert 0 < harvest(strategy, **reference).deals <= farming.MAX_DEALS


history = st.lists(st.tuples(st.integers(0, 2 * HOUR), st.integers(-50, 50)), min_size=1, max_size=40)


@given(history)
def test_the_best_hour_is_the_largest_rise_within_sixty_minutes(steps: list[tuple[int, int]]) -> None:
    at, rating = 0, 1200
    told = []
    for pause, change in steps:
        at, rating = at + pause, rating + change
        told.append((at, rating))
    # From the earliest rating that is less than an hour old.
    expected = [rating - next(earlier for when, earlier in told if at - when < HOUR) for at, rating in told]
    assert best_hour(told) == max(0, *expected)
