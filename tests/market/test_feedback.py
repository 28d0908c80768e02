"""What FEEDBACK and DISPUTE do to vectors and ratings, on the real store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from moothall.errors import OutOfOrder, RateLimited
from moothall.market.conversing import MeshRules
from moothall.market.epoch_log import epoch_at
from moothall.market.feedback import vector_at
from moothall.market.rating_rules import RatingRules
from moothall.market.records import Standing
from moothall.market.reputation_vector import UNRATED, ReputationVector
from moothall.store.files import DataDirectory
from tests.store.support import Place
from tests.support.talks import CREDIT, STRANGER, A, B, N, Talks

DAY = 24 * 3600 * 1000
GAIN = 8  # of a newcomer from another, as after COMPLETE


@pytest.fixture
def talks(tmp_path: Path) -> Iterator[Talks]:
    place = Place(DataDirectory(tmp_path / "data"), "")
    talks = Talks(place)
    talks.deposit(A, 100 * CREDIT)
    yield talks
    talks.close()
    assert place.problems() == []


def ratings(talks: Talks) -> tuple[int, int]:
    return talks.standing(A).rating, talks.standing(B).rating


# -- the vector --------------------------------------------------------------------------------------------


def test_feedback_about_a_party(talks: Talks) -> None:
    talks.resolve()
    talks.feedback(B, A, 50)
    epoch = epoch_at(talks.now)
    assert talks.vector(A) == ReputationVector(
        reliability=50_000, cooperation=50_000, total_tasks=1, last_active_epoch=epoch, epoch=epoch
    )
    assert talks.vector(B) == UNRATED


def test_feedback_about_a_notary(talks: Talks) -> None:
    talks.resolve(notary=N)
    talks.feedback(A, N, -100, about_notary=True)
    vector = talks.vector(N)
    assert (vector.notary_accuracy, vector.total_notarized, vector.total_tasks) == (-100_000, 1, 0)


def test_feedback_of_a_stranger_or_given_twice_changes_nothing(talks: Talks) -> None:
    talks.resolve()
    talks.feedback(A, B, 10)
    before = talks.facts()
    for sender, about in ((STRANGER, B), (A, B), (A, STRANGER), (A, A)):
        with pytest.raises(OutOfOrder):
            talks.feedback(sender, about, -100)
    assert talks.facts() == before


def test_a_dispute_is_counted_for_its_sender_and_judges_neither(talks: Talks) -> None:
    talks.deliver()
    talks.say("DISPUTE", A, B)
    vector = talks.vector(A)
    assert (vector.total_disputes, vector.reliability, talks.vector(B)) == (1, 0, UNRATED)


def test_an_agent_that_only_sends_envelopes_leaves_no_standing(talks: Talks) -> None:
    talks.resolve()
    assert talks.select("SELECT * FROM standings") == []


# -- decay -------------------------------------------------------------------------------------------------


def test_a_vector_decays_after_six_idle_epochs_also_while_the_hall_is_closed(talks: Talks) -> None:
    talks.resolve()
    talks.feedback(B, A, 100)
    for idle, shown in ((6, 100_000), (7, 95_000), (8, 90_250)):
        assert vector_at(talks.standing(A), talks.now + idle * DAY).reliability == shown


def test_feedback_after_an_idle_time_meets_the_decayed_numbers(talks: Talks) -> None:
    talks.resolve()
    talks.feedback(B, A, 100)
    talks.resolve(talk=b"2" * 16)
    talks.now += 8 * DAY
    talks.feedback(B, A, 100, b"2" * 16)
    vector = talks.vector(A)
    assert vector.reliability == (90_250 + 100_000) // 2
    assert vector_at(talks.standing(A), talks.now + DAY).reliability == vector.reliability * 95 // 100


def test_an_envelope_of_the_agent_ends_its_idle_time(talks: Talks) -> None:
    talks.resolve()
    talks.feedback(B, A, 100)
    talks.now += 8 * DAY
    talks.propose(talk=b"2" * 16)
    vector = talks.vector(A)
    assert (vector.reliability, vector.last_active_epoch) == (90_250, epoch_at(talks.now))
    assert vector_at(talks.standing(A), talks.now + 6 * DAY).reliability == 90_250


# -- the rating --------------------------------------------------------------------------------------------


def test_positive_feedback_of_the_requester_is_a_completed_deal(talks: Talks) -> None:
    talks.resolve()
    rated = talks.feedback(A, B, positive=True).conversation
    assert ratings(talks) == (1200 + GAIN, 1200 + GAIN)
    assert rated.completed_at == talks.now
    assert [talks.standing(key).transactions for key in (A, B)] == [1, 1]
    assert talks.vector(B).total_tasks == 1
    name = f"mesh:{rated.id.hex()}"
    assert talks.select("SELECT operation, deal, actor FROM audit") == [("complete", name, A)]
    entries = talks.select(
        "SELECT DISTINCT deal, operation FROM postings WHERE book = 'elo' AND deal LIKE 'mesh%'"
    )
    assert entries == [(name, "complete")]
    assert talks.select("SELECT why FROM rating_history") == [(f"complete {name}",)] * 2


@pytest.mark.parametrize(
    ("sender", "about", "positive"), [(A, B, False), (B, A, True), (A, N, True), (N, B, True)]
)
def test_no_other_feedback_is(talks: Talks, sender: bytes, about: bytes, positive: bool) -> None:
    talks.resolve(notary=N)
    talks.feedback(sender, about, positive=positive, about_notary=about == N)
    assert ratings(talks) == (1200, 1200)
    assert talks.select("SELECT * FROM audit") == []


def test_agents_with_a_standing_gain_too(talks: Talks) -> None:
    """The opening of their accounts is not posted again."""
    for number in range(3):
        talk = bytes([65 + number]) * 16
        talks.resolve(talk=talk)
        talks.feedback(B, A, talk=talk)
        talks.feedback(A, B, talk=talk, positive=True)
    assert talks.standing(A).transactions == 3


def test_a_pair_gains_less_and_less_and_pauses_as_with_deals(talks: Talks) -> None:
    talks.rules = MeshRules(ratings=RatingRules(diminishing=True, pair_cooldown=1000))
    gains = []
    for number in range(4):
        talk = bytes([65 + number]) * 16
        before = talks.standing(A).rating
        talks.resolve(talk=talk)
        talks.feedback(A, B, talk=talk, positive=True)
        gains.append(talks.standing(A).rating - before)
        talks.now += 600
    assert gains == [8, 0, 4, 0]
    assert talks.vector(B).total_tasks == 4  # FEEDBACK counts all the same


def test_the_limit_on_gains_holds(talks: Talks) -> None:
    talks.rules = MeshRules(ratings=RatingRules(gain_limit=5, gain_window=DAY))
    talks.resolve()
    talks.feedback(A, B, positive=True)
    assert ratings(talks) == (1205, 1205)


def test_a_conversation_can_be_too_young(talks: Talks) -> None:
    talks.rules = MeshRules(ratings=RatingRules(minimum_age=1000))
    talks.resolve()
    before = talks.facts()
    with pytest.raises(RateLimited, match="too young"):
        talks.feedback(A, B, positive=True)
    assert talks.facts() == before
    talks.now += 1000
    talks.feedback(A, B, positive=True)
    assert ratings(talks) == (1208, 1208)


def test_a_newcomer_has_the_default_standing(talks: Talks) -> None:
    assert talks.standing(A) == Standing(key=A)
