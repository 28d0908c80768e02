"""What the crew says in the channel. A model reads sentences; a stand-in finds the same facts with a pattern."""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from actors.tasks import Task

_NUMBER: Final = re.compile(r"\b[Tt]ask (\d{1,3})\b")
_VERDICT: Final = re.compile(r"\bTask (\d{1,3}): (approved|not yet), version ([0-9a-f]{16})\b")

_ASKED: Final = "What is easy to get wrong there?"
_FAR: Final = "How far is task"
_MISSING: Final = "I have no files of task"


class Verdict(NamedTuple):
    """What the reviewer thinks of one version of the files."""

    number: int
    approved: bool
    version: str


def question(task: Task) -> str:
    return f"Task {task.number}: {task.wish} {_ASKED}"


def is_question(text: str) -> bool:
    return text.endswith(_ASKED)


def advice(task: Task) -> str:
    return f"Task {task.number}: {task.advice}"


def offered(task: Task, stake: int) -> str:
    return f"Task {task.number} is a deal: @coder has my offer, with a stake of {stake}."


def settled(task: Task, changes: Mapping[str, Any]) -> str:
    """`changes` are those of both ratings, by @id, and other facts of the deal."""
    ratings = [
        f"{agent} has {change['newRating']}" for agent, change in changes.items() if agent.startswith("@")
    ]
    return f"Task {task.number} is settled. New ratings: {', '.join(ratings)}."


def waiting(task: Task) -> str:
    return f"@coder, my offer of task {task.number} waits for you."


def how_far(task: Task) -> str:
    return f"@coder @reviewer: {_FAR} {task.number}?"


def is_how_far(text: str) -> bool:
    return _FAR in text


def missing(number: int) -> str:
    return f"@coder, {_MISSING} {number}: please send them."


def is_missing(text: str) -> bool:
    return _MISSING in text


def verdict(task: Task, version: str, fault: str | None) -> str:
    if fault is None:
        return f"@planner @coder Task {task.number}: approved, version {version}."
    return f"@coder Task {task.number}: not yet, version {version}. {fault}"


def read_verdict(text: str) -> Verdict | None:
    found = _VERDICT.search(text)
    return None if found is None else Verdict(int(found[1]), found[2] == "approved", found[3])


def number_in(text: str) -> int | None:
    """The task that a sentence is about."""
    found = _NUMBER.search(text)
    return None if found is None else int(found[1])
