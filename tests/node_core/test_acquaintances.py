"""Agents that a node knows from their BEACONs."""

from hypothesis import given
from hypothesis import strategies as st

from moothall.node.acquaintances import Acquaintances
from moothall.node.reports import KnownAgent

KEYS = st.integers(0, 9).map(lambda number: bytes([number]) * 32)


@given(st.lists(st.tuples(st.booleans(), KEYS, st.integers(0, 5)), max_size=60), st.integers(1, 6))
def test_the_latest_are_known(acts: list[tuple[bool, bytes, int]], most: int) -> None:
    known = Acquaintances(most)
    model: dict[bytes, int] = {}
    for is_beacon, key, epoch in acts:
        if is_beacon:
            assert known.saw(KnownAgent(key, "peer", epoch, "name")) == (key not in model)
            model.pop(key, None)
            model[key] = epoch
            while len(model) > most:
                del model[next(iter(model))]
        elif key in model:
            known.heard(key, epoch)
            model.pop(key)
            model[key] = epoch
        else:
            known.heard(key, epoch)
    assert [(each.agent_id, each.last_active_epoch) for each in known] == list(reversed(model.items()))
    assert len(known) == len(model)
    for key in model:
        found = known.get(key)
        assert found is not None
        assert (found.peer_id, found.name) == ("peer", "name")
