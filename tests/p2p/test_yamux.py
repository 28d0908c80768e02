"""Sessions of yamux: frames written out by hand, and two ends whose bytes are delayed and cut at random."""

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from moothall.p2p.yamux import MAX_ANSWERS, Limits, Session
from moothall.p2p.yamux_frames import DATA, GO_AWAY, PING, SESSION, WINDOW_UPDATE, Flag, Why, header
from moothall.p2p.yamux_streams import (
    WINDOW,
    Broken,
    Event,
    Finished,
    Opened,
    Pong,
    Received,
    Reset,
    Stream,
    WentAway,
)
from tests.p2p.splits import cuts, pieces

ALL = 1 << 30
SYN, ACK, FIN, RST = Flag.SYN, Flag.ACK, Flag.FIN, Flag.RST
PROTOCOL_ERROR = header(GO_AWAY, 0, SESSION, Why.PROTOCOL_ERROR)


def client(**limits: int) -> Session:
    return Session(is_client=True, limits=Limits(**limits))


def server(**limits: int) -> Session:
    return Session(is_client=False, limits=Limits(**limits))


def opened(session: Session) -> Stream:
    stream = session.open()
    assert stream is not None
    return stream


def kinds(events: list[Event]) -> list[type[Event]]:
    return [type(event) for event in events]


def accepted(session: Session, number: int = 1) -> Stream:
    """A stream that the peer has opened."""
    (event,) = session.receive(header(WINDOW_UPDATE, SYN, number, 0))
    assert isinstance(event, Opened)
    session.take(ALL)
    return event.stream


# -- frame by frame ------------------------------------------------------------------------------------------


def test_a_request_and_its_answer() -> None:
    """As on a bilateral stream: both sides send and finish."""
    ours, theirs = client(), server()
    stream = opened(ours)
    assert stream.id == 1
    ours.send(stream, b"request")
    ours.finish(stream)
    sent = ours.take(ALL)
    assert sent == header(DATA, SYN, 1, 7) + b"request" + header(WINDOW_UPDATE, FIN, 1, 0)
    opening, data, end = theirs.receive(sent)
    assert isinstance(opening, Opened)
    assert data == Received(opening.stream, b"request")
    assert end == Finished(opening.stream)
    theirs.send(opening.stream, b"ACK")
    theirs.finish(opening.stream)
    answer = theirs.take(ALL)
    assert answer == header(DATA, ACK, 1, 3) + b"ACK" + header(WINDOW_UPDATE, FIN, 1, 0)
    assert ours.receive(answer) == [Received(stream, b"ACK"), Finished(stream)]
    assert stream.is_gone
    assert (ours.streams, theirs.streams) == (0, 0)


def test_a_frame_may_carry_all_of_a_stream() -> None:
    """We do not send it, and others may."""
    session = server()
    opening, data, end = session.receive(header(DATA, SYN | FIN, 1, 7) + b"request")
    assert isinstance(opening, Opened)
    assert (data, end) == (Received(opening.stream, b"request"), Finished(opening.stream))


def test_numbers_of_client_and_server() -> None:
    ours, theirs = client(), server()
    assert [opened(ours).id for _ in range(3)] == [1, 3, 5]
    assert [opened(theirs).id for _ in range(3)] == [2, 4, 6]


def test_a_stream_is_taken_with_an_ack() -> None:
    session = server()
    session.receive(header(WINDOW_UPDATE, SYN, 1, 0))
    assert session.take(ALL) == header(WINDOW_UPDATE, ACK, 1, 0)
    assert not session.has_output


def test_streams_may_be_opened_out_of_order() -> None:
    """rust-libp2p numbers its streams when they are made, and sends SYN with their first data."""
    session = server()
    assert kinds(session.receive(header(DATA, SYN, 5, 0) + header(DATA, SYN, 3, 0))) == [Opened, Opened]


def test_a_half_closed_stream_still_sends() -> None:
    session = server()
    stream = accepted(session)
    assert session.receive(header(DATA, FIN, 1, 0)) == [Finished(stream)]
    assert session.send(stream, b"late")
    assert session.take(ALL) == header(DATA, 0, 1, 4) + b"late"
    assert session.streams == 1
    session.finish(stream)
    assert session.take(ALL) == header(WINDOW_UPDATE, FIN, 1, 0)
    assert stream.is_gone
    assert not session.send(stream, b"too late")


