"""The verdict, and what it brings (seed 000, verdict; agentchat wire 13.6, 13.7)."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.court.records import Slot, Vote
from moothall.court.verdict import K, rating_changes, reward, tally
from moothall.wire.agentchat.client import Verdict
from tests.identity.vectors import VECTORS

sides = st.sampled_from(("disputant", "respondent", "mutual"))
ratings = st.integers(100, 4000)


@pytest.mark.parametrize("vector", VECTORS["court_verdicts"], ids=lambda vector: "-".join(vector["votes"]))
def test_the_verdict_is_the_vectors(vector: dict[str, Any]) -> None:
    assert tally(vector["votes"]) == vector["verdict"]


@given(st.lists(sides, min_size=3, max_size=3))
def test_of_three_votes_the_most_common_wins_and_three_different_ones_are_mutual(
    votes: list[Verdict],
) -> None:
    """Seed 000, arbiter vote 4a and 4b."""
    (most, times), *_ = Counter(votes).most_common()
    assert tally(votes) == ("mutual" if times == 1 else most)


@pytest.mark.parametrize("vector", VECTORS["elo_court"], ids=str)
def test_ratings_move_as_the_vectors(vector: dict[str, Any]) -> None:
    assert vector["k"] == K
    changes = rating_changes(vector["disputant_rating"], vector["respondent_rating"], vector["verdict"])
    assert list(changes) == vector["change"]


@given(ratings, ratings)
def test_the_same_quarrel_told_by_the_other_side_ends_the_same(one: int, other: int) -> None:
    assert rating_changes(one, other, "disputant") == rating_changes(other, one, "respondent")[::-1]


@given(ratings, ratings, sides)
def test_whoever_is_at_fault_loses_and_nobody_gains_more_than_that(
    disputant: int, respondent: int, verdict: Verdict
) -> None:
    changes = rating_changes(disputant, respondent, verdict)
    if verdict == "mutual":
        assert max(changes) < 0
    else:
        winner, loser = changes if verdict == "disputant" else changes[::-1]
        assert 0 < winner <= -loser <= K


def slot(status: Any, vote: Verdict | None = None) -> Slot:
    cast = vote and Vote(number=0, verdict=vote, reasoning="", sig="", at=1)
    return Slot(arbiter=b"a", address="@a", status=status, assigned_at=1, vote=cast or None)


def test_rewards_and_forfeits() -> None:
    """Seed 000, verdict: +5 with the majority, nothing for the minority, -25 for not voting."""
    assert reward(slot("voted", "disputant"), "disputant") == 5
    assert reward(slot("voted", "mutual"), "disputant") == 0
    assert reward(slot("forfeited"), "disputant") == -25
    assert reward(slot("declined"), "disputant") is None
