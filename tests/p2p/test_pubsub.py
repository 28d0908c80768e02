"""The RPC of gossipsub: its bytes, what a signature covers, and the id of a message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.identity.signatures import expand, sign, verify
from moothall.p2p import protobuf
from moothall.p2p.delimited import Delimited
from moothall.p2p.faults import MalformedMessage
from moothall.p2p.keys import encode_key
from moothall.p2p.pubsub import (
    MAX_MESSAGE,
    MAX_RPC,
    Message,
    Prune,
    Rpc,
    _canonical,
    _in_any_form,
    decode_rpc,
    is_offer,
    is_publication,
    publication,
    signed_message,
)
from moothall.wire.mesh.peer_ids import message_id, peer_id_bytes

SEED = b"s" * 32
SECRET = expand(SEED)
AUTHOR = SECRET[32:]
MESSAGE = signed_message(SECRET, 258, "/0x01/v1/broadcast", b"data")
# from, data, seqno and topic, written out by hand.
CONTENT = (
    bytes.fromhex("0a26002408011220")
    + AUTHOR
    + bytes.fromhex("1204646174611a0800000000000001022212")
    + b"/0x01/v1/broadcast"
)
topics = st.text(min_size=1, max_size=20)
ids = st.lists(st.binary(max_size=80), max_size=5)
rpcs = st.builds(
    Rpc,
    subscriptions=st.lists(st.tuples(st.booleans(), topics), max_size=4),
    messages=st.lists(
        st.builds(
            signed_message, st.just(SECRET), st.integers(0, (1 << 64) - 1), topics, st.binary(max_size=300)
        ),
        max_size=3,
    ),
    ihave=st.lists(st.tuples(topics, ids), max_size=3),
    iwant=ids,
    graft=st.lists(topics, max_size=3),
    prune=st.lists(st.builds(Prune, topics, st.none() | st.integers(0, 1000)), max_size=3),
)


def undelimited(data: bytes) -> bytes:
    (message,) = Delimited(MAX_RPC).receive(data)
    return message


def received(message: bytes) -> Message:
    (found,) = decode_rpc(protobuf.bytes_field(2, message)).messages
    return found


def test_a_message_written_out_by_hand() -> None:
    signature = sign(SEED, b"libp2p-pubsub:" + CONTENT)
    assert MESSAGE.encoded == CONTENT + b"\x2a\x40" + signature
    assert verify(AUTHOR, b"libp2p-pubsub:" + CONTENT, MESSAGE.signature)
    assert received(MESSAGE.encoded) == MESSAGE
    assert MESSAGE.is_authentic


def test_the_id_is_the_text_of_peer_and_number() -> None:
    assert MESSAGE.id == message_id(peer_id_bytes(AUTHOR), 258)
    assert MESSAGE.id.startswith(b"12D3KooW")
    assert MESSAGE.id.endswith(b"258")


@given(rpcs)
def test_what_is_written_is_read(rpc: Rpc) -> None:
    assert decode_rpc(undelimited(rpc.encode())) == rpc


def test_a_publication_is_an_rpc() -> None:
    assert publication(MESSAGE) == Rpc(messages=[MESSAGE]).encode()
    assert is_publication(publication(MESSAGE))
    for other in (
        Rpc(),
        Rpc(subscriptions=[(True, "x")]),
        Rpc(graft=["x"]),
        Rpc(prune=[Prune("x")]),
        Rpc(iwant=[b"x"]),
    ):
        assert not is_publication(other.encode())


def test_what_tells_of_messages_or_asks_for_them_is_an_offer() -> None:
    ids = [b"x" * 60] * 20  # with a length of two bytes
    for offer in (Rpc(ihave=[("x", [])]), Rpc(ihave=[("x", ids)]), Rpc(iwant=[b"x"]), Rpc(iwant=ids)):
        assert is_offer(offer.encode())
    for other in (
        Rpc(),
        Rpc(subscriptions=[(True, "x")]),
        Rpc(messages=[MESSAGE]),
        Rpc(graft=["x"]),
        Rpc(prune=[Prune("x")]),
    ):
        assert not is_offer(other.encode())


def test_an_rpc_written_out_by_hand() -> None:
    rpc = Rpc(
        subscriptions=[(True, "a"), (False, "b")],
        ihave=[("a", [b"1", b"2"])],
        iwant=[b"3"],
        graft=["a"],
        prune=[Prune("b", 60)],
    )
    form = "0a0508011201610a0508001201621a1c" + ("0a090a016112013112013212030a01331a030a016122050a0162183c")
    assert undelimited(rpc.encode()).hex() == form


def test_another_order_and_the_key_are_read_and_not_passed_on() -> None:
    parts = [
        protobuf.bytes_field(6, encode_key(AUTHOR)),
        protobuf.bytes_field(5, MESSAGE.signature),
        protobuf.text_field(4, MESSAGE.topic),
        protobuf.bytes_field(9, b"unknown"),
        protobuf.bytes_field(3, (258).to_bytes(8, "big")),
        protobuf.bytes_field(2, b"data"),
        protobuf.bytes_field(1, peer_id_bytes(AUTHOR)),
    ]
    assert received(b"".join(parts)) == MESSAGE


@given(
    st.integers(0, (1 << 64) - 1),
    st.text(min_size=1, max_size=80),
    st.binary(max_size=200),
    st.none() | st.tuples(st.integers(0, 500), st.integers(0, 255), st.integers(0, 80)),
)
def test_the_short_way_reads_what_the_long_way_reads(
    seqno: int, topic: str, data: bytes, change: tuple[int, int, int] | None
) -> None:
    form = bytearray(signed_message(SECRET, seqno, topic, data).encoded)
    if change is not None:
        place, octet, missing = change
        form[place % len(form)] = octet
        del form[len(form) - missing :]
    try:
        short = _canonical(bytes(form))
    except MalformedMessage:
        return
    if change is None and len(topic.encode()) < 128:
        assert short is not None
    if short is not None:
        assert short == _in_any_form(bytes(form))
        assert short.encoded == form


@pytest.mark.parametrize("place", range(len(MESSAGE.encoded)))
def test_both_ways_read_the_same_whatever_byte_is_changed(place: int) -> None:
    for octet in (0, 1, 4, 0x12, 0x1A, 0x22, 0x2A, 0x7F, 0x80, 0xFF, MESSAGE.encoded[place] ^ 1):
        form = bytearray(MESSAGE.encoded)
        form[place] = octet
        try:
            short = _canonical(bytes(form))
        except MalformedMessage:
            short = None
        if short is not None:
            assert short == _in_any_form(bytes(form))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (1, b""),
        (1, peer_id_bytes(AUTHOR)[:-1]),
        (3, b""),
        (3, bytes(9)),
        (4, b""),
        (4, b"x" * 257),
        (4, b"\xff"),
        (5, b""),
        (5, bytes(63)),
        (6, encode_key(bytes(32))),
        (6, b"no key"),
        (2, bytes(MAX_MESSAGE)),
    ],
)
def test_messages_that_are_not_signed_as_they_must_be_are_counted(field: int, value: bytes) -> None:
    """They are left out; what else the RPC says counts."""
    rpc = decode_rpc(
        protobuf.bytes_field(2, MESSAGE.encoded + protobuf.bytes_field(field, value))
        + undelimited(publication(MESSAGE))
    )
    assert rpc.messages == [MESSAGE]
    assert rpc.malformed == 1


@given(st.integers(1, 5), st.binary(min_size=1, max_size=80))
def test_a_changed_message_is_not_authentic(field: int, value: bytes) -> None:
    rpc = decode_rpc(protobuf.bytes_field(2, MESSAGE.encoded + protobuf.bytes_field(field, value)))
    assert not any(message.is_authentic for message in rpc.messages if message != MESSAGE)


def test_a_message_that_is_too_long_cannot_be_made() -> None:
    overhead = len(signed_message(SECRET, 1, "t", bytes(60_000)).encoded) - 60_000
    assert signed_message(SECRET, 1, "t", bytes(MAX_MESSAGE - overhead)).is_authentic
    with pytest.raises(ValueError, match="65,536"):
        signed_message(SECRET, 1, "t", bytes(MAX_MESSAGE - overhead + 1))
    with pytest.raises(ValueError, match="at most"):
        signed_message(SECRET, 1, "t" * 257, b"")


@pytest.mark.parametrize(
    "data",
    [
        protobuf.number_field(1, 0) * 5001,
        protobuf.bytes_field(3, protobuf.bytes_field(2, protobuf.bytes_field(1, b"") * 20_100)),
        protobuf.bytes_field(3, protobuf.bytes_field(1, protobuf.bytes_field(2, b"") * 11_000) * 2),
        protobuf.bytes_field(3, protobuf.bytes_field(1, protobuf.bytes_field(2, b"") * 11_000)) * 2,
        protobuf.bytes_field(3, protobuf.bytes_field(3, b"") * 100) * 51,
        protobuf.bytes_field(3, protobuf.bytes_field(2, protobuf.bytes_field(1, b"x" * 129))),
        protobuf.bytes_field(3, protobuf.bytes_field(3, protobuf.bytes_field(1, b"x" * 257))),
        protobuf.bytes_field(3, protobuf.bytes_field(4, protobuf.bytes_field(3, b""))),
        protobuf.bytes_field(1, protobuf.number_field(2, 1)),
    ],
)
def test_other_rpcs_are_refused(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode_rpc(data)


@given(st.binary(max_size=300))
def test_random_bytes_are_refused_or_read(data: bytes) -> None:
    for whole in (data, protobuf.bytes_field(2, data), protobuf.bytes_field(3, data)):
        try:
            rpc = decode_rpc(whole)
        except MalformedMessage:
            continue
        assert not any(message.is_authentic for message in rpc.messages)


@given(rpcs, st.data())
def test_changed_bytes_are_refused_or_read(rpc: Rpc, data: st.DataObject) -> None:
    form = bytearray(undelimited(rpc.encode()))
    if form:
        form[data.draw(st.integers(0, len(form) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = decode_rpc(bytes(form))
    except MalformedMessage:
        return
    known = [message.encoded for message in rpc.messages]
    assert all(message.encoded in known for message in found.messages if message.is_authentic)
