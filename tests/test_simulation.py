"""The simulator of cartels: its score is that of the hall, and its results follow from its rules."""

import math
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from moothall import simulation
from moothall.market import entropy
from moothall.simulation import COMPONENTS, NEVER, Model, Result, Samples, act, measure, simulate, sweep

SMALL = Model(agents=12, cartel_fraction=0.25, epochs=24, trials=8)

messages = st.lists(
    st.tuples(st.integers(0, 2**40), st.integers(0, 2**40), st.integers(0, 6), st.integers(0, 4)), max_size=12
)
models = st.builds(
    Model,
    agents=st.integers(2, 15),
    cartel_fraction=st.floats(0, 1),
    cartel_type=st.sampled_from(simulation.CARTEL_TYPES),
    epochs=st.integers(1, 25),
    trials=st.integers(1, 4),
    base_stake=st.floats(0, 1000),
    rep_premium=st.floats(0, 1000),
    slash_rate=st.floats(0, 1),
    anomaly_threshold=st.floats(0, 2),
    seed=st.integers(1, 2**32 - 1),
)


def samples_of(agents: list[list[tuple[int, int, int, int]]]) -> Samples:
    rows = [
        (owner, place == 0, *each) for owner, sent in enumerate(agents) for place, each in enumerate(sent)
    ]
    columns = [np.array([row[column] for row in rows], dtype=np.int64) for column in range(6)]
    return Samples(len(agents), columns[0], columns[1].astype(np.bool_), *columns[2:])


# -- the score ------------------------------------------------------------------------------------------


@given(st.lists(messages, min_size=1, max_size=6))
def test_the_score_is_that_of_the_hall(agents: list[list[tuple[int, int, int, int]]]) -> None:
    bits = measure(samples_of(agents))
    for agent, sent in enumerate(agents):
        expected = entropy.measure(
            slots=list(accumulate(gap for gap, *_ in sent)),
            bids=[bid for _, bid, *_ in sent],
            selected=[bytes([peer]) for *_, peer, _ in sent],
            notaries=[bytes([notary]) for *_, notary in sent],
        )
        for name in COMPONENTS:
            found, wanted = bits[name][agent], getattr(expected, name)
            assert math.isnan(found) if wanted is None else found == pytest.approx(wanted, abs=1e-9)


def test_an_honest_agent_is_more_varied_than_a_script() -> None:
    honest = measure(act(np.random.default_rng(1), 500, 99))
    scripted = measure(act(np.random.default_rng(1), 500, 99, COMPONENTS))
    for name in COMPONENTS:
        assert np.nanmean(honest[name]) > entropy.THRESHOLDS[name] > np.nanmean(scripted[name]) - 0.2


@pytest.mark.parametrize("name", COMPONENTS)
def test_a_script_for_one_component_leaves_the_others_alone(name: str) -> None:
    honest = measure(act(np.random.default_rng(1), 500, 99))
    scripted = measure(act(np.random.default_rng(2), 500, 99, [name]))
    means = {each: np.nanmean(scripted[each]) - np.nanmean(honest[each]) for each in COMPONENTS}
    assert means.pop(name) < -0.5
    assert all(abs(difference) < 0.1 for difference in means.values())


def test_a_c2_cartel_follows_one_script_after_the_other() -> None:
    model = structs.replace(SMALL, cartel_type="c2")
    followed = [simulation._scripts(model, epoch) for epoch in range(5)]
    assert followed == [("ht",), ("hb",), ("hs",), ("hv",), ("ht",)]
    assert simulation._scripts(SMALL, 3) == COMPONENTS


# -- the results ----------------------------------------------------------------------------------------


def check(result: Result) -> None:
    assert 0 <= result.detection_rate <= 1
    assert 0 <= result.false_positive_rate <= 1
    if result.detection_rate == 0:
        assert result.median_detection_epoch is result.p95_detection_epoch is None
    else:
        assert result.median_detection_epoch is not None
        assert result.p95_detection_epoch is not None
        assert 1 <= result.median_detection_epoch <= result.p95_detection_epoch <= result.epochs
    most = result.rep_premium * result.epochs
    assert -result.base_stake * result.slash_rate <= result.mean_cartel_profit + 1e-9
    assert result.median_cartel_profit <= most
    total = sum(result.component_weights.values())
    assert total == 0 or total == pytest.approx(1)