def test_a_half_closed_stream_still_receives() -> None:
    session = client()
    stream = opened(session)
    session.finish(stream)
    assert session.take(ALL) == header(WINDOW_UPDATE, SYN | FIN, 1, 0)
    assert session.receive(header(DATA, ACK, 1, 3) + b"yes") == [Received(stream, b"yes")]
    assert session.receive(header(WINDOW_UPDATE, FIN, 1, 0)) == [Finished(stream)]
    assert stream.is_gone


def test_data_after_fin_reset_the_stream() -> None:
    session = server()
    stream = accepted(session)
    session.receive(header(DATA, FIN, 1, 0))
    assert session.receive(header(DATA, 0, 1, 3) + b"lie") == [Reset(stream)]
    assert session.take(ALL) == header(WINDOW_UPDATE, RST, 1, 0)
    assert not session.is_broken


def test_a_reset_of_the_peer() -> None:
    session = server()
    stream = accepted(session)
    session.send(stream, b"waiting")
    assert session.receive(header(WINDOW_UPDATE, RST, 1, 0)) == [Reset(stream)]
    assert session.take(ALL) == b""
    assert (session.unsent, session.streams) == (0, 0)


def test_our_reset() -> None:
    session = server()
    stream = accepted(session)
    session.send(stream, b"waiting")
    session.reset(stream)
    session.reset(stream)
    assert session.take(ALL) == header(WINDOW_UPDATE, RST, 1, 0)
    # What was on its way is not looked at.
    assert session.receive(header(DATA, 0, 1, 3) + b"abc" + header(WINDOW_UPDATE, FIN, 1, 9)) == []


def test_a_reset_in_the_middle_of_a_frame() -> None:
    session = server()
    stream = accepted(session)
    assert session.receive(header(DATA, FIN, 1, 6) + b"abc") == [Received(stream, b"abc")]
    session.reset(stream)
    assert session.receive(b"def" + header(DATA, SYN, 3, 0))[0] == Opened(session._streams[3])
    assert session.unread == 0


def test_a_stream_that_the_peer_never_heard_of_is_dropped_silently() -> None:
    session = client()
    session.reset(opened(session))
    assert session.take(ALL) == b""
    assert opened(session).id == 3


def test_pings_are_answered() -> None:
    session = server()
    assert session.receive(header(PING, SYN, SESSION, 77)) == []
    assert session.take(ALL) == header(PING, ACK, SESSION, 77)


def test_pongs_are_told_if_they_were_asked_for() -> None:
    session = client()
    session.ping(5)
    assert session.take(ALL) == header(PING, SYN, SESSION, 5)
    pong = header(PING, ACK, SESSION, 5)
    assert session.receive(header(PING, ACK, SESSION, 6) + pong + pong) == [Pong(5)]


def test_a_peer_that_goes_away_gets_no_new_streams() -> None:
    session = client()
    stream = opened(session)
    assert session.receive(header(GO_AWAY, 0, SESSION, Why.INTERNAL_ERROR)) == [WentAway(2)]
    assert session.open() is None
    assert session.send(stream, b"still here")


def test_we_go_away() -> None:
    session = server()
    session.go_away()
    session.go_away()
    assert session.take(ALL) == header(GO_AWAY, 0, SESSION, 0)
    assert session.open() is None
    assert session.receive(header(DATA, SYN, 1, 2) + b"no") == []
    assert session.take(ALL) == header(WINDOW_UPDATE, RST, 1, 0)


# -- windows and bounds --------------------------------------------------------------------------------------


def test_we_keep_to_the_window_of_the_peer() -> None:
    session = client(unsent=ALL, unsent_total=ALL)
    stream = opened(session)
    session.send(stream, bytes(WINDOW + 5))
    assert len(session.take(ALL)) == WINDOW + 12 * 16
    assert not session.has_output
    session.receive(header(WINDOW_UPDATE, ACK, 1, 3))
    assert session.take(ALL) == header(DATA, 0, 1, 3) + bytes(3)
    session.finish(stream)
    assert session.take(ALL) == b""
    session.receive(header(WINDOW_UPDATE, 0, 1, 100))
    assert session.take(ALL) == header(DATA, 0, 1, 2) + bytes(2) + header(WINDOW_UPDATE, FIN, 1, 0)


