"""A completed deal: what both parties gain by it (seed 000, complete 4; agentchat wire 12.2)."""

from typing import NamedTuple

from moothall.market import curbs
from moothall.market.movement import Share
from moothall.market.rating_rules import PairHistory, RatingRules
from moothall.market.records import Scalar, Standing
from moothall.market.reputation import completion_gain


class Party(NamedTuple):
    address: str
    standing: Standing
    stake: int = 0  # which it gets back


def completion_shares(
    one: Party, other: Party, amount: Scalar | None, *, pair: PairHistory, now: int, rules: RatingRules
) -> tuple[Share, Share]:
    """In the order of the parties. The caller has seen to it that the pair is not cooling."""
    return (
        _gain(one, other, amount, pair, now, rules),
        _gain(other, one, amount, pair, now, rules),
    )


def _gain(
    own: Party, other: Party, amount: Scalar | None, pair: PairHistory, now: int, rules: RatingRules
) -> Share:
    full = completion_gain(own.standing, other.standing, amount, rules, pair)
    earned = curbs.allowed(full, own.standing, now, rules)
    return Share(
        address=own.address,
        standing=own.standing,
        earned=earned,
        staked=own.stake,
        awarded=own.stake,
        withheld=full - earned,
        curbs=curbs.gained(own.standing, earned, now, rules),
    )
