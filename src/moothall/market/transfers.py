"""A dispute or a verdict with a winner: what each party leaves with."""

from typing import NamedTuple

from moothall.market import curbs
from moothall.market.movement import Share, Transfer
from moothall.market.rating_rules import RatingRules
from moothall.market.records import Standing


class Side(NamedTuple):
    address: str
    standing: Standing
    stake: int
    points: int  # that the arithmetic gives the winner, or takes from the loser; stakes aside


def transfer_shares(winner: Side, loser: Side, now: int, rules: RatingRules) -> tuple[Share, Share, Transfer]:
    """The winner's and the loser's. The loser loses its points and its stake, whatever the winner gets of them."""
    due = winner.points + loser.stake
    given = curbs.transfer(due, loser.standing, winner.standing, now, rules)
    earned, stake = split(given.paid, winner.points)
    gained = Share(
        address=winner.address,
        standing=winner.standing,
        earned=earned,
        staked=winner.stake,
        awarded=winner.stake + stake,
        withheld=given.burned,
        curbs=curbs.won(winner.standing, given, now, rules),
    )
    lost = Share(
        address=loser.address,
        standing=loser.standing,
        earned=-loser.points,
        staked=loser.stake,
        curbs=curbs.conceded(loser.standing, given),
    )
    return gained, lost, given


def split(paid: int, points: int) -> tuple[int, int]:
    """Of what is paid: the points that the winner earns come first, the rest is out of the loser's stake."""
    earned = min(paid, points)
    return earned, paid - earned
