"""The filter of ids: it may say yes too often, and never says no wrongly."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from moothall.hall.idfilter import IdFilter

IDS = st.from_regex(r"\A([0-9a-f]{8}|[0-9a-f]{16})\Z")


@given(st.sets(IDS, max_size=50), IDS, st.integers(1, 100))
def test_what_was_added_is_found(added: set[str], other: str, capacity: int) -> None:
    ids = IdFilter(capacity)
    assert other not in ids
    for agent_id in added:
        known = agent_id in ids
        assert ids.add(agent_id) is not known
    assert all(agent_id in ids for agent_id in added)


def test_few_others_look_as_if_they_had_been_added() -> None:
    dice = Random(1)  # noqa: S311  # the same every time is the point
    ids = IdFilter(10_000)
    for _ in range(10_000):
        ids.add(f"{dice.getrandbits(32):08x}")
    mistaken = sum(f"{dice.getrandbits(32):08x}" in ids for _ in range(10_000))
    assert mistaken < 100
    assert sum(f"{number:08x}" in ids for number in range(10_000)) < 100  # such ids can be chosen


def test_it_has_the_size_that_its_capacity_needs() -> None:
    assert len(IdFilter(1_000_000)._bits) == 2**21
    assert len(IdFilter(1)._bits) == 128
