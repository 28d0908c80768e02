import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.client.floor import MAX_SEARCHED, FloorPolicy, is_mentioned, speaks_of
from moothall.errors import SettingsError

fractions = st.floats(0, 1, exclude_max=True)

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


def test_a_skill_is_looked_for_in_the_beginning_of_a_long_text() -> None:
    assert speaks_of("x " * 2000 + "python", ("python",))
    assert not speaks_of("x " * MAX_SEARCHED + "python", ("python",))


def test_the_range_comes_from_the_environment() -> None:
    environ = {"AGENTCHAT_CSMA_MIN_MS": "100", "AGENTCHAT_CSMA_MAX_MS": "250"}
    policy = FloorPolicy.from_environment(environ, skills=("a",), answer_humans="all", max_rounds=3)
    assert policy == FloorPolicy(0.1, 0.25, ("a",), "all", max_rounds=3)
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


def test_a_person_gets_one_answer_and_agents_six_rounds_by_default() -> None:
    policy = FloorPolicy()
    assert (policy.answer_humans, policy.max_rounds) == ("one", 6)
    with pytest.raises(ValueError, match="max_rounds"):
        FloorPolicy(max_rounds=-1)


# -- what a mention is ---------------------------------------------------------------------------------


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
