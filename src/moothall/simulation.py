"""How well the entropy score finds cartels, played many times over (mesh wire 16, 11.3).

Agents of a cartel deal with each other by a script, to raise their reputation faster than honest work does. Each
epoch every agent sends messages, and each message has a time, a bid, a counterparty and a notary. The anomaly
of these is measured as in a hall (`market/entropy.py`). The first epoch in which an agent is flagged costs it a
share of its stake, and stops it. An operator learns which stake makes a cartel unprofitable.

An honest agent has random times, bids, counterparties and notaries. A `c1` cartel has a script for all four, each
epoch. A `c2` cartel has a script for one of the four each epoch, in turn, and hides in the other three.

The same seed gives the same result. Nothing here reads a clock, a file or a network.
"""

from collections.abc import Iterable, Iterator
from typing import Final, Literal

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from moothall.market.entropy import FLAG, LEAST_SAMPLES, THRESHOLDS, WEIGHTS

CartelType = Literal["c1", "c2"]
CARTEL_TYPES: Final[tuple[CartelType, ...]] = ("c1", "c2")
SWEPT_FRACTIONS: Final = (0.05, 0.10, 0.20, 0.30)

COMPONENTS: Final = tuple(THRESHOLDS)  # ht, hb, hs, hv: the order in which c2 follows its scripts
MESSAGES: Final = 20  # per agent and epoch, on average
GAP: Final = 100  # slots between two messages, on average
BID: Final = 1_000_000  # the median, in millionths
BID_SPREAD: Final = 1.0  # of the logarithm
NOTARIES: Final = 5

JITTER: Final = 0.15  # of a cartel's times
SAME_BIDS: Final = 0.90  # the share of a cartel's bids that are equal
RING: Final = 3  # counterparties of a cartel's agent
OWN_NOTARIES: Final = 2

CARTEL_GAIN: Final = 3  # reputation per epoch; honest work gains 1
PREMIUM_FROM: Final = 50  # the reputation that earns the premium

STAKE_STEPS: Final = 40  # of the binary search
MOST_STAKE: Final = 500  # times the base stake; a larger one is not looked for
ROWS_AT_ONCE: Final = 8192  # agents of several trials that are measured together; bounds the memory

NEVER: Final = 0  # in place of the epoch in which an agent was flagged; epochs count from 1

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Model(Struct, frozen=True, kw_only=True):
    agents: int = 100
    cartel_fraction: float = 0.10
    cartel_type: CartelType = "c1"
    epochs: int = 30
    trials: int = 500
    base_stake: float = 10.0
    rep_premium: float = 5.0
    slash_rate: float = 0.5
    anomaly_threshold: float = FLAG
    seed: int = 42

    @property
    def cartel(self) -> int:
        """How many agents form the cartel: at least one, and not all."""
        return min(max(1, round(self.agents * self.cartel_fraction)), self.agents - 1)


class Result(Struct, frozen=True, kw_only=True):
    """What came of all trials. An epoch is None if no agent of the cartel was flagged, and `min_stake` is None if
    no stake up to 500 times the base is enough."""

    agents: int
    cartel_fraction: float
    cartel_type: CartelType
    epochs: int
    trials: int
    base_stake: float
    rep_premium: float
    slash_rate: float
    anomaly_threshold: float
    seed: int
    detection_rate: float  # the share of the cartel's agents that were flagged in some epoch
    false_positive_rate: float  # the share of honest agents that were
    median_detection_epoch: float | None  # of the agents that were flagged; the first epoch is 1
    p95_detection_epoch: float | None
    mean_cartel_profit: float  # per agent of the cartel
    median_cartel_profit: float  # of the trials
    min_stake: float | None  # with which the median profit is 0 or less
    component_weights: dict[str, float]  # which share of the detections is lost without the component


class Samples(Struct, frozen=True):
    """What a number of agents did in one epoch. Messages of one agent stand together, in their order.

    `first` is true for an agent's first message, which has no gap before it.
    """

    agents: int
    owner: Ints
    first: NDArray[np.bool_]
    gaps: Ints
    bids: Ints
    counterparties: Ints
    notaries: Ints