@settings(max_examples=40, deadline=None)
@given(models)
def test_results_are_possible_and_the_seed_decides_them(model: Model) -> None:
    result = simulate(model)
    check(result)
    assert simulate(model) == result
    assert {name: getattr(result, name) for name in structs.asdict(model)} == structs.asdict(model)


@settings(max_examples=20, deadline=None)
@given(models, st.floats(0, 2))
def test_a_higher_threshold_flags_no_more_agents(model: Model, more: float) -> None:
    lenient = simulate(structs.replace(model, anomaly_threshold=model.anomaly_threshold + more))
    strict = simulate(model)
    assert lenient.detection_rate <= strict.detection_rate
    assert lenient.false_positive_rate <= strict.false_positive_rate


@settings(max_examples=20, deadline=None)
@given(models)
def test_the_least_stake_makes_the_median_profit_nothing(model: Model) -> None:
    least = simulate(model).min_stake
    if least is None:
        most = structs.replace(model, base_stake=model.base_stake * simulation.MOST_STAKE)
        assert simulate(most).median_cartel_profit > 0
        return
    assert simulate(structs.replace(model, base_stake=least)).median_cartel_profit <= 0
    if least > 0:
        below = structs.replace(model, base_stake=least * 0.999 - model.base_stake / 1e6)
        assert simulate(below).median_cartel_profit > 0


def test_another_seed_is_another_play() -> None:
    model = structs.replace(SMALL, anomaly_threshold=0.8)
    other = structs.replace(model, seed=43)
    assert simulate(model).component_weights != simulate(other).component_weights


def test_the_usual_cartel_is_detected_at_once() -> None:
    result = simulate(structs.replace(SMALL, agents=100, cartel_fraction=0.1, trials=5))
    assert (result.detection_rate, result.median_detection_epoch, result.min_stake) == (1.0, 1.0, 0.0)
    assert result.false_positive_rate < 0.01
    assert result.component_weights["ht"] == max(result.component_weights.values())


def test_a_sweep_plays_both_types_with_each_fraction() -> None:
    played = [
        (result.cartel_type, result.cartel_fraction) for result in sweep(structs.replace(SMALL, epochs=2))
    ]
    assert played == [(kind, share) for kind in ("c1", "c2") for share in (0.05, 0.10, 0.20, 0.30)]


# -- what a flag costs ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flagged", "epochs", "profit"),
    [
        (NEVER, 16, 0.0),  # the reputation is 48
        (NEVER, 17, 5.0),  # 51: the first premium
        (NEVER, 30, 70.0),
        (1, 30, -5.0),
        (17, 30, -5.0),  # the epoch of the flag earns nothing
        (18, 30, 0.0),
        (30, 30, 60.0),
    ],
)
def test_a_cartel_earns_with_its_reputation_until_it_is_flagged(
    flagged: int, epochs: int, profit: float
) -> None:
    model = Model(epochs=epochs)
    (found,) = simulation._profits(model, np.array([[flagged]]), model.base_stake)
    assert found == profit


@pytest.mark.parametrize(
    ("agents", "fraction", "cartel"), [(100, 0.1, 10), (100, 0, 1), (100, 1, 99), (2, 0.5, 1)]
)
def test_there_are_always_both_kinds_of_agents(agents: int, fraction: float, cartel: int) -> None:
    assert Model(agents=agents, cartel_fraction=fraction).cartel == cartel


def test_large_meshes_are_played_one_trial_at_a_time() -> None:
    assert list(simulation._blocks(Model(agents=10_000, trials=3))) == [1, 1, 1]
    assert list(simulation._blocks(Model(agents=4096, trials=3))) == [2, 1]
