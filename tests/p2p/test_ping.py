"""Ping: 32 bytes that come back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.p2p.faults import MalformedMessage
from moothall.p2p.ping import Echo, Pinger
from tests.p2p.splits import cuts, pieces


@given(st.binary(max_size=500), cuts())
def test_whole_payloads_come_back(sent: bytes, sizes: list[int]) -> None:
    echo = Echo()
    assert b"".join([echo.receive(piece) for piece in pieces(sent, sizes)]) == sent[: len(sent) // 32 * 32]


@given(st.binary(min_size=32, max_size=32), st.lists(st.integers(1, 31), max_size=5))
def test_an_answer_in_pieces(payload: bytes, sizes: list[int]) -> None:
    pinger, echo = Pinger(), Echo()
    answer = echo.receive(pinger.ask(payload))
    assert pinger.is_waiting
    answers = [pinger.receive(piece) for piece in pieces(answer, sizes) if piece]
    assert answers == [False] * (len(answers) - 1) + [True]
    assert pinger.ask(payload) == payload


@pytest.mark.parametrize("answer", [b"x", bytes(31) + b"x", bytes(33)])
def test_another_answer_is_refused(answer: bytes) -> None:
    pinger = Pinger()
    pinger.ask(bytes(32))
    with pytest.raises(MalformedMessage):
        pinger.receive(answer)


def test_an_answer_that_was_not_asked_for_is_refused() -> None:
    pinger = Pinger()
    assert not pinger.receive(b"")
    with pytest.raises(MalformedMessage):
        pinger.receive(b"x")


def test_pings_follow_each_other() -> None:
    pinger = Pinger()
    with pytest.raises(ValueError, match="32 bytes"):
        pinger.ask(b"short")
    pinger.ask(bytes(32))
    with pytest.raises(ValueError, match="waits"):
        pinger.ask(bytes(32))
