"""The variations of the scenes: a verdict follows from each quarrel, and every combination comes up."""

from collections import Counter
from math import gcd

import pytest

from moothall.demo import script
from moothall.demo.cast import TALKERS


@pytest.mark.parametrize("quarrel", script.QUARRELS, ids=lambda quarrel: quarrel.task)
def test_two_of_three_arbiters_agree(quarrel: script.Quarrel) -> None:
    votes = Counter(vote.verdict for vote in quarrel.votes)
    assert max(votes.values()) >= 2


def test_the_verdicts_differ() -> None:
    verdicts = {
        Counter(vote.verdict for vote in quarrel.votes).most_common(1)[0][0] for quarrel in script.QUARRELS
    }
    assert verdicts == {"disputant", "respondent", "mutual"}


@pytest.mark.parametrize("variations", [script.QUARRELS, script.JOBS, script.QUESTIONS, script.REMAINDERS])
def test_each_agent_has_each_part_at_some_time(variations: tuple[object, ...]) -> None:
    assert gcd(len(variations), len(TALKERS)) == 1
