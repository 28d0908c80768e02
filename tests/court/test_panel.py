"""The draw that anybody can repeat (seed 000, reveal 5 to 9; agentchat wire 13.3)."""

from collections import Counter
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.court.panel import (
    PANEL_SIZE,
    Candidate,
    Experience,
    Why,
    commitment_of,
    draw_replacement,
    eligible,
    experienced,
    lottery,
    pool_hash_of,
    seed_of,
    shuffled,
    walk,
)
from moothall.court.rules import CourtRules
from moothall.market.records import Standing
from tests.court.support import draw_panel
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


def test_the_hash_of_a_pool_is_that_of_its_ids_joined_with_commas() -> None:
    assert pool_hash_of(["@a", "@b"]) == sha256(b"@a,@b").hexdigest()


@given(st.text(), pools, st.integers(0, 5), st.data())
def test_a_walk_goes_down_the_order_and_passes_over_who_is_unfit(
    seed: str, pool: list[str], seats: int, data: st.DataObject
) -> None:
    order = shuffled(seed, pool)
    past = data.draw(st.sets(st.sampled_from(pool))) if pool else set()
    unfit: dict[str, Why] = {each: "absent" for each in pool if data.draw(st.booleans())}
    seated, skipped = walk(order, seats, past, unfit)
    way = [each for each in order if each not in past][: len(seated) + len(skipped)]
    assert [each for each in way if each not in unfit] == seated
    assert [(each, unfit[each]) for each in way if each in unfit] == skipped
    assert len(seated) == min(seats, len([each for each in order if each not in past and each not in unfit]))


@given(st.text(), st.sets(st.integers(0, 60), min_size=3), st.data())
def test_agents_that_go_away_or_decline_only_give_up_their_own_seats(
    seed: str, numbers: set[int], data: st.DataObject
) -> None:
    """Whatever an attacker's agents do after the intent, each seat that was another's stays that one's."""
    pool = sorted(f"@{number:02d}" for number in numbers)
    own = data.draw(st.sets(st.sampled_from(pool)))
    order = shuffled(seed, pool)
    untouched = walk(order, PANEL_SIZE, (), {}).seated
    gone: dict[str, Why] = dict.fromkeys(data.draw(st.sets(st.sampled_from(pool))) & own, "absent")
    seated, skipped = walk(order, PANEL_SIZE, (), gone)
    panel, past = set(seated), {*seated, *(each for each, _ in skipped)}
    for decliner in data.draw(st.lists(st.sampled_from(pool), unique=True)):
        if decliner in own & panel:
            replacement = walk(order, 1, past, gone)
            panel = (panel - {decliner}) | set(replacement.seated)
            past |= {*replacement.seated, *(each for each, _ in replacement.skipped)}
    assert set(untouched) - own <= panel
    assert len(panel & own) <= len(set(untouched) & own)


def test_the_lottery_is_another_with_each_nonce_and_favours_no_key() -> None:
    candidates = [Candidate(bytes([number]) * 32, f"@{number}") for number in range(20)]
    first = Counter(lottery(candidates, f"{nonce:032x}")[0].address for nonce in range(2000))
    assert len(first) == 20
    assert all(60 <= times <= 150 for times in first.values())
    assert lottery(reversed(candidates), "n") == lottery(candidates, "n")


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
    pool = eligible([candidate("a")], {b"a": standing}, {}, RULES)
    assert bool(pool) is is_eligible


def test_an_agent_without_a_standing_is_not_eligible_and_the_others_keep_their_order() -> None:
    standings = {key: Standing(key=key, rating=1300, transactions=10) for key in (b"a", b"b")}
    found = eligible([candidate(name) for name in "cba"], standings, {}, RULES)
    assert found == [candidate("b"), candidate("a")]


def test_the_reference_limits_how_many_panels_an_arbiter_sits_on() -> None:
    """Agentchat wire 20, row 40."""
    standings = {name.encode(): Standing(key=name.encode(), transactions=10) for name in "ab"}
    pool = eligible(
        [candidate("a"), candidate("b")],
        standings,
        {b"a": 3, b"b": 2},
        CourtRules(max_panels=3),
    )
    assert pool == [candidate("b")]


@pytest.mark.parametrize(
    ("counterparties", "since", "admitted"),
    [(3, 0, True), (2, 0, False), (9, 1, False), (9, None, False), (9, 0, True)],
)
def test_an_operator_may_ask_for_counterparties_and_age(
    counterparties: int, since: int | None, admitted: bool
) -> None:
    rules = CourtRules(arbiter_counterparties=3, arbiter_age=1000)
    known = {b"a": Experience(counterparties, since)}
    assert bool(experienced([candidate("a")], known, rules, 1000)) is admitted


def test_without_such_rules_newcomers_are_admitted() -> None:
    assert experienced([candidate("a")], {b"a": Experience(0, None)}, RULES, 0) == [candidate("a")]
