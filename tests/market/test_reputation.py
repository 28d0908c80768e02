"""ELO as the seed and the wire reference have it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.market.rating_rules import PairHistory, RatingRules
from moothall.market.records import Standing
from moothall.market.reputation import (
    FLOOR,
    completion_gain,
    dispute_loss,
    expected,
    half_of_loss,
    k_factor,
    pair_history,
)
from moothall.wire.agentchat.jstext import round_half_up
from tests.identity.vectors import ALICE, BOB, VECTORS
from tests.market.support import REFERENCE, REFERENCE_RATINGS, Market, address, told

SEED = RatingRules()
WEIGHTED = RatingRules(amount_weighting=True)
FIRST = PairHistory()

standings = st.builds(
    Standing,
    key=st.just(b"k" * 32),
    rating=st.integers(FLOOR, 4000),
    transactions=st.integers(0, 200),
)


def gains(vector: dict[str, Any], rules: RatingRules) -> list[int]:
    own, other = Standing(key=b"a", **vector["from"]), Standing(key=b"b", **vector["to"])
    pair = PairHistory(vector["pair_completion_number"] - 1)
    amount = vector["amount"]
    return [
        completion_gain(own, other, amount, rules, pair),
        completion_gain(other, own, amount, rules, pair),
    ]


@pytest.mark.parametrize("vector", VECTORS["elo_completion"])
def test_completion_vectors_of_the_reference(vector: dict[str, Any]) -> None:
    assert gains(vector, REFERENCE_RATINGS) == vector["gain"]


@pytest.mark.parametrize("vector", VECTORS["elo_completion"])
def test_completion_vectors_without_diminishing(vector: dict[str, Any]) -> None:
    assert gains(vector, WEIGHTED) == vector["seed_gain_without_diminishing"]


@pytest.mark.parametrize("vector", [v for v in VECTORS["elo_completion"] if not v["amount"]])
def test_completion_vectors_of_the_seed(vector: dict[str, Any]) -> None:
    assert gains(vector, SEED) == vector["seed_gain_without_diminishing"]


@pytest.mark.parametrize("vector", VECTORS["math_round"])
def test_rounding_vectors(vector: dict[str, Any]) -> None:
    assert round_half_up(vector["x"]) == vector["round"]


@pytest.mark.parametrize("vector", VECTORS["elo_dispute"])
def test_dispute_vectors(vector: dict[str, Any]) -> None:
    """The whole way: an accepted deal with these stakes, disputed."""
    market = Market(REFERENCE)
    market.rated(ALICE, **vector["from"])
    market.rated(BOB, **vector["to"])
    market.propose(ALICE, BOB, amount=vector["amount"], elo_stake=vector["stakes"]["proposer"])
    market.accept(BOB, elo_stake=vector["stakes"]["acceptor"])
    outcome = market.dispute(ALICE if vector["disputed_by"] == "from" else BOB)
    changes = told(outcome, ALICE)[0]["rating_changes"]
    assert [changes[address(agent)]["change"] for agent in (ALICE, BOB)] == vector["change"]
    assert [market.rating(ALICE), market.rating(BOB)] == vector["new_rating"]


@pytest.mark.parametrize(
    ("transactions", "k"), [(0, 32), (29, 32), (30, 24), (99, 24), (100, 16), (10_000, 16)]
)
def test_k_scales_with_experience(transactions: int, k: int) -> None:
    assert k_factor(transactions) == k


def test_equals_expect_half_each_and_a_wide_gap_is_still_a_number() -> None:
    assert expected(1200, 1200) == 0.5
    assert expected(1600, 1200) == pytest.approx(10 / 11)
    assert expected(100, 10**9) < 1e-200
    assert expected(10**9, 100) == 1.0


@pytest.mark.parametrize("amount", [None, 0, -5, "50", True, "much"])
def test_only_a_positive_number_is_an_amount(amount: Any) -> None:
    one, other = Standing(key=b"a"), Standing(key=b"b")
    assert completion_gain(one, other, amount, WEIGHTED, FIRST) == 8


@given(standings, standings, st.integers(1, 10**400))
def test_a_declared_amount_multiplies_at_most_by_three(own: Standing, other: Standing, amount: int) -> None:
    plain = dispute_loss(own, other, None, WEIGHTED)
    assert dispute_loss(own, other, amount, WEIGHTED) <= 3 * plain + 3
    assert dispute_loss(own, other, amount, SEED) == plain


@given(standings, standings, st.integers(1, 100))
def test_everybody_gains_something_and_never_more_than_half_of_k(
    own: Standing, other: Standing, nth: int
) -> None:
    gain = completion_gain(own, other, None, SEED, PairHistory(nth))
    assert 1 <= gain <= k_factor(own.transactions) / 2
    assert completion_gain(own, other, None, RatingRules(diminishing=True), PairHistory(nth)) <= gain


@given(standings, standings)
def test_a_dispute_never_makes_rating(fault: Standing, other: Standing) -> None:
    loss = dispute_loss(fault, other, None, SEED)
    assert 1 <= half_of_loss(loss) <= loss <= k_factor(fault.transactions)


def test_a_completion_during_the_pause_counts_for_nothing() -> None:
    rules = RatingRules(pair_cooldown=1000)
    assert pair_history((), rules) == PairHistory()
    history = pair_history((0, 999, 1000, 1500, 2500), rules)
    assert history == PairHistory(3, 2500)
    assert history.cooling(3499, rules)
    assert not history.cooling(3500, rules)
    assert not history.cooling(
        0, RatingRules(diminishing=True)
    )  # a clock that was set back, and no such rule
