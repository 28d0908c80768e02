"""The bilateral stream: one envelope, and an answer that must be exactly ACK."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.p2p.bilateral import Answer, Request
from moothall.p2p.faults import MalformedMessage
from moothall.wire.mesh.frames import ACK, frame
from tests.p2p.splits import cuts, pieces


@given(st.binary(min_size=1, max_size=2000), cuts())
def test_any_split_gives_the_envelope(envelope: bytes, sizes: list[int]) -> None:
    request = Request()
    for piece in pieces(frame(envelope), sizes):
        request.receive(piece)
    assert request.envelope == envelope


@pytest.mark.parametrize("size", [0, 65_537, 0xFFFFFFFF])
def test_lengths_of_no_envelope_are_refused_at_once(size: int) -> None:
    request = Request()
    with pytest.raises(MalformedMessage, match="bytes on a bilateral"):
        request.receive(size.to_bytes(4, "little"))


def test_the_longest_envelope_is_read() -> None:
    request = Request()
    request.receive(frame(bytes(65_536)))
    assert request.envelope == bytes(65_536)


@pytest.mark.parametrize("chunks", [[frame(b"abc") + b"d"], [frame(b"abc"), b"d"]])
def test_nothing_may_follow_an_envelope(chunks: list[bytes]) -> None:
    request = Request()

    def take() -> None:
        for chunk in chunks:
            request.receive(chunk)

    with pytest.raises(MalformedMessage, match="goes on"):
        take()


@given(st.lists(st.integers(1, 3), max_size=7))
def test_the_answer_may_come_in_pieces(sizes: list[int]) -> None:
    answer = Answer()
    for piece in pieces(ACK, sizes):
        answer.receive(piece)
    assert answer.is_complete


@pytest.mark.parametrize("sent", [b"ACK", ACK + b"!", b"\x03\x00\x00\x00NAK", b"\x04"])
def test_other_answers_are_refused(sent: bytes) -> None:
    with pytest.raises(MalformedMessage):
        Answer().receive(sent)


def test_half_an_answer_is_none() -> None:
    answer = Answer()
    answer.receive(ACK[:-1])
    assert not answer.is_complete
