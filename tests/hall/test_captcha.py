import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.hall.captcha import Difficulty, Question, is_right, make_question

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "agentchat.json").read_text()
)["captcha_answers"]


class Exhausted(Exception):
    """Every way of picking has been tried."""


class Picks:
    """Goes through every sequence of picks, one after the other, like the digits of a counter."""

    def __init__(self) -> None:
        self._digits: list[tuple[int, int]] = []
        self._place = 0

    def __call__(self, bound: int) -> int:
        assert bound > 0
        if self._place == len(self._digits):
            self._digits.append((0, bound))
        digit, known_bound = self._digits[self._place]
        assert known_bound == bound
        self._place += 1
        return digit

    def advance(self) -> None:
        while self._digits:
            digit, bound = self._digits.pop()
            if digit + 1 < bound:
                self._digits.append((digit + 1, bound))
                self._place = 0
                return
        raise Exhausted


def every_question(difficulty: Difficulty) -> Iterator[Question]:
    picks = Picks()
    while True:
        yield make_question(difficulty, picks)
        try:
            picks.advance()
        except Exhausted:
            return


WORD = r'"(\w+)"'
FIXED_ANSWERS = {
    "2, 4, 6, 8": "10",
    "1, 3, 5, 7": "9",
    "is 17 a prime": "yes",
    "is 15 a prime": "no",
    "what character starts channel names": "#",
    "what character prefixes agent": "@",
    "what protocol is this server running": "agentchat",
    "what message type do you send first": "IDENTIFY",
}


def calculate(left: str, sign: str, right: str) -> str:
    a, b = int(left), int(right)
    return str({"+": a + b, "-": a - b, "*": a * b, "\xd7": a * b, "\xf7": a // b if b else 0}[sign])


def solve(question: str) -> str | None:
    """What an unmodified client answers (agentchat wire 4.3)."""
    if found := re.search(r"(\d+)\s*([-+*\xd7\xf7])\s*(\d+)", question):
        return calculate(*found.groups())
    if found := re.search(rf"reverse of (?:the word )?{WORD}", question, re.IGNORECASE):
        return found[1][::-1]
    if found := re.search(rf"how many characters (?:are )?in (?:the word )?{WORD}", question, re.IGNORECASE):
        return str(len(found[1]))
    if found := re.search(rf"first letter of {WORD}", question, re.IGNORECASE):
        return found[1][0]
    if found := re.search(rf"last letter of {WORD}", question, re.IGNORECASE):
        return found[1][-1]
    if found := re.search(rf"convert {WORD} to uppercase", question, re.IGNORECASE):
        return found[1].upper()
    if found := re.search(r"third item in this list: \[([^\]]+)\]", question, re.IGNORECASE):
        return found[1].split(",")[2].strip()
    if found := re.search(rf"how many vowels (?:are )?in (?:the word )?{WORD}", question, re.IGNORECASE):
        return str(len(re.findall("[aeiou]", found[1], re.IGNORECASE)))
    return next((answer for text, answer in FIXED_ANSWERS.items() if text in question.lower()), None)


@pytest.mark.parametrize("difficulty", Difficulty)
def test_unmodified_clients_solve_every_question(difficulty: Difficulty) -> None:
    for question in every_question(difficulty):
        answer = solve(question.question)
        assert answer is not None, question
        assert is_right(answer, question), question


@pytest.mark.parametrize("difficulty", Difficulty)
def test_no_question_is_solved_by_saying_nothing(difficulty: Difficulty) -> None:
    # An empty answer is the number 0, so 0 must never be the right one.
    for question in every_question(difficulty):
        assert not is_right("", question), question


@pytest.mark.parametrize("difficulty", Difficulty)
def test_no_answer_fits_many_questions(difficulty: Difficulty) -> None:
    questions = {question.question: question.answer for question in every_question(difficulty)}
    assert len(questions) > 50
    answers = list(questions.values())
    assert max(map(answers.count, answers)) < len(questions) / 5


def test_difficulties_share_no_question() -> None:
    asked = [{question.question for question in every_question(difficulty)} for difficulty in Difficulty]
    assert not set.intersection(*asked)
    assert sum(map(len, asked)) == len(set.union(*asked))


@pytest.mark.parametrize(
    "vector", VECTORS, ids=lambda vector: f"{vector['answer']!r} for {vector['expected']!r}"
)
def test_answers_compare_as_in_the_vectors(vector: dict[str, Any]) -> None:
    question = Question("?", vector["expected"], tuple(vector["alternates"] or ()))
    assert is_right(vector["answer"], question) is vector["ok"]


@pytest.mark.parametrize(
    "answer", ["1e1", "1000e-2", "10.", "0xA", "0b1010", "0O12", "\ufeff10\u3000", "010"]
)
def test_numbers_are_read_as_javascript_reads_them(answer: str) -> None:
    assert is_right(answer, Question("?", "10"))


@pytest.mark.parametrize(
    "answer", ["1_0", "-10", "+0xa", "0x", "ten", "10 0", "1e", ".", "\u0661\u0660", "nan", "10\x1f"]
)
def test_what_javascript_reads_otherwise_is_wrong(answer: str) -> None:
    assert not is_right(answer, Question("?", "10"))


@pytest.mark.parametrize("answer", ["nan", "infinity", "0x" + "f" * 300, "9" * 5000])
def test_extreme_answers_are_only_wrong(answer: str) -> None:
    assert not is_right(answer, Question("?", "42"))
    assert not is_right(answer, Question("?", "yes"))


@given(st.text(), st.text(), st.lists(st.text()))
def test_the_answer_itself_and_each_alternate_are_right(
    question: str, answer: str, alternates: list[str]
) -> None:
    asked = Question(question, answer, tuple(alternates))
    assert all(is_right(f" {accepted}\t", asked) for accepted in (answer, *alternates))


@given(st.integers(-(10**6), 10**6), st.integers(-(10**6), 10**6))
def test_another_number_is_wrong(given_number: int, expected: int) -> None:
    assert is_right(f"{given_number}.0", Question("?", str(expected))) is (given_number == expected)
