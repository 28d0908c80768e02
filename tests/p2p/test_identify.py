"""Identify: what a peer tells of itself."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.p2p import protobuf
from moothall.p2p.delimited import delimit
from moothall.p2p.faults import MalformedMessage
from moothall.p2p.identify import MAX_MESSAGE, MAX_MESSAGES, Identification, Reading
from moothall.p2p.keys import encode_key
from moothall.p2p.multiaddr import Multiaddr
from tests.p2p.splits import cuts, pieces

AGENT = bytes(range(32))
HOME = Multiaddr.parse("/ip4/127.0.0.1/tcp/9000")
TOLD = Identification(
    AGENT,
    (HOME,),
    ("/ipfs/ping/1.0.0", "/meshsub/1.1.0"),
    Multiaddr.parse("/ip4/1.2.3.4/tcp/5"),
    agent_version="a/1",
)
QUIC = bytes.fromhex("047f00000191022328cd03")  # /ip4/127.0.0.1/udp/9000/quic-v1


def read(*chunks: bytes, agent_id: bytes = AGENT) -> Identification:
    reading = Reading(agent_id)
    for chunk in chunks:
        reading.receive(chunk)
    return reading.end()


def test_the_message_written_out_by_hand() -> None:
    message = bytes.fromhex(
        "0a24"
        "08011220" + AGENT.hex() + "1208"
        "047f000001062328"
        "1a10" + b"/ipfs/ping/1.0.0".hex() + "1a0e" + b"/meshsub/1.1.0".hex() + "2208"
        "0401020304060005"
        "2a14" + b"/0x01/identify/1.0.0".hex() + "3203" + b"a/1".hex()
    )
    assert TOLD.encode() == delimit(message)
    assert read(TOLD.encode()) == TOLD


@given(cuts())
def test_any_split_says_the_same(sizes: list[int]) -> None:
    assert read(*pieces(TOLD.encode(), sizes)) == TOLD


def test_a_message_in_several_is_read_as_one() -> None:
    first = protobuf.bytes_field(1, encode_key(AGENT)) + protobuf.text_field(3, "/a")
    second = protobuf.text_field(3, "/b") + protobuf.bytes_field(8, b"a signed record, not looked at")
    assert read(delimit(first), delimit(second)) == Identification(
        AGENT, (), ("/a", "/b"), protocol_version=""
    )


def test_a_push_tells_what_has_changed() -> None:
    push = read(delimit(protobuf.text_field(3, "/new")))
    assert push == Identification(protocols=("/new",), protocol_version="")


def test_addresses_of_other_transports_are_left_out() -> None:
    message = (
        protobuf.bytes_field(2, QUIC) + protobuf.bytes_field(2, HOME.encode()) + protobuf.bytes_field(4, QUIC)
    )
    assert read(delimit(message)) == Identification(addresses=(HOME,), protocol_version="")


def test_another_key_is_refused() -> None:
    with pytest.raises(MalformedMessage, match="another key"):
        read(TOLD.encode(), agent_id=bytes(32))


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        TOLD.encode()[:-1],
        delimit(bytes(MAX_MESSAGE + 1)),
        delimit(b"") * (MAX_MESSAGES + 1),
        delimit(protobuf.text_field(6, "x" * 5000)) * 2,
        delimit(protobuf.number_field(9, 1) * 513),
        delimit(protobuf.number_field(1, 1)),
        delimit(protobuf.bytes_field(3, b"\xff")),
    ],
)
def test_what_is_too_much_or_too_little_is_refused(sent: bytes) -> None:
    with pytest.raises(MalformedMessage):
        read(sent)


def test_long_lists_are_cut() -> None:
    assert len(read(delimit(protobuf.text_field(3, "/x") * 400)).protocols) == 200
    assert len(read(delimit(protobuf.bytes_field(2, HOME.encode()) * 400)).addresses) == 50
    assert len(read(delimit(protobuf.text_field(6, "x" * 4000))).agent_version) == 128


def test_a_message_that_rust_could_not_read_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="4,096"):
        Identification(AGENT, protocols=("/x" * 50,) * 60).encode()


@given(st.binary(max_size=300))
def test_random_messages_are_refused_or_read(message: bytes) -> None:
    with suppress(MalformedMessage):
        assert isinstance(read(delimit(message)), Identification)


@given(st.data())
def test_changed_messages_are_refused_or_read(data: st.DataObject) -> None:
    sent = bytearray(TOLD.encode())
    sent[data.draw(st.integers(0, len(sent) - 1))] = data.draw(st.integers(0, 255))
    with suppress(MalformedMessage):
        assert isinstance(read(bytes(sent)), Identification)
