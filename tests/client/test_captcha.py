import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.client.captcha import solve
from moothall.hall.captcha import Difficulty, is_right, make_question


@given(st.sampled_from(list(Difficulty)), st.integers(0, 2**32))
def test_every_question_our_hall_asks_is_answered(difficulty: Difficulty, seed: int) -> None:
    question = make_question(difficulty, random.Random(seed).randrange)  # noqa: S311  # not a secret
    answer = solve(question.question)
    assert answer is not None
    assert is_right(answer, question)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is 7 \N{DIVISION SIGN} 2?", "3"),
        ("what is 3 - 10", "-7"),
        ("What is 1 \N{DIVISION SIGN} 0?", None),
        ('What is the REVERSE of "abc"?', "cba"),
        ('How many characters in "four"?', "4"),
        ('how many vowels in the word "AEIou"', "5"),
        ("third item in this list: [a, b, c]", "c"),
        ("third item in this list: [a, b]", None),
        ("What is the meaning of life?", None),
        ("", None),
    ],
)
def test_known_questions(question: str, answer: str | None) -> None:
    assert solve(question) == answer


@given(st.text())
def test_no_question_is_too_strange(question: str) -> None:
    assert solve(question) is None or isinstance(solve(question), str)


def test_a_number_of_many_digits_is_not_multiplied() -> None:
    digits = "9" * 50_000
    answer = solve(f"{digits} * {digits}")
    assert answer is not None
    assert len(answer) <= 30
