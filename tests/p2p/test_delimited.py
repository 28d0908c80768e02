"""Messages after their length."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.p2p.delimited import Delimited, delimit
from moothall.p2p.faults import MalformedMessage
from tests.p2p.splits import cuts, pieces

LIMIT = 300


@given(st.lists(st.binary(max_size=LIMIT), max_size=8), cuts())
def test_any_split_gives_the_same_messages(messages: list[bytes], sizes: list[int]) -> None:
    stream = Delimited(LIMIT)
    found = [
        message
        for piece in pieces(b"".join(map(delimit, messages)), sizes)
        for message in stream.receive(piece)
    ]
    assert found == messages
    assert stream.is_between_messages


def test_a_message_that_is_cut_off_is_noticed() -> None:
    stream = Delimited(LIMIT)
    assert stream.receive(delimit(b"whole") + delimit(b"not whole")[:-1]) == [b"whole"]
    assert not stream.is_between_messages
    assert stream.size == len(delimit(b"not whole")) - 1
    stream.clear()
    assert (stream.size, stream.receive(delimit(b"again"))) == (0, [b"again"])


def test_a_message_over_the_limit_is_refused_before_it_arrives() -> None:
    assert Delimited(LIMIT).receive(delimit(bytes(LIMIT))) == [bytes(LIMIT)]
    with pytest.raises(MalformedMessage, match="longer than 300"):
        Delimited(LIMIT).receive(delimit(bytes(LIMIT + 1))[:2])


@given(st.binary(max_size=2000), cuts())
def test_no_more_than_a_message_is_kept(data: bytes, sizes: list[int]) -> None:
    stream = Delimited(LIMIT)
    try:
        for piece in pieces(data, sizes):
            stream.receive(piece)
            assert len(stream._buffer) <= LIMIT + 2
    except MalformedMessage:
        pass
