"""Who offers a skill, and how they stand: what `nearest:` and `swarm:` ask the market (seed 004, dst)."""

from collections.abc import Callable
from typing import Final, NamedTuple

from moothall.hall.keep.bridge import Found
from moothall.hall.outside import Store
from moothall.market.books import Books

# Agents that one packet can reach by a skill: those that were rated best when they registered
MOST: Final = 2000


class _Question(NamedTuple):
    skill: str
    named: list[bytes]
    found: Callable[[Found], None]
    failed: Callable[[BaseException], None]


class SkillDirectory:
    """Asks the books every time, so that a skill or a rating counts from the moment it is committed.

    Questions that come while one is being answered wait, and are then asked together: however many there are,
    the store has one unit of work for them, and deals do not wait behind a crowd.
    """

    def __init__(self, store: Store[Books]) -> None:
        self._store = store
        self._waiting: list[_Question] = []
        self._asking = False

    def find(
        self,
        skill: str,
        named: list[bytes],
        found: Callable[[Found], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._waiting.append(_Question(skill.lower(), named, found, failed))
        if not self._asking:
            self._ask()

    def _ask(self) -> None:
        questions, self._waiting = self._waiting, []
        self._asking = True

        def found(answers: list[Found]) -> None:
            self._go_on()
            for question, answer in zip(questions, answers, strict=True):
                question.found(answer)

        def failed(error: BaseException) -> None:
            self._go_on()
            for question in questions:
                question.failed(error)

        self._store.submit(lambda books: _answer(books, questions), found, failed)

    def _go_on(self) -> None:
        self._asking = False
        if self._waiting:
            self._ask()


def _answer(books: Books, questions: list[_Question]) -> list[Found]:
    offering = {question.skill: set(books.offering(question.skill, MOST)) for question in questions}
    wanted = set().union(*offering.values(), *(question.named for question in questions))
    standings = {
        key: (standing.rating, standing.transactions) for key, standing in books.standings_of(wanted).items()
    }
    return [Found(frozenset(offering[question.skill]), standings) for question in questions]
