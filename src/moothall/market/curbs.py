"""Rules against farming: what a fresh key can lose to others, and how fast a rating can grow (docs/reputation.md).

A key costs nothing and begins with 1200 points. Without these rules its owner moves them to another of its keys by
losing a dispute, or makes points by completing deals between its own keys. The arithmetic is that of the seeds. A
curb only says how much is paid of what the arithmetic gives an agent.

1. A key with fewer than NEWCOMER_DEALS settled deals is a newcomer. In disputes and verdicts it loses to others at
   most `newcomer_cap` points, in all until its tenth settled deal.
2. Wins against newcomers diminish: the nth within WINS_WINDOW of the first brings 1/n of that.
3. What a key gains, from whatever it is, fills a bucket of `gain_limit` points, which drains within `gain_window`.
   What does not fit is not paid.

A loser loses the whole amount in any case. What is not paid to the winner is burned; what a completion does not pay
is not made in the first place. All that has to be remembered is in `Curbs`, a part of the agent's standing: it is
kept, replayed and locked with it.
"""

from typing import Final

from msgspec import structs

from moothall.market.movement import Transfer
from moothall.market.rating_rules import RatingRules
from moothall.market.records import Curbs, Standing
from moothall.wire.agentchat.jstext import round_half_up

NEWCOMER_DEALS: Final = 10
WINS_WINDOW: Final = 24 * 60 * 60 * 1000  # ms


def payable(due: int, left: int | None, nth: int, room: int | None) -> int:
    """The three rules, in their order."""
    if left is not None:
        due = round_half_up(min(due, left) / nth)
    return due if room is None else min(due, room)


def is_newcomer(standing: Standing) -> bool:
    return standing.transactions < NEWCOMER_DEALS


def transfer(due: int, loser: Standing, winner: Standing, now: int, rules: RatingRules) -> Transfer:
    left, nth = None, 1
    if rules.newcomer_cap and is_newcomer(loser):
        left = max(0, rules.newcomer_cap - loser.curbs.conceded)
        nth = _wins(winner.curbs, now) + 1
    room = room_of(winner, now, rules)
    return Transfer(due=due, paid=payable(due, left, nth, room), left=left, nth=nth, room=room)


def conceded(loser: Standing, given: Transfer) -> Curbs:
    """The loser's curbs after the transfer."""
    if given.left is None:
        return loser.curbs
    return structs.replace(loser.curbs, conceded=loser.curbs.conceded + given.paid)


def won(winner: Standing, given: Transfer, now: int, rules: RatingRules) -> Curbs:
    """The winner's curbs after the transfer."""
    curbs = gained(winner, given.paid, now, rules)
    if given.left is None:
        return curbs
    since = now if given.nth == 1 else curbs.wins_since
    return structs.replace(curbs, newcomer_wins=given.nth, wins_since=since)


# -- how fast a rating can grow ---------------------------------------------------------------------------


def room_of(standing: Standing, now: int, rules: RatingRules) -> int | None:
    """How many points the agent can gain at this moment; None is any number."""
    if not rules.gain_limit:
        return None
    used = max(0, standing.curbs.drained_at - now)
    limit = rules.gain_limit_of(standing.key)
    return max(0, (rules.gain_window - used) * limit // rules.gain_window)


def allowed(points: int, standing: Standing, now: int, rules: RatingRules) -> int:
    """The part of a gain that the limit allows. Losses are not limited."""
    room = room_of(standing, now, rules)
    return points if room is None else min(points, room)


def gained(standing: Standing, points: int, now: int, rules: RatingRules) -> Curbs:
    """After a gain of so many points. The bucket is kept as the moment at which it will have drained."""
    if points <= 0 or not rules.gain_limit:
        return standing.curbs
    fill = -(-points * rules.gain_window // rules.gain_limit_of(standing.key))  # rounded up
    return structs.replace(standing.curbs, drained_at=max(now, standing.curbs.drained_at) + fill)


def _wins(curbs: Curbs, now: int) -> int:
    """The number of wins against newcomers in the current window."""
    return curbs.newcomer_wins if now - curbs.wins_since < WINS_WINDOW else 0
