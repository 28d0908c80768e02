"""The questions that a hall may ask before it lets an agent in, and their answers (agentchat wire 4.3)."""

import re
from collections.abc import Callable
from typing import Final

_VOWELS: Final = frozenset("aeiou")
_WORD: Final = r'"([^"]+)"'

# Numbers of up to fifteen digits: halls ask for no more, and a hostile one cannot make us multiply for minutes.
_SUM: Final = re.compile(r"([0-9]{1,15})\s*([-+*\N{MULTIPLICATION SIGN}\N{DIVISION SIGN}])\s*([0-9]{1,15})")


def solve(question: str) -> str | None:
    """The answer, if this is one of the questions that every client knows."""
    if (found := _SUM.search(question)) is not None:
        return _calculate(int(found[1]), found[2], int(found[3]))
    for pattern, answer in _QUESTIONS:
        if (found := pattern.search(question)) is not None:
            return answer(*found.groups())
    return None


def _calculate(left: int, sign: str, right: int) -> str | None:
    if sign == "+":
        return str(left + right)
    if sign == "-":
        return str(left - right)
    if sign == "\N{DIVISION SIGN}":
        return str(left // right) if right else None
    return str(left * right)


def _third(items: str) -> str:
    return items.split(",")[2].strip()


def _always(text: str) -> Callable[[], str]:
    return lambda: text


def _question(pattern: str, answer: Callable[..., str]) -> tuple[re.Pattern[str], Callable[..., str]]:
    return re.compile(pattern, re.IGNORECASE), answer


_QUESTIONS: Final = (
    _question(rf"reverse of (?:the word )?{_WORD}", lambda word: word[::-1]),
    _question(rf"how many characters (?:are )?in (?:the word )?{_WORD}", lambda word: str(len(word))),
    _question(rf"first letter of {_WORD}", lambda word: word[0]),
    _question(rf"last letter of {_WORD}", lambda word: word[-1]),
    _question(rf"convert {_WORD} to uppercase", str.upper),
    _question(r"2, 4, 6, 8", _always("10")),
    _question(r"1, 3, 5, 7", _always("9")),
    _question(r"is 17 a prime", _always("yes")),
    _question(r"is 15 a prime", _always("no")),
    _question(r"third item in this list: \[([^],]*,[^],]*,[^]]+)\]", _third),
    _question(
        rf"how many vowels (?:are )?in (?:the word )?{_WORD}",
        lambda word: str(sum(letter in _VOWELS for letter in word.lower())),
    ),
    _question(r"what character starts channel names", _always("#")),
    _question(r"what character prefixes agent", _always("@")),
    _question(r"what protocol is this server running", _always("agentchat")),
    _question(r"what message type do you send first", _always("IDENTIFY")),
)
