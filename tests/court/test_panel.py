"""The draw that anybody can repeat (seed 000, reveal 5 to 9; agentchat wire 13.3)."""

from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.court.panel import (
    PANEL_SIZE,
    Candidate,
    commitment_of,
    draw_panel,
    draw_replacement,
    eligible,
    seed_of,
    shuffled,
)
from moothall.court.rules import CourtRules
from moothall.market.records import Standing
from tests.identity.vectors import VECTORS

VECTOR = VECTORS["court_panel"]
pools = st.lists(st.text(min_size=1), unique=True)


def test_the_commitment_and_the_seed_are_the_vectors() -> None:
    """Seed 000, reveal 3 and 5."""
    assert commitment_of(VECTOR["disputant_nonce"]) == VECTOR["commitment"]
    seed = seed_of(VECTOR["proposal_id"], VECTOR["disputant_nonce"], VECTOR["server_nonce"])
    assert seed == VECTOR["seed"]
    assert VECTOR["panel_size"] == PANEL_SIZE


@pytest.mark.parametrize("vector", VECTOR["cases"], ids=lambda vector: vector["label"])
def test_the_shuffle_is_the_vectors(vector: dict[str, Any]) -> None:
    """Seed 000, reveal 9: SHA-256 chain and Fisher-Yates."""
    assert shuffled(VECTOR["seed"], vector["pool"]) == vector["shuffled"]
    assert draw_panel(VECTOR["seed"], vector["pool"]) == vector["panel"]


@given(st.text(), pools)
def test_a_shuffle_loses_nobody_and_is_the_same_every_time(seed: str, pool: list[str]) -> None:
    order = shuffled(seed, pool)
    assert sorted(order) == sorted(pool)
    assert shuffled(seed, pool) == order


@given(st.text(), st.integers(3, 20), pools)
def test_a_replacement_is_the_first_of_a_shuffle_of_its_own(seed: str, number: int, pool: list[str]) -> None:
    own = sha256(f"{seed}:{number}".encode()).hexdigest()
    assert draw_replacement(seed, number, pool) == (shuffled(own, pool)[0] if pool else None)


def test_every_seat_is_open_to_everybody() -> None:
    """A thousand seeds: everybody is drawn about as often as everybody else."""
    pool = [f"@{number:08x}" for number in range(10)]
    drawn = [member for number in range(1000) for member in draw_panel(f"{number:064x}", pool)]
    for member in pool:
        assert 230 <= drawn.count(member) <= 370


RULES = CourtRules()


def candidate(name: str) -> Candidate:
    return Candidate(name.encode(), f"@{name}")


@pytest.mark.parametrize(
    ("rating", "transactions", "is_eligible"),
    [(1200, 10, True), (1199, 10, False), (1200, 9, False), (2000, 100, True)],
)
def test_rating_and_transactions_make_an_arbiter(rating: int, transactions: int, is_eligible: bool) -> None:
    """Seed 000, reveal 7: rating >= 1200, transactions >= 10."""
    standing = Standing(key=b"a", rating=rating, transactions=transactions)
    pool = eligible([candidate("a")], {b"a": standing}, {}, barred=(), rules=RULES)
    assert bool(pool) is is_eligible


def test_who_has_no_standing_or_is_barred_is_not_in_the_pool() -> None:
    """Seed 000, reveal 7: not a party."""
    standings = {key: Standing(key=key, rating=1300, transactions=10) for key in (b"a", b"b")}
    candidates = [candidate(name) for name in "cba"]
    assert eligible(candidates, standings, {}, barred={b"b"}, rules=RULES) == [candidate("a")]


def test_the_pool_is_sorted_by_address() -> None:
    standings = {name.encode(): Standing(key=name.encode(), transactions=10) for name in "abc"}
    pool = eligible([candidate(name) for name in "bca"], standings, {}, barred=(), rules=RULES)
    assert [each.address for each in pool] == ["@a", "@b", "@c"]


def test_the_reference_limits_how_many_panels_an_arbiter_sits_on() -> None:
    """Agentchat wire 20, row 40."""
    standings = {name.encode(): Standing(key=name.encode(), transactions=10) for name in "ab"}
    pool = eligible(
        [candidate("a"), candidate("b")],
        standings,
        {b"a": 3, b"b": 2},
        barred=(),
        rules=CourtRules(max_panels=3),
    )
    assert pool == [candidate("b")]
