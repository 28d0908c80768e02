import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.client.floor import Asked, Board, Claim, FloorPolicy, is_exempt, is_mentioned, speaks_of
from moothall.errors import SettingsError

fractions = st.floats(0, 1, exclude_max=True)
vectors = json.loads((Path(__file__).parents[1] / "vectors" / "agentchat.json").read_text())

QUESTION = Asked("@bob", "#general", "1-a", "who knows Python?", is_human=False)
ME = ("1a2b3c4d", "echo")


# -- how long to listen --------------------------------------------------------------------------------


@given(fractions, st.text())
def test_the_wait_is_two_to_eight_seconds(chance: float, content: str) -> None:
    assert 2 <= FloorPolicy().delay(content, lambda: chance) <= 8


@given(fractions)
def test_who_knows_the_subject_answers_sooner(chance: float) -> None:
    policy = FloorPolicy(skills=("python", "code-review"))
    assert 2 <= policy.delay("Who knows Python?", lambda: chance) <= 4
    assert 2 <= policy.delay("a Code Review, please", lambda: chance) <= 4
    assert 5 <= policy.delay("what is the weather like", lambda: chance) <= 8


@given(fractions)
def test_the_shares_follow_the_range(chance: float) -> None:
    policy = FloorPolicy(min_delay=1, max_delay=7, skills=("rust",))
    assert 1 <= policy.delay("rust", lambda: chance) <= 3
    assert 4 <= policy.delay("cobol", lambda: chance) <= 7


@pytest.mark.parametrize(
    ("content", "skill", "found"),
    [
        ("who speaks C++ here", "c++", True),
        ("C# or F#?", "c#", True),
        ("see the see", "c", False),
        ("pythonic", "python", False),
        ("data_analysis needed", "Data Analysis", True),
        ("data and analysis", "data analysis", False),
        ("", "anything", False),
    ],
)
def test_a_skill_is_found_as_whole_words(content: str, skill: str, found: bool) -> None:
    assert speaks_of(content, (skill,)) is found


def test_the_range_comes_from_the_environment() -> None:
    environ = {"AGENTCHAT_CSMA_MIN_MS": "100", "AGENTCHAT_CSMA_MAX_MS": "250"}
    policy = FloorPolicy.from_environment(environ, skills=("a",), answer_humans="one")
    assert policy == FloorPolicy(0.1, 0.25, ("a",), "one")
    assert FloorPolicy.from_environment({}) == FloorPolicy()


@pytest.mark.parametrize("wrong", ["soon", "-1", "inf", "nan"])
def test_a_wrong_range_in_the_environment_is_named(wrong: str) -> None:
    with pytest.raises(SettingsError, match="AGENTCHAT_CSMA_MIN_MS"):
        FloorPolicy.from_environment({"AGENTCHAT_CSMA_MIN_MS": wrong})


def test_a_range_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(SettingsError, match="less than"):
        FloorPolicy.from_environment({"AGENTCHAT_CSMA_MAX_MS": "1"})
    with pytest.raises(ValueError, match="min_delay"):
        FloorPolicy(min_delay=2, max_delay=1)


# -- who need not take turns ---------------------------------------------------------------------------


def test_an_agents_question_to_all_is_not_exempt() -> None:
    assert not is_exempt(QUESTION, ME, "all")
    assert not is_exempt(QUESTION, ME, "one")


@pytest.mark.parametrize(
    "change",
    [
        {"channel": None},  # a direct message
        {"msg_id": None},  # nothing to claim
        {"sender": "@server"},
        {"content": "@echo are you there?"},
        {"content": "what about you, @1a2b3c4d"},
    ],
)
def test_what_everybody_may_answer(change: dict[str, str | None]) -> None:
    for answer_humans in ("all", "one"):
        assert is_exempt(QUESTION._replace(**change), ME, answer_humans)  # type: ignore[arg-type]


def test_a_human_gets_all_answers_or_one() -> None:
    human = QUESTION._replace(is_human=True)
    assert is_exempt(human, ME, "all")
    assert not is_exempt(human, ME, "one")


@pytest.mark.parametrize(
    ("content", "mentioned"),
    [
        ("@echo", True),
        ("hey @echo, hello", True),
        ("(@echo)", True),
        ("@echo2", False),
        ("@echo-bot", False),
        ("echo", False),
        ("@Echo", False),
        ("@1a2b3c4d!", True),
        ("@1a2b3c4d5", False),
    ],
)
def test_a_mention_is_a_whole_name(content: str, mentioned: bool) -> None:
    assert is_mentioned(content, ME) is mentioned
    assert is_mentioned(content, ("@echo", "@1a2b3c4d")) is mentioned


# -- who was first -------------------------------------------------------------------------------------

claims = st.builds(Claim, st.integers(0, 5), st.sampled_from(["a", "b", "c", "d"]))


@given(st.lists(claims, min_size=1))
def test_the_board_knows_the_earliest_claim(heard: list[Claim]) -> None:
    board = Board()
    for claim in heard:
        board.claim("#general", "1-a", claim)
    assert board.holder("#general", "1-a") == min(heard).holder
    assert board.is_taken("#general", "1-a")
    assert not board.is_taken("#other", "1-a")


def test_the_rank_is_that_of_the_reference() -> None:
    board = Board()
    for heard in vectors["floor_control"]["claims"]:
        board.claim("#general", "1-a", Claim(heard["started_at"], heard["agent"]))
        winner = heard["agent"] if heard["granted"] else heard["winner"]
        assert board.holder("#general", "1-a") == winner


def test_an_answer_takes_the_floor_too() -> None:
    board = Board()
    board.answer("#general", "1-a")
    assert board.is_taken("#general", "1-a")
    assert board.holder("#general", "1-a") is None


def test_who_leaves_has_no_claims_left() -> None:
    board = Board()
    board.claim("#general", "1-a", Claim(1, "bob"))
    board.claim("#other", "1-b", Claim(1, "bob"))
    board.depart("#general", "bob")
    assert not board.is_taken("#general", "1-a")
    assert board.is_taken("#other", "1-b")


@given(st.lists(st.integers(0, 50)))
def test_the_board_is_bounded(messages: list[int]) -> None:
    board = Board(remembered=5)
    for number in messages:
        board.claim("#general", str(number), Claim(1, "bob"))
        board.answer("#general", str(number))
        assert board.is_taken("#general", str(number))
    assert sum(board.is_taken("#general", str(number)) for number in range(51)) <= 10
