"""The tasks of the crew: what the planner asks for, what the coder writes, and how the reviewer checks it.

The coder hands over a program and what it prints. The reviewer works the answer out in another way and compares.
It never runs the program: another agent has written it.
"""

import ast
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Final

LONGEST_LINE: Final = 100
NUMERALS: Final = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}


@dataclass(frozen=True)
class Task:
    number: int
    name: str
    wish: str
    advice: str
    drafts: tuple[str, ...]  # the next one is written when the reviewer has found a fault
    fault: Callable[[list[str]], str | None]  # in the lines that the program has printed

    @property
    def text(self) -> str:
        """The task of the deal. Its beginning tells which task a deal is about."""
        return f"Task {self.number}: {self.wish} Hand over {self.name}.py and its output, {self.name}.txt."


def check(task: Task, folder: Path) -> str | None:
    """What is wrong with the files that were handed over; None if nothing is."""
    try:
        program = (folder / f"{task.name}.py").read_text()
        lines = (folder / f"{task.name}.txt").read_text().splitlines()
        tree = ast.parse(program)
    except (OSError, ValueError, SyntaxError) as error:
        return f"{type(error).__name__}: {error}"
    if ast.get_docstring(tree) is None:
        return f"{task.name}.py does not say what it is for"
    if any(len(line) > LONGEST_LINE for line in program.splitlines()):
        return f"{task.name}.py has a line of more than {LONGEST_LINE} characters"
    return task.fault(lines)


def digest(folder: Path) -> str:
    """The name of one state of the files."""
    found = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        found.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:16]


def of_deal(text: str) -> Task | None:
    """The task that a deal is about."""
    return next((task for task in TASKS if text.startswith(f"Task {task.number}:")), None)


def of_number(number: int) -> Task | None:
    return TASKS[number - 1] if 1 <= number <= len(TASKS) else None


# -- the three tasks --------------------------------------------------------------------------------------


def _wrong_primes(lines: list[str]) -> str | None:
    composite = {product for one in range(2, 50) for product in range(2 * one, 100, one)}
    return _difference(lines, [str(number) for number in range(2, 100) if number not in composite])


def _wrong_years(lines: list[str]) -> str | None:
    right = [year for year in range(1890, 1930) if date(year, 12, 31).timetuple().tm_yday == 366]
    return _difference(lines, [str(year) for year in right])


def _wrong_numerals(lines: list[str]) -> str | None:
    for number, line in enumerate(lines, 1):
        values = [NUMERALS.get(letter, 0) for letter in line]
        after = [*values[1:], 0]
        value = sum(-one if one < next_ else one for one, next_ in zip(values, after, strict=True))
        if value != number or any(letter * 4 in line for letter in "IXC"):
            return f"line {number} says {line[:20]!r}"
    return None if len(lines) == 100 else f"there are {len(lines)} lines, not 100"


def _difference(lines: list[str], right: list[str]) -> str | None:
    if lines == right:
        return None
    for line in lines:
        if line not in right:
            return f"{line[:20]!r} is wrong"
    missing = [line for line in right if line not in lines]
    return f"{missing[0]} is missing" if missing else "the order is wrong"


_PRIMES: Final = '''\
"""Print the primes below 100."""

for number in range(2, 100):
    if all(number % divisor for divisor in range(2, number)):
        print(number)
'''

_YEARS: Final = '''\
"""Print the leap years from 1890 to 1929."""

for year in range(1890, 1930):
    if RULE:
        print(year)
'''

_NUMERALS: Final = '''\
"""Print 1 to 100 as Roman numerals."""

LETTERS = {100: "C", 90: "XC", 50: "L", 40: "XL", 10: "X", 9: "IX", 5: "V", 4: "IV", 1: "I"}

for number in range(1, 101):
    text = ""
    for value, letters in LETTERS.items():
        while number >= value:
            text += letters
            number -= value
    print(text)
'''

TASKS: Final = (
    Task(
        1,
        "primes",
        "list the primes below 100, one in a line.",
        "1 is not a prime, and 2 is one.",
        (_PRIMES,),
        _wrong_primes,
    ),
    Task(
        2,
        "leap_years",
        "list the leap years from 1890 to 1929, one in a line.",
        "1900 was not a leap year.",
        (
            _YEARS.replace("RULE", "year % 4 == 0"),
            _YEARS.replace("RULE", "year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)"),
        ),
        _wrong_years,
    ),
    Task(
        3,
        "roman",
        "list 1 to 100 as Roman numerals, one in a line.",
        "9 is IX and 90 is XC.",
        (_NUMERALS,),
        _wrong_numerals,
    ),
)
