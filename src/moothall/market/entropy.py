"""How varied an agent's behaviour is: a sign of agents that only deal with each other (mesh wire 11.3).

Four things are looked at per epoch: the times between messages, the amounts that were bid, the agents that were
chosen, and the notaries. Agents that follow a script have little entropy in them. What falls short of a
threshold adds up to the anomaly. It is a signal for an operator, and a factor of a stake; it proves nothing
against an agent.
"""

import math
from collections.abc import Hashable, Iterable
from typing import Final, TypeVar

from msgspec import Struct

LEAST_SAMPLES: Final = 4  # fewer say nothing; of times, this counts messages
FLAG: Final = 0.55  # the anomaly above which an agent is suspicious
CIRCUIT_BREAKER: Final = 0.50  # the share of suspicious agents above which the whole mesh is

# By component: what is expected, and how much the lack of it counts.
THRESHOLDS: Final = {"ht": 2.0, "hb": 1.5, "hs": 1.5, "hv": 1.0}
WEIGHTS: Final = {"ht": 0.35, "hb": 0.20, "hs": 0.30, "hv": 0.15}

BASE_STAKE: Final = 10_000_000  # millionths
_ANOMALY_FACTOR: Final = 0.870
_CLUSTER_FACTOR: Final = 0.300

_NO_BID: Final = -1  # the bucket of bids of 0

Sample = TypeVar("Sample", bound=Hashable)


class Entropy(Struct, kw_only=True, frozen=True, gc=False):
    """In bits; None where there are too few samples. Of times, bids, selected agents and verifiers (notaries)."""

    ht: float | None
    hb: float | None
    hs: float | None
    hv: float | None

    @property
    def is_known(self) -> bool:
        """True if there were enough samples of anything."""
        return any(found is not None for found in (self.ht, self.hb, self.hs, self.hv))

    @property
    def anomaly(self) -> float:
        components = {"ht": self.ht, "hb": self.hb, "hs": self.hs, "hv": self.hv}
        return sum(
            WEIGHTS[name] * max(0.0, THRESHOLDS[name] - found)
            for name, found in components.items()
            if found is not None
        )

    @property
    def is_flagged(self) -> bool:
        return self.anomaly > FLAG


class Samples:
    """What an agent did in an epoch, message by message. Keeps how often each thing was seen, not the messages."""

    __slots__ = ("_bids", "_gaps", "_last", "_messages", "_notaries", "_selected")

    def __init__(self) -> None:
        self._messages = 0
        self._last = 0
        self._gaps: dict[int, int] = {}
        self._bids: dict[int, int] = {}
        self._selected: dict[bytes, int] = {}
        self._notaries: dict[bytes, int] = {}

    def message(self, slot: int) -> None:
        """The agent sent a message. Messages come in their order."""
        if self._messages:
            _count(self._gaps, _bucket(max(0, slot - self._last)))
        self._messages += 1
        self._last = slot

    def bid(self, amount: int) -> None:
        _count(self._bids, _bucket(abs(amount)) if amount else _NO_BID)

    def selected(self, agent: bytes) -> None:
        """The agent accepted an offer of this one."""
        _count(self._selected, agent)

    def notary(self, agent: bytes) -> None:
        """This notary was assigned to a conversation in which the agent accepted."""
        _count(self._notaries, agent)

    def entropy(self) -> Entropy:
        return Entropy(
            ht=_bits(self._gaps) if self._messages >= LEAST_SAMPLES else None,
            hb=_bits_of_enough(self._bids),
            hs=_bits_of_enough(self._selected),
            hv=_bits_of_enough(self._notaries),
        )


def measure(
    *, slots: Iterable[int], bids: Iterable[int], selected: Iterable[bytes], notaries: Iterable[bytes]
) -> Entropy:
    """The entropy of what an agent did in an epoch: when it sent messages, in their order; what it bid; whose
    offers it accepted; which notaries it assigned."""
    samples = Samples()
    for add, seen in ((samples.message, slots), (samples.bid, bids)):
        for number in seen:
            add(number)
    for note, agents in ((samples.selected, selected), (samples.notary, notaries)):
        for agent in agents:
            note(agent)
    return samples.entropy()


def systemic_risk(anomalies: Iterable[float]) -> float:
    """The share of agents that are suspicious; 0 if there are none."""
    flags = [anomaly > FLAG for anomaly in anomalies]
    return sum(flags) / len(flags) if flags else 0.0


def required_stake(anomaly: float, cluster_coefficient: float) -> int:
    """In millionths."""
    return round(BASE_STAKE * (1 + _ANOMALY_FACTOR * anomaly + _CLUSTER_FACTOR * cluster_coefficient))


def _bucket(number: int) -> int:
    """The whole part of the logarithm to base 2; 0 of 0."""
    return max(0, number.bit_length() - 1)


def _count(counts: dict[Sample, int], sample: Sample) -> None:
    counts[sample] = counts.get(sample, 0) + 1


def _bits_of_enough(counts: dict[Sample, int]) -> float | None:
    return _bits(counts) if sum(counts.values()) >= LEAST_SAMPLES else None


def _bits(counts: dict[Sample, int]) -> float:
    total = sum(counts.values())
    shares = [count / total for count in counts.values()]
    return abs(sum(share * math.log2(share) for share in shares))
