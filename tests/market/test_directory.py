"""Who offers a skill, as `nearest:` and `swarm:` ask for it."""

from collections.abc import Callable
from typing import Any

import pytest

from moothall.hall.keep.bridge import Found
from moothall.market.directory import SkillDirectory
from moothall.market.records import Registration
from tests.court.books import MemoryBooks
from tests.identity.vectors import ALICE, BOB
from tests.support.world import HeldStore


class FailingStore:
    def submit(self, work: Any, done: Any, failed: Callable[[BaseException], None]) -> None:
        failed(OSError("disk"))


def test_questions_that_come_together_are_one_unit_of_work() -> None:
    books = MemoryBooks()
    store = HeldStore(books)
    directory = SkillDirectory(store)
    answers: dict[str, Found] = {}
    failures: list[BaseException] = []

    def ask(skill: str) -> None:
        directory.find(
            skill, [ALICE.public.raw], lambda found: answers.update({skill: found}), failures.append
        )

    ask("first")
    for number in range(50):
        ask(f"skill {number}")
    assert len(store.waiting) == 1
    # What was committed before a question was asked counts for it, whatever is being answered just now.
    books.skills[BOB.public.raw] = Registration(
        key=BOB.public.raw, agent_id="b", skills=[{"capability": "Skill 7"}], registered_at=0, sig=""
    )
    store.do_next()
    assert answers.keys() == {"first"}
    assert len(store.waiting) == 1
    store.do_next()
    assert len(answers) == 51
    assert answers["skill 7"].offering == {BOB.public.raw}
    assert answers["skill 8"].offering == frozenset()
    assert answers["skill 7"].standings.keys() == {ALICE.public.raw, BOB.public.raw}
    assert store.waiting == []
    assert failures == []


def test_a_store_that_fails_fails_who_asked_and_serves_the_next() -> None:
    failures: list[BaseException] = []
    directory = SkillDirectory(FailingStore())
    for _ in range(2):
        directory.find("skill", [], lambda found: pytest.fail("there is no store"), failures.append)
    assert [str(error) for error in failures] == ["disk", "disk"]
