"""A whole connection, from multistream-select to streams."""

from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moothall.identity.signatures import expand
from moothall.p2p.connection import Connection
from moothall.p2p.faults import BrokenChannel, HandshakeFailed, NegotiationFailed, PeerFault
from moothall.p2p.handshake import Credentials
from moothall.p2p.multistream import line
from moothall.p2p.yamux import Limits, Session
from moothall.p2p.yamux_streams import Broken, Event, Finished, Opened, Received
from tests.p2p.splits import cuts, pieces

ALICE = Credentials(expand(b"a" * 32), b"A" * 32)
BOB = Credentials(expand(b"b" * 32), b"B" * 32)
ALL = 1 << 20


def pair(expected: bytes | None = BOB.agent_id) -> tuple[Connection, Connection]:
    return (
        Connection(ALICE, b"1" * 32, is_client=True, expected=expected),
        Connection(BOB, b"2" * 32, is_client=False),
    )


def deliver(sender: Connection, receiver: Connection, sizes: list[int] | None = None) -> list[Event]:
    sent = sender.take(ALL)
    return [event for piece in pieces(sent, sizes or []) for event in receiver.receive(piece)]


def open_up(alice: Connection, bob: Connection, sizes: list[int] | None = None) -> tuple[Session, Session]:
    while alice.has_output or bob.has_output:
        assert deliver(alice, bob, sizes) == []
        assert deliver(bob, alice, sizes) == []
    assert alice.session is not None
    assert bob.session is not None
    return alice.session, bob.session


@given(cuts(), st.binary(min_size=1, max_size=3000))
def test_two_ends_meet_and_talk_whatever_the_split(sizes: list[int], data: bytes) -> None:
    alice, bob = pair()
    ours, theirs = open_up(alice, bob, sizes)
    assert (alice.agent_id, bob.agent_id) == (BOB.agent_id, ALICE.agent_id)
    stream = ours.open()
    assert stream is not None
    ours.send(stream, data)
    ours.finish(stream)
    events = deliver(alice, bob, sizes)
    assert isinstance(events[0], Opened)
    assert b"".join(event.data for event in events if isinstance(event, Received)) == data
    assert events[-1] == Finished(events[0].stream)
    theirs.send(events[0].stream, b"answer")
    assert deliver(bob, alice, sizes)[-1] == Received(stream, b"answer")


def test_the_flights_of_the_beginning() -> None:
    """Three round trips: the client says who it is and asks for yamux in one."""
    alice, bob = pair()
    hello = line("/multistream/1.0.0") + line("/noise")
    assert alice.take(ALL) == hello
    bob.receive(hello)
    assert bob.take(ALL) == hello
    alice.receive(hello)
    assert deliver(alice, bob) == []
    assert deliver(bob, alice) == []
    assert alice.agent_id == BOB.agent_id
    assert alice.session is None
    assert deliver(alice, bob) == []
    assert bob.session is not None
    assert deliver(bob, alice) == []
    assert not alice.has_output


def test_streams_that_arrive_with_the_end_of_the_handshake() -> None:
    alice, bob = pair()
    deliver(alice, bob), deliver(bob, alice), deliver(alice, bob), deliver(bob, alice), deliver(alice, bob)
    assert bob.session is not None
    bob.session.open()
    events = deliver(bob, alice)
    assert alice.session is not None
    assert [type(event) for event in events] == [Opened]


def test_a_peer_with_another_key_is_refused() -> None:
    alice, bob = pair(expected=bytes(32))
    with pytest.raises(HandshakeFailed):
        open_up(alice, bob)
    assert alice.session is None


@pytest.mark.parametrize(
    "sent", [b"GET / HTTP/1.1\r\nHost: " + bytes(80), line("/multistream/1.0.0") + line("na")]
)
def test_others_are_turned_away(sent: bytes) -> None:
    alice, _ = pair()
    with pytest.raises(NegotiationFailed):
        alice.receive(sent)


def test_other_protocols_are_not_available() -> None:
    _, bob = pair()
    bob.receive(line("/multistream/1.0.0") + line("/tls/1.0.0"))
    assert bob.take(ALL) == line("/multistream/1.0.0") + line("na")


def test_a_changed_frame_ends_the_connection() -> None:
    alice, bob = pair()
    ours, _ = open_up(alice, bob)
    ours.ping(1)
    sent = bytearray(alice.take(ALL))
    sent[-1] ^= 1
    with pytest.raises(BrokenChannel):
        bob.receive(bytes(sent))


def test_a_session_that_is_broken_says_goodbye() -> None:
    alice, bob = pair()
    open_up(alice, bob)
    assert alice._channel is not None
    (event,) = bob.receive(alice._channel.seal(bytes(11) + b"\x01"))
    assert isinstance(event, Broken)
    assert [type(each).__name__ for each in deliver(bob, alice)] == ["WentAway"]


@given(st.integers(0, 200_000))
def test_take_gives_no_more_than_it_is_asked_for(most: int) -> None:
    alice, bob = pair()
    alice._limits = Limits(unsent=ALL)
    ours, _ = open_up(alice, bob)
    for _ in range(2):
        stream = ours.open()
        assert stream is not None
        ours.send(stream, bytes(150_000))
    assert len(alice.take(most)) <= most


def flights() -> Iterator[tuple[int, bytes]]:
    """What each side sends in an honest connection: 1 for what Bob gets, 0 for what Alice gets."""
    alice, bob = pair()
    while alice.has_output or bob.has_output:
        for side, (sender, receiver) in enumerate([(bob, alice), (alice, bob)]):
            sent = sender.take(ALL)
            if sent:
                yield side, sent
                receiver.receive(sent)


FLIGHTS = list(flights())


@settings(max_examples=200)
@given(st.integers(0, len(FLIGHTS) - 1), st.data(), cuts())
def test_changed_bytes_are_a_fault_or_wait(which: int, data: st.DataObject, sizes: list[int]) -> None:
    sides = pair()
    for index, (side, sent) in enumerate(FLIGHTS):
        changed = bytearray(sent)
        if index == which:
            changed[data.draw(st.integers(0, len(changed) - 1))] ^= data.draw(st.integers(1, 255))
        with suppress(PeerFault):
            for piece in pieces(bytes(changed), sizes):
                sides[side].receive(piece)
        if index == which:
            return
        sides[1 - side].take(ALL)


@given(st.integers(0, 1), st.binary(max_size=500), cuts())
def test_random_bytes_are_a_fault_or_wait(which: int, sent: bytes, sizes: list[int]) -> None:
    side = pair()[which]
    with suppress(PeerFault):
        for piece in pieces(sent, sizes):
            assert side.receive(piece) == []
    assert side.session is None
