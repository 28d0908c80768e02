"""Entropy: cases that can be worked out by hand, and what holds for all."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.market.entropy import (
    BASE_STAKE,
    CIRCUIT_BREAKER,
    FLAG,
    THRESHOLDS,
    WEIGHTS,
    Entropy,
    measure,
    required_stake,
    systemic_risk,
)

A, B, C, D = b"A", b"B", b"C", b"D"


def measured(**samples: Any) -> Entropy:
    return measure(**{"slots": (), "bids": (), "selected": (), "notaries": (), **samples})


NOTHING = measured()


def test_without_samples_there_is_no_entropy_and_no_anomaly() -> None:
    assert Entropy(ht=None, hb=None, hs=None, hv=None) == NOTHING
    assert NOTHING.anomaly == 0
    assert not NOTHING.is_flagged


@pytest.mark.parametrize(
    ("name", "component", "samples"),
    [
        ("slots", "ht", (1, 2, 3, 4)),
        ("bids", "hb", (1, 1, 1, 1)),
        ("selected", "hs", (A, A, A, A)),
        ("notaries", "hv", (A, A, A, A)),
    ],
)
def test_fewer_than_four_samples_say_nothing(name: str, component: str, samples: tuple[Any, ...]) -> None:
    assert getattr(measured(**{name: samples}), component) == 0.0
    assert getattr(measured(**{name: samples[:3]}), component) is None


@pytest.mark.parametrize(
    ("agents", "bits"), [((A, A, B, B), 1.0), ((A, B, C, D), 2.0), ((A, A, A, B), 0.8112781244591328)]
)
def test_agents_and_notaries_are_told_apart(agents: tuple[bytes, ...], bits: float) -> None:
    assert measured(selected=agents).hs == pytest.approx(bits)
    assert measured(notaries=agents).hv == pytest.approx(bits)


@pytest.mark.parametrize(
    ("slots", "bits"),
    [
        ((0, 0, 1, 2, 2), 0.0),  # gaps of 0 and of 1 are in one bucket
        ((0, 1, 3, 7, 15), 2.0),  # 1, 2, 4, 8
        ((0, 2, 5, 7, 10), 0.0),  # 2 and 3 are in one bucket
        ((9, 5, 1, 0, 0), 0.0),  # a clock that goes back is no gap
        ((0, 100, 200, 300), 0.0),  # three gaps are enough for four messages
    ],
)
def test_gaps_are_counted_by_their_size(slots: tuple[int, ...], bits: float) -> None:
    assert measured(slots=slots).ht == pytest.approx(bits)


@pytest.mark.parametrize(
    ("bids", "bits"),
    [((0, 0, 1, 1), 1.0), ((1, -1, 1, -1), 0.0), ((2, 3, 4, 7), 1.0), ((0, 1, 2, 2**100), 2.0)],
)
def test_bids_are_counted_by_their_size_and_none_is_apart(bids: tuple[int, ...], bits: float) -> None:
    assert measured(bids=bids).hb == pytest.approx(bits)


def test_each_component_that_falls_short_counts_by_its_weight() -> None:
    assert sum(WEIGHTS.values()) == pytest.approx(1)
    assert THRESHOLDS.keys() == WEIGHTS.keys()
    for name, threshold in THRESHOLDS.items():
        alone = Entropy(**{**dict.fromkeys(THRESHOLDS), name: threshold - 0.5})
        assert alone.anomaly == pytest.approx(WEIGHTS[name] * 0.5)
        assert Entropy(**{**dict.fromkeys(THRESHOLDS), name: threshold + 1}).anomaly == 0


def test_a_script_is_flagged_and_variety_is_not() -> None:
    script = measured(slots=range(0, 4000, 100), bids=[5] * 9, selected=[A] * 9, notaries=[A] * 9)
    assert script.anomaly == pytest.approx(0.35 * 2 + 0.20 * 1.5 + 0.30 * 1.5 + 0.15 * 1)
    assert script.is_flagged
    varied = measured(slots=(0, 1, 3, 7, 15), bids=(0, 1, 2, 4), selected=(A, B, C, D), notaries=(A, B, C, D))
    assert varied.anomaly == 0
    assert not Entropy(ht=None, hb=None, hs=None, hv=None).is_flagged


def test_the_risk_is_the_share_of_agents_above_the_flag() -> None:
    assert systemic_risk([]) == 0
    assert systemic_risk([0, FLAG, FLAG + 0.01, 2]) == CIRCUIT_BREAKER


def test_the_stake_grows_with_anomaly_and_cluster() -> None:
    assert required_stake(0, 0) == BASE_STAKE == 10_000_000
    assert required_stake(1, 0) == 18_700_000
    assert required_stake(0, 1) == 13_000_000
    assert required_stake(0.5, 0.5) == 15_850_000


samples = st.lists(st.integers(0, 5), min_size=4, max_size=60)


@given(samples, st.randoms(use_true_random=False))
def test_entropy_is_bounded_and_knows_no_order(numbers: list[int], dice: Any) -> None:
    agents = [bytes((number,)) for number in numbers]
    bits = measured(selected=agents).hs
    assert bits is not None
    assert 0 <= bits <= math.log2(len(set(agents))) + 1e-9
    dice.shuffle(agents)
    assert measured(selected=agents).hs == pytest.approx(bits)
