"""The secure channel: who the peer is, and that its bytes arrive unchanged."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moothall.identity.signatures import expand, sign
from moothall.p2p import protobuf
from moothall.p2p.faults import BrokenChannel, HandshakeFailed
from moothall.p2p.handshake import MAX_FRAME, MAX_HANDSHAKE_FRAME, MAX_PLAIN, Channel, Credentials, Handshake
from moothall.p2p.keys import encode_key
from moothall.wire.mesh.peer_ids import peer_id
from tests.p2p.splits import cuts, pieces

ALICE = Credentials(expand(b"a" * 32), b"A" * 32)
BOB = Credentials(expand(b"b" * 32), b"B" * 32)
EXTENSIONS = protobuf.bytes_field(4, protobuf.text_field(2, "/yamux/1.0.0"))  # as go and js send them


def pair(expected: bytes | None = BOB.agent_id, *, bob: Credentials = BOB) -> tuple[Handshake, Handshake]:
    return (
        Handshake(ALICE, b"1" * 32, initiator=True, expected=expected),
        Handshake(bob, b"2" * 32, initiator=False),
    )


def run(alice: Handshake, bob: Handshake, sizes: list[int] | None = None) -> tuple[Channel, Channel]:
    first, second = alice, bob
    sent = alice.start()
    while sent:
        sent = b"".join([second.receive(piece) for piece in pieces(sent, sizes or [])])
        first, second = second, first
    assert alice.channel is not None
    assert bob.channel is not None
    return alice.channel, bob.channel


def changed(payload: bytes) -> Credentials:
    """Bob, who sends another payload."""
    bob = Credentials(expand(b"b" * 32), b"B" * 32)
    bob.payload = payload
    return bob


@given(cuts())
def test_each_side_learns_the_key_of_the_other(sizes: list[int]) -> None:
    alice, bob = pair()
    run(alice, bob, sizes)
    assert (alice.agent_id, bob.agent_id) == (BOB.agent_id, ALICE.agent_id)


def test_messages_follow_their_length() -> None:
    alice, bob = pair()
    first = alice.start()
    assert first[:2] == b"\x00\x20"
    assert len(first) == 34
    assert int.from_bytes(bob.receive(first)[:2], "big") == 32 + (32 + 16) + (2 + 36) + (2 + 64) + 16


def test_a_peer_with_another_key_is_refused() -> None:
    alice, bob = pair(expected=ALICE.agent_id)
    peers = f"{peer_id(BOB.agent_id)}, and {peer_id(ALICE.agent_id)} was expected"
    with pytest.raises(HandshakeFailed, match=peers):
        alice.receive(bob.receive(alice.start()))
    assert alice.channel is None


def test_a_responder_may_expect_a_key_too() -> None:
    alice = Handshake(ALICE, b"1" * 32, initiator=True)
    bob = Handshake(BOB, b"2" * 32, initiator=False, expected=BOB.agent_id)
    with pytest.raises(HandshakeFailed, match="was expected"):
        run(alice, bob)


def test_extensions_are_not_looked_at() -> None:
    alice, bob = pair(bob=changed(BOB.payload + EXTENSIONS))
    run(alice, bob)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xff",
        protobuf.bytes_field(1, encode_key(BOB.agent_id)),
        protobuf.number_field(1, 5),
        protobuf.bytes_field(1, encode_key(BOB.agent_id)) + protobuf.bytes_field(2, bytes(64)),
        # A signature over another static key, and one without the prefix.
        protobuf.bytes_field(1, encode_key(BOB.agent_id))
        + protobuf.bytes_field(2, sign(b"b" * 32, b"noise-libp2p-static-key:" + ALICE.static.public)),
        protobuf.bytes_field(1, encode_key(BOB.agent_id))
        + protobuf.bytes_field(2, sign(b"b" * 32, BOB.static.public)),
        # Alice's own proof, sent back to her.
        ALICE.payload,
        protobuf.number_field(9, 1) * 17,
    ],
)
def test_a_key_that_is_not_proven_is_refused(payload: bytes) -> None:
    alice, bob = pair(None, bob=changed(payload))
    with pytest.raises(HandshakeFailed):
        alice.receive(bob.receive(alice.start()))
    assert alice.channel is None


def test_a_long_message_is_refused_before_it_arrives() -> None:
    _, bob = pair()
    with pytest.raises(HandshakeFailed, match="4,096"):
        bob.receive((MAX_HANDSHAKE_FRAME + 1).to_bytes(2, "big"))


def test_what_follows_the_handshake_is_kept_for_the_channel() -> None:
    alice, bob = pair()
    last = alice.receive(bob.receive(alice.start()))
    assert alice.channel is not None
    bob.receive(last + alice.channel.seal(b"early"))
    assert bob.channel is not None
    assert bob.channel.open(bob.rest()) == b"early"


@given(st.lists(st.binary(max_size=3000), max_size=6), cuts())
def test_any_split_gives_the_same_bytes(sent: list[bytes], sizes: list[int]) -> None:
    alice, bob = run(*pair())
    sealed = b"".join([alice.seal(data) for data in sent])
    assert b"".join([bob.open(piece) for piece in pieces(sealed, sizes)]) == b"".join(sent)
    assert not bob._buffer
    assert alice.open(bob.seal(b"and back")) == b"and back"


def test_a_frame_has_at_most_65_535_bytes() -> None:
    alice, bob = run(*pair())
    data = bytes(range(256)) * 1024
    sealed = alice.seal(data)
    assert len(sealed) == len(data) + 5 * (2 + 16)
    assert sealed[:2] == MAX_FRAME.to_bytes(2, "big")
    assert bob.open(sealed) == data
    assert len(alice.seal(bytes(MAX_PLAIN))) == 2 + MAX_FRAME


@given(st.data())
def test_a_changed_frame_breaks_the_channel(data: st.DataObject) -> None:
    alice, bob = run(*pair())
    sealed = bytearray(alice.seal(b"something"))
    sealed[data.draw(st.integers(2, len(sealed) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(BrokenChannel):
        bob.open(bytes(sealed))


@given(st.binary(max_size=300))
def test_random_bytes_break_the_channel_or_wait(data: bytes) -> None:
    _, bob = run(*pair())
    try:
        assert bob.open(data) == b""
        assert len(bob._buffer) == len(data)
    except BrokenChannel:
        pass


@settings(max_examples=200)
@given(st.integers(0, 1), st.binary(max_size=300), cuts())
def test_random_bytes_end_a_handshake_or_wait(which: int, data: bytes, sizes: list[int]) -> None:
    side = pair()[which]
    if which == 0:
        side.start()
    try:
        for piece in pieces(data, sizes):
            side.receive(piece)
    except HandshakeFailed:
        pass
    assert side.channel is None


@given(st.integers(0, 2), st.data())
def test_a_changed_handshake_never_ends_well(which: int, data: st.DataObject) -> None:
    alice, bob = pair()
    first, second = alice, bob
    sent = alice.start()
    try:
        for index in range(3):
            message = bytearray(sent)
            if index == which:
                message[data.draw(st.integers(0, len(message) - 1))] ^= data.draw(st.sampled_from([1, 2, 64]))
            sent = second.receive(bytes(message))
            first, second = second, first
    except HandshakeFailed:
        pass
    assert bob.channel is None
