"""How ratings move: ELO, cooperative (seed 001, reputation; agentchat wire 12).

Both parties of a completed deal gain, more from a partner of higher standing; gains are halved so that
ratings do not inflate. In a dispute the party at fault loses, and the other gains half of that.

The seeds' arithmetic is the default. What the reference adds to it against farming (weight by amount, less
for a pair that deals again and again, a pause between two deals of a pair, a least age) are RatingRules.
"""

import math
from collections.abc import Iterable
from typing import Final

from moothall.market.rating_rules import PairHistory, RatingRules
from moothall.market.records import Scalar, Standing
from moothall.wire.agentchat.jstext import round_half_up

FLOOR: Final = 100  # no rating drops below this (seed 001, reputation)

# Below this many transactions, this K (seed 001, reputation; agentchat wire 12.1).
NEWCOMER: Final = (30, 32)
INTERMEDIATE: Final = (100, 24)
ESTABLISHED_K: Final = 16

SCALE: Final = 400
MAX_WEIGHT: Final = 3.0  # of an amount: a declared amount is only a claim (agentchat wire 12.1)
# Ten to this power is still a double, and already far beyond what shows in a rounded rating.
_MAX_EXPONENT: Final = 300.0


def pair_history(completions: Iterable[int], rules: RatingRules) -> PairHistory:
    """What the times at which two agents completed deals say about the pair. In their order."""
    history = PairHistory()
    for at in completions:
        # One that came during the pause settled nothing and does not count (agentchat wire 12.2).
        if not history.cooling(at, rules):
            history = PairHistory(history.settled + 1, at)
    return history


def expected(own: int, other: int) -> float:
    """The share of the points that `own` is expected to take from `other`."""
    return 1 / (1 + 10 ** min((other - own) / SCALE, _MAX_EXPONENT))


def k_factor(transactions: int) -> int:
    """The K factor for the agent's number of deals before this one."""
    for below, k in (NEWCOMER, INTERMEDIATE):
        if transactions < below:
            return k
    return ESTABLISHED_K


def completion_gain(
    own: Standing, other: Standing, amount: Scalar | None, rules: RatingRules, pair: PairHistory
) -> int:
    """What completing a deal brings `own` (seed 000, complete; agentchat wire 12.2)."""
    full = max(1, round_half_up(_k(own, amount, rules) * (1 - expected(own.rating, other.rating))))
    nth = pair.settled + 1 if rules.diminishing else 1
    return max(1, round_half_up(full / 2 / nth))


def dispute_loss(fault: Standing, other: Standing, amount: Scalar | None, rules: RatingRules) -> int:
    """What the party at fault loses, its stake aside (seed 000, dispute; agentchat wire 12.3)."""
    return max(1, round_half_up(_k(fault, amount, rules) * expected(fault.rating, other.rating)))


def half_of_loss(loss: int) -> int:
    """The part of the loss that the other party gains."""
    return round_half_up(loss * 0.5)


def _k(standing: Standing, amount: Scalar | None, rules: RatingRules) -> float:
    k = k_factor(standing.transactions)
    return k * _weight(amount) if rules.amount_weighting else k


def _weight(amount: Scalar | None) -> float:
    """The amount is the number in the proposal, whatever the currency; a text or a truth value is none."""
    if isinstance(amount, (str, bool)) or amount is None or amount <= 0:
        return 1.0
    return min(1 + math.log10(amount + 1), MAX_WEIGHT)
