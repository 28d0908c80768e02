"""What the votes mean: the verdict, what arbiters earn, how the parties fare (agentchat wire 13.6, 13.7)."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from moothall.court.records import Slot, Verdict
from moothall.market.reputation import expected, half_of_loss
from moothall.wire.agentchat.jstext import round_half_up

MAJORITY: Final = 2
REWARD: Final = 5  # seed 000, verdict
FORFEIT: Final = -25
K: Final = 16  # agentchat wire 13.7


def tally(votes: Iterable[Verdict]) -> Verdict:
    """The side that two arbiters agree on; mutual fault in every other case, no votes included."""
    counts = Counter(votes)
    for side in ("disputant", "respondent"):
        if counts[side] >= MAJORITY:
            return side
    return "mutual"


def reward(slot: Slot, verdict: Verdict) -> int | None:
    """None: this slot has no part in the result, because its arbiter declined."""
    if slot.vote is not None:
        return REWARD if slot.vote.verdict == verdict else 0
    return FORFEIT if slot.status == "forfeited" else None


def votes_cast(slots: Iterable[Slot]) -> list[Slot]:
    """The slots that voted, in the order of their votes."""
    cast = {slot.vote.number: slot for slot in slots if slot.vote is not None}
    return [cast[number] for number in sorted(cast)]


def rating_changes(disputant: int, respondent: int, verdict: Verdict) -> tuple[int, int]:
    """The changes of the two ratings, without stakes."""
    share = expected(disputant, respondent)
    if verdict == "disputant":
        loss = _loss(1 - share)
        return _gain(loss), -loss
    if verdict == "respondent":
        loss = _loss(share)
        return -loss, _gain(loss)
    return -_loss(share), -_loss(1 - share)


def _loss(share: float) -> int:
    return max(1, round_half_up(K * share))


def _gain(loss: int) -> int:
    return max(1, half_of_loss(loss))
