"""What an agent has heard of other agents' claims and answers."""

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from moothall.client.board import Board, Change, Claim

vectors = json.loads((Path(__file__).parents[1] / "vectors" / "agentchat.json").read_text())

KEY = ("#general", "1-a")
OTHER = ("#general", "1-b")

claims = st.builds(Claim, st.integers(0, 5), st.sampled_from(["a", "b", "c", "d"]))


def holder(board: Board) -> str | None:
    first = board.first(KEY)
    return first.holder if first is not None else None


@given(st.lists(claims, min_size=1))
def test_without_a_word_of_the_hall_the_earliest_claim_counts(heard: list[Claim]) -> None:
    board = Board()
    latest: dict[str, Claim] = {}
    for claim in heard:
        latest[claim.holder] = claim
        board.claim(KEY, claim, granted=False)
    assert board.first(KEY) == min(latest.values())
    assert board.first(("#other", "1-a")) is None
    assert {claim.holder for _, claim in board.open_claims()} == latest.keys()


def test_the_rank_is_that_of_the_reference() -> None:
    board = Board()
    for heard in vectors["floor_control"]["claims"]:
        board.claim(KEY, Claim(heard["started_at"], heard["agent"]), granted=heard["granted"])
        assert holder(board) == (heard["agent"] if heard["granted"] else heard["winner"])


def test_once_the_hall_gave_the_floor_the_others_yield() -> None:
    """Its word counts, whatever the times say: it may rank an agent after all others."""
    board = Board()
    board.claim(KEY, Claim(1, "early"), granted=False)
    assert board.claim(KEY, Claim(9, "late"), granted=True) == [
        Change(KEY, "early", "yielded"),
        Change(KEY, "late", "claimed"),
    ]
    assert board.claim(KEY, Claim(0, "another"), granted=False) == []
    assert holder(board) == "late"


def test_a_repeated_claim_is_no_news() -> None:
    board = Board()
    assert board.claim(KEY, Claim(1, "bob"), granted=False) == [Change(KEY, "bob", "claimed")]
    assert board.claim(KEY, Claim(1, "bob"), granted=True) == []


def test_an_answer_ends_the_claim_that_it_names() -> None:
    board = Board()
    board.claim(KEY, Claim(1, "bob"), granted=True)
    board.claim(OTHER, Claim(1, "bob"), granted=True)
    assert board.speak("#general", "bob", "1-b") == [Change(OTHER, "bob", "answered")]
    assert board.is_answered(OTHER, "asker")
    assert not board.is_answered(KEY, "asker")
    assert holder(board) == "bob"


def test_a_message_that_names_nothing_answers_the_oldest_claim_and_ends_the_others() -> None:
    board = Board()
    for key in (KEY, OTHER, ("#other", "1-c")):
        board.claim(key, Claim(1, "bob"), granted=True)
    assert board.speak("#general", "bob", None) == [
        Change(KEY, "bob", "answered"),
        Change(OTHER, "bob", "released"),
    ]
    assert board.is_answered(KEY, "asker")
    assert not board.is_answered(OTHER, "asker")
    assert [key for key, _ in board.open_claims()] == [("#other", "1-c")]


def test_a_reply_of_the_author_is_not_an_answer() -> None:
    board = Board()
    board.speak("#general", "asker", "1-a")
    assert not board.is_answered(KEY, "asker")
    board.speak("#general", "bob", "1-a")
    board.speak("#general", "asker", "1-a")
    assert board.is_answered(KEY, "asker")


def test_a_claim_ends_when_it_is_released_and_when_its_agent_leaves() -> None:
    board = Board()
    board.claim(KEY, Claim(1, "bob"), granted=True)
    board.claim(("#other", "1-b"), Claim(1, "bob"), granted=True)
    assert board.release(KEY, "carol", "released") == []
    assert board.release(KEY, "bob", "released") == [Change(KEY, "bob", "released")]
    assert board.first(KEY) is None
    assert board.depart("#general", "bob") == []
    assert board.depart("#other", "bob") == [Change(("#other", "1-b"), "bob", "left")]
    assert board.open_claims() == []


def test_a_released_floor_is_free_for_a_later_claim() -> None:
    board = Board()
    board.claim(KEY, Claim(1, "bob"), granted=True)
    board.release(KEY, "bob", "released")
    board.claim(KEY, Claim(5, "carol"), granted=False)
    assert holder(board) == "carol"


def test_nothing_stands_when_the_connection_is_lost() -> None:
    board = Board()
    board.claim(KEY, Claim(1, "bob"), granted=True)
    assert board.clear() == [Change(KEY, "bob", "expired")]
    assert board.first(KEY) is None


@given(st.lists(st.integers(0, 50)))
def test_the_board_is_bounded(messages: list[int]) -> None:
    board = Board(remembered=5)
    began = ended = 0
    for number in messages:
        key = ("#general", str(number))
        changes = board.claim(key, Claim(1, "bob"), granted=True)
        began += sum(change.state == "claimed" for change in changes)
        ended += sum(change.state == "expired" for change in changes)
        board.answer(key, "bob")
        assert board.stands(key, "bob")
        assert board.is_answered(key, "asker")
    assert began - ended == len(board.open_claims()) <= 5
    assert sum(board.is_answered(("#general", str(number)), "asker") for number in range(51)) <= 5