def simulate(model: Model) -> Result:
    flagged: list[Ints] = []  # the epochs of the cartel's agents, a row per trial
    without: dict[str, list[Ints]] = {name: [] for name in COMPONENTS}
    false_positives = 0
    rng = np.random.default_rng(model.seed)
    for trials in _blocks(model):
        cartel = _play(model, rng, trials * model.cartel, is_cartel=True)
        honest = _play(model, rng, trials * (model.agents - model.cartel), is_cartel=False)
        flagged.append(_first_flags(model, cartel, COMPONENTS).reshape(trials, model.cartel))
        for name, kept in without.items():
            others = [other for other in COMPONENTS if other != name]
            kept.append(_first_flags(model, cartel, others))
        false_positives += int(np.count_nonzero(_first_flags(model, honest, COMPONENTS)))
    epochs = np.concatenate(flagged)
    found = epochs[epochs != NEVER]
    profits = _profits(model, epochs, model.base_stake)
    return Result(
        **structs.asdict(model),
        detection_rate=_share(epochs),
        false_positive_rate=false_positives / (model.trials * (model.agents - model.cartel)),
        median_detection_epoch=float(np.median(found)) if found.size else None,
        p95_detection_epoch=float(np.percentile(found, 95)) if found.size else None,
        mean_cartel_profit=float(profits.mean()),
        median_cartel_profit=float(np.median(profits)),
        min_stake=_min_stake(model, epochs),
        component_weights=_weights(_share(epochs), {name: _share(each) for name, each in _joined(without)}),
    )


def sweep(model: Model) -> Iterator[Result]:
    """The same for both types of cartel and the usual fractions."""
    for cartel_type in CARTEL_TYPES:
        for fraction in SWEPT_FRACTIONS:
            yield simulate(structs.replace(model, cartel_type=cartel_type, cartel_fraction=fraction))


# -- what agents do -------------------------------------------------------------------------------------


def act(rng: np.random.Generator, agents: int, peers: int, scripted: Iterable[str] = ()) -> Samples:
    """One epoch of agents that each have `peers` others to deal with. They follow a script in the components that
    are named, and are honest in the others."""
    scripts = frozenset(scripted)
    counts = rng.poisson(MESSAGES, agents)
    owner = np.repeat(np.arange(agents), counts)
    total = owner.size
    gaps = rng.exponential(GAP, total)
    if "ht" in scripts:
        gaps = GAP * rng.uniform(1 - JITTER, 1 + JITTER, total)
    bids = rng.lognormal(np.log(BID), BID_SPREAD, total)
    if "hb" in scripts:
        bids = np.where(rng.random(total) < SAME_BIDS, BID, bids)
    ring = min(RING, peers)
    counterparties = rng.integers(ring, size=total) if "hs" in scripts else _zipf(rng, peers, total)
    notaries = rng.integers(OWN_NOTARIES if "hv" in scripts else NOTARIES, size=total)
    return Samples(
        agents=agents,
        owner=owner,
        first=np.append(True, owner[1:] != owner[:-1])[:total],
        gaps=gaps.astype(np.int64),
        bids=bids.astype(np.int64),
        counterparties=counterparties,
        notaries=notaries,
    )


def _zipf(rng: np.random.Generator, peers: int, total: int) -> Ints:
    """The peer of rank k is chosen in proportion to 1/k."""
    reached = np.cumsum(1 / np.arange(1, peers + 1))
    chosen: Ints = np.searchsorted(reached, rng.random(total) * reached[-1], side="right")
    return chosen


def _play(model: Model, rng: np.random.Generator, agents: int, *, is_cartel: bool) -> list[dict[str, Floats]]:
    """For each epoch, what each component adds to the anomaly of each agent."""
    return [
        _shortfalls(measure(act(rng, agents, model.agents - 1, _scripts(model, epoch) if is_cartel else ())))
        for epoch in range(model.epochs)
    ]


def _scripts(model: Model, epoch: int) -> tuple[str, ...]:
    return COMPONENTS if model.cartel_type == "c1" else (COMPONENTS[epoch % len(COMPONENTS)],)


