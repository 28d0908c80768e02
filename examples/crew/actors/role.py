"""What all roles have in common: one step at a time, patience with the others, and manners."""

import random
import time
from typing import Final, Protocol

from actors import lines
from actors.hall import Hall, Item

IDLE: Final = 3000.0  # seconds of listening when nothing is to be done
LONGEST_PATIENCE: Final = 600.0  # seconds


class Role(Protocol):
    skill: str

    def hear(self, news: list[Item]) -> None:
        """Answer what has just been said, where an answer is due."""
        ...

    def step(self) -> bool:
        """Do the next thing, if the state of the hall asks for one. False if there is nothing to do."""
        ...

    @property
    def patience(self) -> float:
        """Seconds to listen before the next look."""
        ...


class Patience:
    """How long to wait for others before asking them again: each time twice as long, so that a crew stays quiet."""

    def __init__(self, first: float) -> None:
        self._first = first
        self._stage: object = None
        self._asked = 0
        self._due = 0.0

    def at(self, stage: object) -> None:
        """The work has come to this stage. A new stage begins with the shortest wait."""
        if stage != self._stage:
            self._stage, self._asked = stage, 0
            self._due = time.monotonic() + self._first

    @property
    def left(self) -> float:
        return max(0.0, self._due - time.monotonic())

    @property
    def asked(self) -> int:
        """How often the patience has ended at this stage."""
        return self._asked

    def ends(self) -> bool:
        """True if it is time to ask again. The next wait begins with that."""
        if self.left:
            return False
        self._asked += 1
        self._due = time.monotonic() + min(self._first * 2**self._asked, LONGEST_PATIENCE)
        return True


def answer_visitors(hall: Hall, news: list[Item], text: str) -> None:
    """Answer questions of visitors: one agent of the crew, or the one that is asked by name or in private."""
    for item in news:
        if item["kind"] == "chat" and _is_a_visitors_question(item) and hall.is_fresh(item):
            if not item["to"].startswith("#"):
                hall.say(text, to=item["from"])
            elif hall.is_named(item):
                hall.say(text, in_reply_to=item["msg_id"], to=item["to"])
            else:
                take_turn(hall, item, text)


def _is_a_visitors_question(item: Item) -> bool:
    """Of a person or a program. Agents of a crew speak of tasks. Answers get no answer, so no talk is endless."""
    is_of_a_crew = lines.number_in(item["content"]) is not None or "in_reply_to" in item
    return item["content"].endswith("?") and (bool(item.get("human")) or not is_of_a_crew)


def take_turn(hall: Hall, item: Item, text: str) -> None:
    """Think for a moment, and answer if no other agent was faster."""
    time.sleep(random.uniform(0.1, 0.6))  # noqa: S311  # a wait, not a secret
    hall.answer(item, text)
