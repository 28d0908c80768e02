"""Packets that a keep client has not read yet."""

from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from moothall.gateways.keep_backlog import HARD_MARK, PER_PACKET, Backlog, Waiting
from moothall.hall.keep.registry import Peer

SOFT_MARK = 1000
OTHER = cast("Peer", object())


def packet(size: int, expires: float | None = None) -> Waiting:
    return Waiting(b"x" * size, OTHER, "id", expires)


@given(sizes=st.lists(st.tuples(st.integers(1, 300), st.booleans()), max_size=60))
def test_packets_of_others_stop_at_the_soft_mark_and_the_halls_own_at_the_hard_one(
    sizes: list[tuple[int, bool]],
) -> None:
    backlog, waiting = Backlog(SOFT_MARK), 0
    for size, is_own in sizes:
        after = waiting + size + PER_PACKET
        fits = after <= SOFT_MARK * (HARD_MARK if is_own else 1)
        assert backlog.add(packet(size), is_own=is_own) is fits
        waiting = after if fits else waiting
        assert backlog.bytes == waiting
        assert backlog.is_over_soft_mark is (waiting > SOFT_MARK)
        assert backlog.has_room is (waiting <= SOFT_MARK // 2)
    assert sum(len(each.frame) + PER_PACKET for each in backlog.clear()) == waiting
    assert (len(backlog), backlog.bytes) == (0, 0)


@given(
    packets=st.lists(st.tuples(st.integers(1, 100), st.none() | st.floats(0, 10)), max_size=30),
    most=st.integers(1, 500),
)
def test_frames_leave_in_order_without_those_that_waited_too_long(
    packets: list[tuple[int, float | None]], most: int
) -> None:
    backlog, now = Backlog(10**6), 5.0
    given_in = [packet(size, expires) for size, expires in packets]
    for each in given_in:
        backlog.add(each, is_own=False)
    frames: list[bytes] = []
    late: list[Waiting] = []
    while backlog:
        some, expired = backlog.take(most, now)
        assert sum(map(len, some[:-1])) < most
        frames += some
        late += expired
    is_late = [each.expires is not None and each.expires < now for each in given_in]
    assert late == [each for each, too_late in zip(given_in, is_late, strict=True) if too_late]
    assert frames == [each.frame for each, too_late in zip(given_in, is_late, strict=True) if not too_late]
    assert backlog.bytes == 0