def _blocks(model: Model) -> Iterator[int]:
    """How many trials are played together, until all are played."""
    most = max(1, ROWS_AT_ONCE // model.agents)
    for start in range(0, model.trials, most):
        yield min(most, model.trials - start)


# -- how it is measured ---------------------------------------------------------------------------------


def measure(samples: Samples) -> dict[str, Floats]:
    """The entropy of each agent by component, in bits; NaN where there are too few samples.

    It is what `market.entropy.measure` says of each agent, for many agents at once.
    """
    later = ~samples.first
    messages = np.bincount(samples.owner, minlength=samples.agents)
    enough = messages >= LEAST_SAMPLES
    labels = {
        "hb": np.where(samples.bids == 0, -1, _bucket(samples.bids)) + 1,
        "hs": samples.counterparties,
        "hv": samples.notaries,
    }
    bits = {"ht": _bits(samples.agents, samples.owner[later], _bucket(samples.gaps[later]))}
    bits |= {name: _bits(samples.agents, samples.owner, each) for name, each in labels.items()}
    return {name: np.where(enough, found, np.nan) for name, found in bits.items()}


def _bucket(numbers: Ints) -> Ints:
    """The whole part of the logarithm to base 2; 0 of 0."""
    return np.maximum(np.frexp(np.abs(numbers).astype(np.float64))[1].astype(np.int64) - 1, 0)


def _bits(agents: int, owner: Ints, labels: Ints) -> Floats:
    """The Shannon entropy of each agent's labels. Labels are not negative."""
    width = int(labels.max(initial=0)) + 1
    cells, counts = np.unique(owner * width + labels, return_counts=True)
    totals = np.bincount(owner, minlength=agents).astype(np.float64)
    known = np.bincount(cells // width, weights=counts * np.log2(counts), minlength=agents)
    some = np.maximum(totals, 1)
    return np.maximum(np.log2(some) - known / some, 0.0)


def _shortfalls(bits: dict[str, Floats]) -> dict[str, Floats]:
    return {
        name: WEIGHTS[name] * np.nan_to_num(np.maximum(THRESHOLDS[name] - found, 0.0))
        for name, found in bits.items()
    }


def _first_flags(model: Model, epochs: list[dict[str, Floats]], components: Iterable[str]) -> Ints:
    """The epoch in which each agent is flagged first, if these components count."""
    names = tuple(components)
    flags = np.stack(
        [np.sum([found[name] for name in names], axis=0) > model.anomaly_threshold for found in epochs]
    )
    return np.where(flags.any(axis=0), flags.argmax(axis=0) + 1, NEVER)


# -- what it is worth -----------------------------------------------------------------------------------


def _profits(model: Model, flagged: Ints, stake: float) -> Floats:
    """The mean profit of the cartel's agents in each trial.

    An agent earns the premium in each epoch at the end of which its reputation is high enough and it is not
    flagged.
    """
    active = np.where(flagged == NEVER, model.epochs, flagged - 1)
    unpaid = -(-PREMIUM_FROM // CARTEL_GAIN) - 1  # epochs until the reputation is there
    earned = model.rep_premium * np.maximum(active - unpaid, 0)
    lost = np.where(flagged == NEVER, 0.0, stake * model.slash_rate)
    profits: Floats = (earned - lost).mean(axis=1)
    return profits


def _min_stake(model: Model, flagged: Ints) -> float | None:
    """Which agent is flagged when does not depend on the stake, so that one set of trials serves all steps."""

    def is_enough(stake: float) -> bool:
        return bool(np.median(_profits(model, flagged, stake)) <= 0)

    low, high = 0.0, MOST_STAKE * model.base_stake
    if is_enough(low):
        return low
    if not is_enough(high):
        return None
    for _ in range(STAKE_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _share(flagged: Ints) -> float:
    return float(np.count_nonzero(flagged)) / flagged.size


def _joined(kept: dict[str, list[Ints]]) -> Iterator[tuple[str, Ints]]:
    for name, each in kept.items():
        yield name, np.concatenate(each)


def _weights(rate: float, without: dict[str, float]) -> dict[str, float]:
    """The detections that are lost without a component, as shares of all such losses; 0 if there are none."""
    losses = {name: max(0.0, rate - share) for name, share in without.items()}
    total = sum(losses.values())
    return {name: loss / total if total else 0.0 for name, loss in losses.items()}
