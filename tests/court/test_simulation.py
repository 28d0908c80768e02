"""A thousand disputes among agents that accept, decline, vanish and come back, and a hall that restarts."""

from collections import Counter
from collections.abc import Callable
from typing import TypeVar

import pytest

from moothall.court.books import Books
from moothall.court.filing import NOT_REVEALED, TOO_FEW
from moothall.court.hearing import NO_ANSWER
from moothall.court.panel import PANEL_SIZE
from moothall.hall.outside import Store
from moothall.market import escrow
from moothall.market.replay import replay
from moothall.market.reputation import FLOOR
from tests.court.books import MemoryBooks
from tests.court.simulation import Simulation
from tests.support.world import PromptStore

pytestmark = pytest.mark.slow

Result = TypeVar("Result")

CASES = 20  # in one story, of which there are so many that a thousand cases are tried
STORIES = 25


class MemoryArchive:
    def __init__(self) -> None:
        self.books = MemoryBooks()

    def open(self) -> Store[Books]:
        return PromptStore(self.books)

    def look(self, work: Callable[[Books], Result]) -> Result:
        return work(self.books)


def assert_every_stake_is_accounted_for(books: MemoryBooks) -> None:
    balances = books.balances()
    assert sum(balances.values()) == 0
    staked: Counter[bytes] = Counter()
    for deal in books.deals.values():
        held = escrow.total(deal) if escrow.is_open(deal) else 0
        assert balances.get(f"escrow:{deal.id}", 0) == held
        if held:
            staked.update({deal.proposer: deal.proposer_stake, deal.recipient: deal.acceptor_stake})
    for key, standing in books.stands.items():
        assert standing.escrowed == staked[key]
        assert standing.rating == balances[f"agent:{key.hex()}"] + standing.escrowed
        assert standing.rating >= FLOOR
    rebuilt = replay(books.audit)
    assert rebuilt.problems == []
    for key, standing in rebuilt.standings.items():
        assert standing == books.stands[key]
    settled = Counter(deal for _, deal, operation in books.entries if operation not in ("lock", "opening"))
    assert all(times == 1 for times in settled.values())


def test_every_case_ends_and_verifies_whatever_happens() -> None:
    endings: Counter[str] = Counter()
    for seed in range(STORIES):
        try:
            archive = MemoryArchive()
            story = Simulation(seed, archive)
            story.run(CASES)
            cases = story.check()
            assert_every_stake_is_accounted_for(archive.books)
        except Exception as error:
            error.add_note(f"in story {seed}")
            raise
        seen: set[str] = set()
        for case in cases:
            endings[case.phase] += 1
            endings[case.verdict or case.fallback_reason or ""] += 1
            endings["replaced"] += len(case.slots) > PANEL_SIZE
            endings["second"] += case.proposal_id in seen
            seen.add(case.proposal_id)
            endings["forfeited"] += any(slot.status == "forfeited" for slot in case.slots)
    assert endings["resolved"] + endings["fallback"] >= STORIES * CASES
    # Stories without these would prove little.
    for ending in ("resolved", "disputant", "respondent", "mutual", "replaced", "forfeited"):
        assert endings[ending] > 20, endings
    assert endings["second"] > 5, endings
    for reason in (NOT_REVEALED, TOO_FEW, NO_ANSWER):
        assert endings[reason] > 20, endings
