"""The rules that ratings move by, as an operator chose them, and what they ask about a pair of agents."""

from collections.abc import Callable
from typing import Self

from msgspec import Struct, structs


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
