"""Frames: whatever the pieces in which they arrive, the packets are the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.wire.keep.frames import FrameReader, frame
from moothall.wire.keep.packet import MAX_PACKET


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=8), st.data())
def test_packets_arrive_whole_however_they_are_cut(payloads: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(map(frame, payloads))
    reader = FrameReader()
    read: list[bytes] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        read += reader.feed(stream[:size])
        stream = stream[size:]
    assert read == payloads
    assert len(reader) == 0
    assert not reader.broken


@pytest.mark.parametrize("size", [1, MAX_PACKET])
def test_the_smallest_and_the_largest_packet_pass(size: int) -> None:
    assert FrameReader().feed(frame(b"x" * size)) == [b"x" * size]


@pytest.mark.parametrize("length", [0, MAX_PACKET + 1, 0xFFFFFFFF])
def test_an_impossible_length_ends_the_stream_behind_what_came_before(length: int) -> None:
    reader = FrameReader()
    assert reader.feed(frame(b"a") + length.to_bytes(4, "big") + frame(b"b")) == [b"a"]
    assert reader.broken
    assert reader.feed(frame(b"c")) == []


@pytest.mark.parametrize("size", [0, MAX_PACKET + 1])
def test_no_frame_is_made_that_nobody_would_read(size: int) -> None:
    with pytest.raises(ValueError, match="1 to 65536 bytes"):
        frame(b"x" * size)


def test_a_packet_that_is_not_whole_is_waited_for() -> None:
    reader = FrameReader()
    whole = frame(b"hello")
    assert reader.feed(whole[:3]) == []
    assert reader.feed(whole[3:6]) == []
    assert len(reader) == 6
    assert reader.feed(whole[6:]) == [b"hello"]
