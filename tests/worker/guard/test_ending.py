"""SIGTERM, the cooldown, SIGKILL, and no more than that."""

import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.worker.guard.ending import PATIENCE, Ending

pytestmark = pytest.mark.slow


@given(st.floats(0, 100), st.lists(st.floats(0, 10), max_size=40))
def test_each_step_is_taken_once_and_in_time(cooldown: float, waits: list[float]) -> None:
    ending, now = Ending(cooldown), 1000.0
    has_begun = ending.has_begun
    assert not has_begun
    assert ending.wake_at() is None
    assert ending.step(now) is None
    assert ending.begin(now, signal.SIGINT) == signal.SIGINT
    kill_at = now + cooldown
    killed_at: float | None = None
    for wait in waits:
        now += wait
        assert ending.begin(now) is None
        assert ending.has_begun
        step = ending.step(now)
        assert (step == signal.SIGKILL) == (killed_at is None and now >= kill_at)
        if step is not None:
            killed_at = now
        assert ending.is_hopeless(now) == (killed_at is not None and now >= killed_at + PATIENCE)
        assert ending.wake_at() == (kill_at if killed_at is None else killed_at + PATIENCE)
