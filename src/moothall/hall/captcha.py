"""Questions that let agents in and keep simpler programs out (agentchat wire 4.3).

Only questions that unmodified clients solve by themselves are asked. How long an answer may take, and how
often one may try, is decided elsewhere.
"""

import math
import re
from collections.abc import Callable
from enum import StrEnum
from typing import Final, NamedTuple

from moothall.hall.outside import Pick
from moothall.wire.agentchat.jstext import trim


class Difficulty(StrEnum):
    EASY = "easy"
    MEDIUM = "medium"
    HARD = "hard"


class Question(NamedTuple):
    question: str
    answer: str
    alternates: tuple[str, ...] = ()
    hint: str | None = None


# Lower case and without digits or hyphens, so that no client takes a part of one for arithmetic; with a vowel
# each, because an empty answer counts as 0 and 0 must never be right.
_WORDS: Final = (
    "anchor",
    "basket",
    "candle",
    "desert",
    "engine",
    "forest",
    "garden",
    "harbour",
    "island",
    "jacket",
    "kettle",
    "lantern",
    "market",
    "needle",
    "orchard",
    "pepper",
    "quarry",
    "ribbon",
    "saddle",
    "timber",
    "umbrella",
    "valley",
    "window",
    "yellow",
)
_VOWELS: Final = frozenset("aeiou")

_NUMBER: Final = "a number"
_LETTER: Final = "one letter"
_WORD: Final = "one word"
_YES_OR_NO: Final = "yes or no"


def _sum(pick: Pick) -> Question:
    left, right = 1 + pick(20), 1 + pick(20)
    return Question(f"What is {left} + {right}?", str(left + right), hint=_NUMBER)


def _difference(pick: Pick) -> Question:
    right, difference = 1 + pick(20), 1 + pick(20)
    return Question(f"What is {right + difference} - {right}?", str(difference), hint=_NUMBER)


def _product(pick: Pick) -> Question:
    left, right = 2 + pick(11), 2 + pick(11)
    sign = ("*", "\N{MULTIPLICATION SIGN}")[pick(2)]
    return Question(f"What is {left} {sign} {right}?", str(left * right), hint=_NUMBER)


def _quotient(pick: Pick) -> Question:
    divisor, quotient = 2 + pick(11), 2 + pick(11)
    return Question(f"What is {divisor * quotient} \N{DIVISION SIGN} {divisor}?", str(quotient), hint=_NUMBER)


def _first_letter(pick: Pick) -> Question:
    word = _word(pick)
    return Question(f'What is the first letter of "{word}"?', word[0], hint=_LETTER)


def _last_letter(pick: Pick) -> Question:
    word = _word(pick)
    return Question(f'What is the last letter of "{word}"?', word[-1], hint=_LETTER)


def _uppercase(pick: Pick) -> Question:
    word = _word(pick)
    return Question(f'Please convert "{word}" to uppercase.', word.upper(), hint=_WORD)


def _length(pick: Pick) -> Question:
    word = _word(pick)
    return Question(f'How many characters are in the word "{word}"?', str(len(word)), hint=_NUMBER)


def _vowels(pick: Pick) -> Question:
    word = _word(pick)
    count = sum(letter in _VOWELS for letter in word)
    return Question(f'How many vowels are in the word "{word}"?', str(count), hint=_NUMBER)


def _reverse(pick: Pick) -> Question:
    word = _word(pick)
    return Question(f'What is the reverse of the word "{word}"?', word[::-1], hint=_WORD)


def _third_item(pick: Pick) -> Question:
    first, length = pick(len(_WORDS)), 4 + pick(3)
    items = [_WORDS[(first + place) % len(_WORDS)] for place in range(length)]
    return Question(f"What is the third item in this list: [{', '.join(items)}]?", items[2], hint=_WORD)


def _sequence(pick: Pick) -> Question:
    terms, following = (("2, 4, 6, 8", "10"), ("1, 3, 5, 7", "9"))[pick(2)]
    return Question(f"Which number comes next: {terms}?", following, hint=_NUMBER)


def _prime(pick: Pick) -> Question:
    return (
        Question("Is 17 a prime number?", "yes", ("true", "y"), _YES_OR_NO),
        Question("Is 15 a prime number?", "no", ("false", "n"), _YES_OR_NO),
    )[pick(2)]


def _sigil(pick: Pick) -> Question:
    return (
        Question("What character starts channel names?", "#", ("hash", "pound", "hashtag"), "one character"),
        Question("What character prefixes agent ids?", "@", ("at", "at sign"), "one character"),
    )[pick(2)]


def _protocol(pick: Pick) -> Question:
    return (
        Question("What protocol is this server running?", "agentchat", hint=_WORD),
        Question("What message type do you send first?", "IDENTIFY", hint=_WORD),
    )[pick(2)]


def _word(pick: Pick) -> str:
    return _WORDS[pick(len(_WORDS))]


_KINDS: Final[dict[Difficulty, tuple[Callable[[Pick], Question], ...]]] = {
    Difficulty.EASY: (_sum, _difference, _first_letter, _last_letter, _sigil),
    Difficulty.MEDIUM: (_product, _length, _uppercase, _sequence, _reverse),
    Difficulty.HARD: (_quotient, _vowels, _third_item, _prime, _protocol),
}


def make_question(difficulty: Difficulty, pick: Pick) -> Question:
    kinds = _KINDS[difficulty]
    return kinds[pick(len(kinds))](pick)


def is_right(answer: str, question: Question) -> bool:
    given, expected = _folded(answer), _folded(question.answer)
    if given == expected or given in map(_folded, question.alternates):
        return True
    number = _number(given)
    return number is not None and number == _number(expected)


def _folded(text: str) -> str:
    return trim(text).lower()


_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:e[+-]?[0-9]++)?")
_RADIX: Final = re.compile(r"0(?:x[0-9a-f]++|o[0-7]++|b[01]++)")


def _number(text: str) -> float | None:
    """What JavaScript's `Number(text)` gives for trimmed text in lower case; None is NaN."""
    if not text:
        return 0.0
    if _DECIMAL.fullmatch(text):
        return float(text)
    if not _RADIX.fullmatch(text):
        return None
    try:
        return float(int(text, 0))
    except OverflowError:
        return math.inf
