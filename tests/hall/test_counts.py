"""Numbers for /health and /metrics: never older than they may be, never counted more often than is good."""

from collections.abc import Callable

import pytest

from moothall.hall.counts import MOST_OF_THE_TIME, OLDEST_SECONDS, RECOUNT_SECONDS, Counts
from moothall.hall.outside import Result
from tests.support.world import World


class SlowStore:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.answers: list[Callable[[], None]] = []
        self.rows = 0

    def submit(
        self,
        work: Callable[["SlowStore"], Result],
        done: Callable[[Result], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self.answers.append(lambda: done(work(self)))

    def answer(self) -> None:
        self.answers.pop(0)()


def test_changes_are_counted_together_a_moment_later() -> None:
    world, store = World(), SlowStore()
    counts: Counts[SlowStore, int] = Counts(store, lambda rows: rows.rows, 0)
    for _ in range(10):
        store.rows += 1
        counts.changed(world.hall)
    assert store.answers == []
    world.advance(RECOUNT_SECONDS)
    assert len(store.answers) == 1
    store.answer()
    assert counts.latest == 10


@pytest.mark.parametrize(("took", "pause"), [(0.1, 0.1 / MOST_OF_THE_TIME), (60, OLDEST_SECONDS)])
def test_what_takes_long_is_counted_less_often(took: float, pause: float) -> None:
    world, store = World(), SlowStore()
    counts: Counts[SlowStore, int] = Counts(store, lambda rows: rows.rows, 0)
    counts.count(world.hall)
    world.advance(9)  # the first one has waited for the store to open
    store.answer()
    counts.changed(world.hall)
    world.advance(RECOUNT_SECONDS)
    world.advance(took)
    store.answer()
    counts.changed(world.hall)
    world.advance(pause - 1)
    assert store.answers == []
    world.advance(1)
    assert len(store.answers) == 1


def test_an_older_count_does_not_replace_a_newer_one() -> None:
    world, store = World(), SlowStore()
    counts: Counts[SlowStore, int] = Counts(store, lambda rows: rows.rows, 0)
    counts.count(world.hall)
    counts.count(world.hall)
    older, newer = store.answers
    store.rows = 2
    newer()
    store.rows = 1  # as the older one found it
    older()
    assert counts.latest == 2


def test_a_count_that_fails_is_logged_and_the_last_one_stays() -> None:
    world = World()

    class BrokenStore(SlowStore):
        def submit(
            self,
            work: Callable[[SlowStore], Result],
            done: Callable[[Result], None],
            failed: Callable[[BaseException], None],
        ) -> None:
            failed(OSError(5, "Input/output error"))

    counts: Counts[SlowStore, int] = Counts(BrokenStore(), lambda rows: rows.rows, 7)
    counts.count(world.hall)
    assert counts.latest == 7
    assert world.log.find("count_failed")
