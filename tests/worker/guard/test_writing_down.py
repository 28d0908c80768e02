"""The state file during a run: written after changes, at most every 5 seconds."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from moothall.worker.guard.writing_down import PERIOD, WritingDown


def test_what_is_in_the_file_is_not_written_again() -> None:
    file = WritingDown()
    file.written(10, (1, 2))
    assert file.due((1, 2)) is None
    assert file.due((1, 3)) == 10 + PERIOD


@given(st.lists(st.tuples(st.floats(0, 20), st.integers(0, 3))))
def test_writes_are_a_period_apart_and_the_last_counts_are_written(turns: list[tuple[float, int]]) -> None:
    """A guard that wakes up after these pauses, and at the moments that are due."""
    file, now, tokens, writes = WritingDown(), 0.0, 0, [0.0]
    file.written(now, (tokens,))
    for pause, used in [*turns, (0.0, 0)]:
        end = now + pause
        while (due := file.due((tokens,))) is not None and due <= end:
            now = max(now, due)
            file.written(now, (tokens,))
            writes.append(now)
        now, tokens = end, tokens + used
    assert all(later >= earlier + PERIOD for earlier, later in pairwise(writes))
    assert len(writes) <= 1 + sum(used > 0 for _, used in turns)
    due = file.due((tokens,))
    assert due is None or due <= now + PERIOD