def test_a_peer_that_sends_more_than_the_window_is_cut_off() -> None:
    session = server()
    stream = accepted(session)
    assert kinds(session.receive(header(DATA, 0, 1, WINDOW) + bytes(WINDOW))) == [Received]
    assert kinds(session.receive(header(DATA, 0, 1, 1))) == [Broken]
    assert session.take(ALL) == PROTOCOL_ERROR
    assert stream.is_gone


def test_window_comes_back_when_data_are_consumed() -> None:
    session = server()
    stream = accepted(session)
    session.receive(header(DATA, 0, 1, WINDOW) + bytes(WINDOW))
    session.consumed(stream, WINDOW // 2 - 1)
    assert session.take(ALL) == b""
    session.consumed(stream, 1)
    assert session.take(ALL) == header(WINDOW_UPDATE, 0, 1, WINDOW // 2)
    assert stream.unread == session.unread == WINDOW // 2
    assert kinds(session.receive(header(DATA, 0, 1, WINDOW // 2 + 1))) == [Broken]


def test_no_more_can_be_consumed_than_arrived() -> None:
    session = server()
    stream = accepted(session)
    session.receive(header(DATA, 0, 1, 3) + b"abc")
    session.consumed(stream, WINDOW)
    assert (stream.credit, session.unread) == (3, 0)


def test_a_stream_that_goes_over_what_may_be_unread_is_reset() -> None:
    session = server(unread=1000)
    first, second = accepted(session, 1), accepted(session, 3)
    session.receive(header(DATA, 0, 1, 900) + bytes(900))
    assert session.receive(header(DATA, 0, 3, 101) + bytes(101)) == [Reset(second)]
    assert session.take(ALL) == header(WINDOW_UPDATE, RST, 3, 0)
    assert not first.is_gone
    session.reset(first)
    assert session.unread == 0


def test_data_of_a_finished_stream_count_until_they_are_consumed() -> None:
    session = server(unread=1000)
    stream = accepted(session)
    session.receive(header(DATA, FIN, 1, 900) + bytes(900))
    session.finish(stream)
    session.take(ALL)
    assert stream.is_gone
    assert session.unread == 900
    session.consumed(stream, 900)
    assert session.unread == 0
    assert not session.has_output


def test_too_many_streams_of_the_peer_are_refused() -> None:
    session = server(inbound=2)
    stream = accepted(session, 1)
    accepted(session, 3)
    assert session.receive(header(DATA, SYN, 5, 3) + b"abc") == []
    assert session.take(ALL) == header(WINDOW_UPDATE, RST, 5, 0)
    session.reset(stream)
    assert kinds(session.receive(header(DATA, SYN, 7, 0))) == [Opened]


def test_we_open_so_many_streams() -> None:
    session = client(outbound=2)
    streams = [opened(session), opened(session)]
    assert session.open() is None
    session.receive(header(DATA, SYN, 2, 0))
    assert session.open() is None
    session.reset(streams[0])
    assert session.open() is not None


def test_what_waits_to_be_sent_is_bounded() -> None:
    session = client(unsent=100, unsent_total=150)
    first, second = opened(session), opened(session)
    assert session.send(first, bytes(100))
    assert not session.send(first, b"x")
    assert not session.send(second, bytes(51))
    assert session.send(second, bytes(50))
    assert session.drained() == []
    session.take(ALL)
    assert session.drained() == [first, second]
    assert session.drained() == []
    assert session.unsent == 0


def test_a_peer_that_asks_and_does_not_read_is_cut_off() -> None:
    session = server()
    assert session.receive(header(PING, SYN, SESSION, 1) * MAX_ANSWERS) == []
    assert kinds(session.receive(header(PING, SYN, SESSION, 1))) == [Broken]
    assert session.take(ALL) == PROTOCOL_ERROR


def test_streams_that_are_opened_and_reset_leave_nothing_behind() -> None:
    session = server()
    for number in range(1, 4001, 2):
        session.receive(header(DATA, SYN, number, 0) + header(DATA, RST, number, 0))
    assert (session.streams, len(session._ready), len(session._answers)) == (0, 0, 0)


def test_resets_that_the_peer_does_not_read_are_bounded_too() -> None:
    session = server(inbound=0)
    events = [
        event for number in range(1, 4001, 2) for event in session.receive(header(DATA, SYN, number, 0))
    ]
    assert kinds(events) == [Broken]


def test_streams_take_turns() -> None:
    session = client()
    first, second = opened(session), opened(session)
    session.send(first, bytes(100_000))
    session.send(second, b"small")
    sent = session.take(20_000)
    assert header(DATA, SYN, 3, 5) + b"small" in sent
    assert len(sent) <= 20_000


@pytest.mark.parametrize(
    "frame",
    [
        b"\x01" + header(PING, SYN, SESSION, 0)[1:],
        header(4, 0, SESSION, 0),
        header(PING, 0, SESSION, 0),
        header(PING, SYN | ACK, SESSION, 0),
        header(DATA, 16, 1, 0),
        header(DATA, SYN, SESSION, 0),
        header(DATA, SYN, 2, 0),
        header(DATA, 0, SESSION, 0),
        header(DATA, 0, 2, 0),
        header(DATA, SYN, 1, WINDOW + 1),
        header(DATA, 0, 1, WINDOW + 1),
        header(WINDOW_UPDATE, SYN, 1, (1 << 32) - 1),
        header(DATA, SYN, 1, 0) + header(DATA, SYN, 1, 0),
    ],
)
def test_what_no_honest_peer_sends_breaks_the_session(frame: bytes) -> None:
    session = server()
    events = session.receive(frame)
    assert kinds(events)[-1] is Broken
    assert session.is_broken
    assert session.take(ALL) == PROTOCOL_ERROR
    assert session.receive(header(DATA, SYN, 9, 0)) == []
    assert session.open() is None
    assert session.streams == 0


# -- properties ----------------------------------------------------------------------------------------------

numbers = st.sampled_from([0, 1, 2, 3, 5, 7])
lengths = st.sampled_from([0, 1, 5, 300])
frames = st.builds(
    lambda kind, flags, number, length: (
        header(kind, flags, number, length) + bytes(length if kind == 0 else 0)
    ),
    st.sampled_from([DATA, DATA, WINDOW_UPDATE, WINDOW_UPDATE, PING]),
    st.sampled_from([0, 0, 1, 1, 2, 4, 5, 8]),
    numbers,
    lengths,
)


def joined(events: list[Event]) -> list[tuple[object, ...]]:
    """Events with the data of one frame put together again."""
    result: list[tuple[object, ...]] = []
    for event in events:
        if isinstance(event, Received):
            last = result[-1] if result else ()
            if last[:2] == (Received, event.stream.id):
                result[-1] = (*last[:2], last[2] + event.data)  # type: ignore[operator]
            else:
                result.append((Received, event.stream.id, event.data))
        elif isinstance(event, (Opened, Finished, Reset)):
            result.append((type(event), event.stream.id))
        else:
            result.append((event,))
    return result


@given(st.lists(frames, max_size=20), cuts())
def test_any_split_gives_the_same_events(sent: list[bytes], sizes: list[int]) -> None:
    whole, cut = server(unread=700), server(unread=700)
    data = b"".join(sent)
    expected = joined(whole.receive(data))
    found = joined([event for piece in pieces(data, sizes) for event in cut.receive(piece)])
    assert found == expected
    assert cut.take(ALL) == whole.take(ALL)


@given(st.lists(frames | st.binary(max_size=40), max_size=20), cuts())
def test_random_frames_never_raise(sent: list[bytes], sizes: list[int]) -> None:
    session = server(unread=700, inbound=2)
    opened(session)
    for piece in pieces(b"".join(sent), sizes):
        session.receive(piece)
        assert session.unread <= 700
        assert session.streams <= 3
        assert len(session._head) < 12
    assert session.take(ALL) is not None


class End:
    """One end of a connection that is tossed about: what it sent and got on each stream."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.line = b""  # on its way to the other end
        self.mine: dict[int, bytes] = {}  # stream: bytes that were taken for sending
        self.got: dict[int, bytes] = {}
        self.streams: dict[int, Stream] = {}
        self.unread: dict[int, int] = {}
        self.finished: set[int] = set()  # by the other end
        self.lost: set[int] = set()  # streams that were reset, by either end

    def hear(self, data: bytes) -> None:
        for event in self.session.receive(data):
            assert not isinstance(event, Broken), event
            if isinstance(event, Opened):
                self.add(event.stream)
            elif isinstance(event, Received):
                self.got[event.stream.id] += event.data
                self.unread[event.stream.id] += len(event.data)
            elif isinstance(event, Finished):
                self.finished.add(event.stream.id)
            elif isinstance(event, Reset):
                self.lost.add(event.stream.id)
        self.check()

    def add(self, stream: Stream) -> None:
        self.streams[stream.id] = stream
        self.mine[stream.id] = self.got[stream.id] = b""
        self.unread[stream.id] = 0

    def consume(self, number: int) -> None:
        self.session.consumed(self.streams[number], self.unread[number])
        self.unread[number] = 0

    def check(self) -> None:
        session = self.session
        assert session.unsent == sum(len(stream.queue) for stream in self.streams.values())
        assert 0 <= session.unread <= session._limits.unread
        assert session.unsent <= session._limits.unsent_total
        for stream in self.streams.values():
            assert stream.receive_window >= 0
            assert stream.send_window >= 0
            if not stream.is_gone:
                assert stream.receive_window + stream.credit + stream.unread == WINDOW
                assert len(stream.queue) <= session._limits.unsent


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 32), st.integers(20, 150), st.booleans())
@example(59166, 20, False)  # one stream's window is full when the tossing ends
def test_random_interleavings_lose_nothing(seed: int, steps: int, resets: bool) -> None:
    toss = random.Random(seed)  # noqa: S311  # no secret
    limits = Limits(inbound=30, outbound=30, unread=8 * WINDOW * 30, unsent=400_000, unsent_total=1_000_000)
    ends = [End(Session(is_client=True, limits=limits)), End(Session(is_client=False, limits=limits))]

    def deliver(index: int, most: int) -> bool:
        sender, receiver = ends[index], ends[1 - index]
        sender.line += sender.session.take(most)
        sender.check()
        size = min(len(sender.line), most)
        receiver.hear(sender.line[:size])
        sender.line = sender.line[size:]
        return size > 0

    for _ in range(steps):
        end = toss.choice(ends)
        what = toss.random()
        number = toss.choice(list(end.streams)) if end.streams else None
        if what < 0.15:
            stream = end.session.open()
            if stream is not None:
                end.add(stream)
        elif what < 0.5 and number is not None:
            data = toss.randbytes(toss.choice([0, 1, 100, 5000, 100_000, 300_000]))
            if end.session.send(end.streams[number], data):
                end.mine[number] += data
        elif what < 0.6 and number is not None:
            end.session.finish(end.streams[number])
        elif what < 0.63 and number is not None and resets:
            end.session.reset(end.streams[number])
            end.lost.add(number)
        elif what < 0.75 and number is not None:
            end.consume(number)
        else:
            deliver(ends.index(end), toss.choice([13, 100, 5000, 100_000, 1_000_000]))
        end.check()
    is_moving = True
    while is_moving:
        # Both ends read before anything is delivered: a full window lets nothing more through, not even a FIN.
        for end in ends:
            for number, stream in end.streams.items():
                end.consume(number)
                end.session.finish(stream)
        is_moving = any([deliver(0, 1_000_000), deliver(1, 1_000_000)])
    lost = ends[0].lost | ends[1].lost
    assert resets or not lost
    for mine, other in (ends, ends[::-1]):
        assert mine.session.streams == mine.session.unread == mine.session.unsent == 0
        for number, data in mine.mine.items():
            if number in lost:
                assert data.startswith(other.got.get(number, b""))
            else:
                assert other.got[number] == data
                assert number in other.finished
