"""multistream-select: which protocol two peers agree on, and that nothing behind it is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.p2p.faults import NegotiationFailed
from moothall.p2p.multistream import MAX_LINE, MAX_PROPOSALS, Initiator, Responder, line
from tests.p2p.splits import cuts, pieces

HEADER = b"\x13/multistream/1.0.0\n"
NA = b"\x03na\n"
PING = b"\x11/ipfs/ping/1.0.0\n"
names = st.sampled_from([f"/{letter}/1.0.0" for letter in "abcdef"])


def test_lines_are_as_the_specification_writes_them() -> None:
    assert line("/multistream/1.0.0") == HEADER
    assert line("na") == NA
    assert line("/ipfs/ping/1.0.0") == PING
    assert line("x" * 200)[:2] == b"\xc9\x01"


@pytest.mark.parametrize("text", ["x" * MAX_LINE, "two\nlines"])
def test_what_does_not_fit_on_a_line_cannot_be_written(text: str) -> None:
    with pytest.raises(ValueError, match="one newline"):
        line(text)


def test_the_initiator_sends_header_and_proposal_together() -> None:
    initiator = Initiator(["/ipfs/ping/1.0.0"])
    assert initiator.start() == HEADER + PING
    assert initiator.may_write
    assert initiator.receive(HEADER) == b""
    assert initiator.receive(PING + b"data") == b""
    assert initiator.agreed == "/ipfs/ping/1.0.0"
    assert initiator.rest() == b"data"


def test_the_next_proposal_follows_a_refusal() -> None:
    initiator = Initiator(["/other/1.0.0", "/ipfs/ping/1.0.0"])
    assert not initiator.may_write
    initiator.start()
    assert initiator.receive(HEADER + NA) == PING
    assert initiator.receive(PING) == b""
    assert initiator.may_write


def test_a_responder_answers_early_data_in_one_piece() -> None:
    responder = Responder({"/ipfs/ping/1.0.0"})
    assert responder.receive(HEADER + PING + b"early") == HEADER + PING
    assert responder.agreed == "/ipfs/ping/1.0.0"
    assert responder.rest() == b"early"


def test_a_responder_refuses_what_it_does_not_speak() -> None:
    responder = Responder({"/ipfs/ping/1.0.0"})
    assert responder.receive(HEADER + line("/other/1.0.0") + line("ls")) == HEADER + NA + NA
    assert responder.receive(PING) == PING


@given(st.lists(names, min_size=1, unique=True), st.sets(names), st.binary(max_size=50), cuts(), cuts())
def test_two_ends_agree_on_the_first_common_protocol(
    proposals: list[str], spoken: set[str], data: bytes, first: list[int], second: list[int]
) -> None:
    """Whatever the network does to the pieces, and with data right behind the protocol, on both sides."""
    initiator, responder = Initiator(proposals), Responder(spoken)
    common = next((name for name in proposals if name in spoken), None)
    early = initiator.may_write
    to_responder = initiator.start() + (data if early else b"")
    got = b""
    answered = False
    try:
        while to_responder:
            answer = b"".join([responder.receive(piece) for piece in pieces(to_responder, first)])
            if responder.agreed is not None:
                got += responder.rest()
                answer += b"" if answered else data
                answered = True
            was_agreed = initiator.agreed is not None
            to_responder = b"".join([initiator.receive(piece) for piece in pieces(answer, second)])
            if initiator.agreed is not None and not was_agreed and not early:
                to_responder += data
    except NegotiationFailed:
        # The responder may have read early data as a proposal.
        assert common is None
        return
    if common is None:
        assert early  # and the responder waits for the rest of what looks like a proposal
        return
    assert initiator.agreed == responder.agreed == common
    assert got == initiator.rest() == data


@pytest.mark.parametrize(
    "sent",
    [
        line("/multistream/2.0.0"),
        b"\x00",
        b"\x01x",
        b"\x81\x08",
        b"\xff\xff\xff",
        b"\x80\x00",
        b"\x03\xff\xff\n",
        HEADER + line("/not/proposed"),
        HEADER + NA,
        HEADER + HEADER,
    ],
)
def test_an_initiator_refuses_other_answers(sent: bytes) -> None:
    initiator = Initiator(["/ipfs/ping/1.0.0"])
    initiator.start()
    with pytest.raises(NegotiationFailed):
        initiator.receive(sent)


def test_a_responder_does_not_answer_for_ever() -> None:
    responder = Responder({"/ipfs/ping/1.0.0"})
    assert responder.receive(HEADER + line("/x") * MAX_PROPOSALS).endswith(NA)
    with pytest.raises(NegotiationFailed, match="more than 32"):
        responder.receive(line("/x"))


def test_an_initiator_needs_a_proposal() -> None:
    with pytest.raises(ValueError, match="no protocol"):
        Initiator([])


@given(st.lists(st.binary(max_size=60) | st.sampled_from([HEADER, NA, PING]), max_size=8))
def test_random_bytes_are_a_fault_or_taken(sent: list[bytes]) -> None:
    initiator, responder = Initiator(["/ipfs/ping/1.0.0", "/a"]), Responder({"/ipfs/ping/1.0.0"})
    for side in (initiator, responder):
        try:
            for piece in sent:
                side.receive(piece)
                assert side.agreed is not None or len(side._lines._buffer) <= MAX_LINE + 2
        except NegotiationFailed:
            pass
