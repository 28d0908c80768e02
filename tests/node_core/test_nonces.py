"""Nonces never go back."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.errors import NodeRefused
from moothall.node.nonces import RESERVED, StoredNonces


class Disk:
    def __init__(self) -> None:
        self.number = 0
        self.waiting: list[tuple[int, Callable[[int], None]]] = []

    def write(self, up_to: int, reserved: Callable[[int], None]) -> None:
        self.waiting.append((up_to, reserved))

    def sync(self) -> None:
        for up_to, reserved in self.waiting:
            self.number = max(self.number, up_to)
            reserved(up_to)
        self.waiting.clear()

    def begin(self, now: int) -> StoredNonces:
        self.waiting.clear()  # a crash loses what was not written
        nonces = StoredNonces(last=self.number, now=now, reserve=self.write)
        self.number = nonces.first_reservation
        nonces.reserved(self.number)
        return nonces


@given(st.lists(st.tuples(st.integers(1, 2**50), st.integers(0, 20), st.booleans()), min_size=1, max_size=20))
def test_they_rise_over_crashes_and_clocks_that_go_back(runs: list[tuple[int, int, bool]]) -> None:
    disk, last = Disk(), 0
    for now, count, is_synced in runs:
        nonces = disk.begin(now)
        for _ in range(count):
            following = nonces.next()
            assert last < following <= disk.number
            assert following > now
            last = following
        if is_synced:
            disk.sync()


def test_more_are_reserved_in_time_and_a_slow_disk_stops_them() -> None:
    disk = Disk()
    nonces = disk.begin(0)
    for _ in range(RESERVED // 2 + 1):
        nonces.next()
    assert disk.waiting == []
    nonces.next()
    ((up_to, _),) = disk.waiting
    assert up_to > disk.number
    for _ in range(RESERVED // 2 - 2):
        nonces.next()
    with pytest.raises(NodeRefused, match="disk is behind"):
        nonces.next()
    assert len(disk.waiting) == 1
    nonces.failed()
    with pytest.raises(NodeRefused):
        nonces.next()
    assert len(disk.waiting) == 2
    disk.sync()
    assert nonces.next() == RESERVED + 1
