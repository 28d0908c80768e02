"""How ratings move: ELO, cooperative (seed 001, reputation; agentchat wire 12).

Both parties of a completed deal gain, more from a partner of higher standing; gains are halved so that
ratings do not inflate. In a dispute the party at fault loses, and the other gains half of that.

The seeds' arithmetic is the default. What the reference adds to it against farming (weight by amount, less
for a pair that deals again and again, a pause between two deals of a pair, a least age) are RatingRules.
"""

import math
from collections.abc import Callable, Iterable
from typing import Final, Self

from msgspec import Struct, structs

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


def _on_another_machine(key: bytes) -> bool:
    del key
    return False


class RatingRules(Struct, kw_only=True, frozen=True):
    """What the reference has beyond the seeds, and the rules against farming. Times are milliseconds; 0 is off."""

    amount_weighting: bool = False
    diminishing: bool = False  # the nth settled deal of a pair brings 1/n
    pair_cooldown: int = 0  # a pair's completion settles no rating within this time of its last
    minimum_age: int = 0  # a younger proposal cannot be completed
    newcomer_cap: int = 0  # points that a newcomer can lose to others (see `curbs`)
    gain_limit: int = 0  # points that a key can gain at once, and again within `gain_window`
    gain_window: int = 1
    loopback_factor: int = 1  # times the gain limit, for agents on the hall's own machine
    is_local: Callable[[bytes], bool] = _on_another_machine  # the agent with this key is one of them now

    def gain_limit_of(self, key: bytes) -> int:
        """The limit of the key that gains, not of the party that ends the deal: else a local agent could help
        others to farm."""
        return self.gain_limit * (self.loopback_factor if self.is_local(key) else 1)

    def in_hall(self, is_local: Callable[[bytes], bool]) -> Self:
        return structs.replace(self, is_local=is_local)

    def too_young(self, created_at: int, now: int) -> bool:
        """0 is no rule, also where the clock was set back, or is another hall's, and the proposal comes later."""
        return self.minimum_age > 0 and now - created_at < self.minimum_age

    def too_soon(self, last_at: int, now: int) -> bool:
        """The same, for a pair whose last completion was then."""
        return self.pair_cooldown > 0 and now - last_at < self.pair_cooldown


class PairHistory(Struct, frozen=True):
    """Completions of two agents with each other that moved ratings."""

    settled: int = 0
    last_at: int | None = None

    def cooling(self, now: int, rules: RatingRules) -> bool:
        return self.last_at is not None and rules.too_soon(self.last_at, now)


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
