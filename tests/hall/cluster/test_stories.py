"""Random stories of nodes that fail: no promise of the hall is broken. The same ones each time.

`python -m benchmarks.cluster --stories 10000` tries more of them.
"""

import pytest

from tests.support.stories import broken

STORIES = 20  # in each test


@pytest.mark.parametrize("first", range(0, 120, STORIES))
def test_no_promise_is_broken(first: int) -> None:
    for seed in range(first, first + STORIES):
        assert not broken(seed), f"seed {seed}"
