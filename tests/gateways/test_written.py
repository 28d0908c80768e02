"""A watched message counts as written when the kernel has taken its last byte, and not before."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.gateways import written as written_module
from moothall.gateways.connection import Connection
from moothall.gateways.transport import Transport
from moothall.gateways.written import CountedTransport, WriteWatch
from moothall.wire.websocket import NORMAL, encode_text
from tests.support.echo import Echo, Journal, running
from tests.support.sockets import Peer, on_uvloop, turn

SMALL = 4096
LIMIT = 300_000


class Hushed(Echo):
    """A room that keeps the kernel from taking much for peers that do not read."""

    def __init__(self) -> None:
        self.guests: list[Connection] = []

    def connect(
        self, link: Connection, ip: str, user_agent: str, *, is_loopback: bool, host: str
    ) -> Connection:
        link.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL)
        self.guests.append(link)
        return link

    def disconnect(self, guest: Connection) -> None:
        self.guests.remove(guest)


def watched(link: Connection) -> "asyncio.Future[bool]":
    told: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    link.when_written(told.set_result)
    return told


async def fill(link: Connection) -> None:
    """Until the transport takes no more."""
    while not link.stuck:
        link.put_frame(encode_text(b"x" * 1000))
        await turn()


@on_uvloop
async def test_a_message_is_written_after_the_turn_and_the_transport_is_its_own_again() -> None:
    room = Hushed()
    async with running(room, Journal()) as port, await Peer.upgraded(port) as peer:
        (link,) = room.guests
        own = link.transport
        link.put_frame(encode_text(b"one"))
        told = watched(link)
        assert not told.done()
        assert link.transport is not own
        assert await told
        assert link.transport is own
        assert not len(port.written)
        received = await peer.read_frame()
        assert received is not None
        assert received.payload == b"one"


@on_uvloop
async def test_a_message_behind_a_backlog_is_written_when_its_peer_has_read_that() -> None:
    room = Hushed()
    async with running(room, Journal()) as port, await Peer.upgraded(port, receive_buffer=SMALL) as peer:
        (link,) = room.guests
        await fill(link)
        link.put_frame(encode_text(b"here"))
        told = watched(link)
        for _ in range(10):
            await turn()
        assert not told.done()
        received = await peer.read_frame()
        while received is not None and received.payload != b"here":
            received = await peer.read_frame()
        assert await told


@on_uvloop
async def test_what_a_peer_left_unread_is_lost_with_it() -> None:
    room = Hushed()
    async with running(room, Journal()) as port, await Peer.upgraded(port, receive_buffer=SMALL):
        (link,) = room.guests
        await fill(link)
        link.put_frame(encode_text(b"never"))
        told = watched(link)
        link.abort()
        assert await told is False
        assert not len(port.written)


@on_uvloop
async def test_what_an_overflow_drops_is_lost() -> None:
    room = Hushed()
    async with (
        running(room, Journal(), outbox_limit=LIMIT) as port,
        await Peer.upgraded(port, receive_buffer=SMALL),
    ):
        (link,) = room.guests
        await fill(link)
        link.put_frame(encode_text(b"never"))
        told = watched(link)
        while not told.done():
            link.put_frame(encode_text(b"x" * 10_000))
            await turn()
        assert told.result() is False


@on_uvloop
async def test_a_connection_that_closes_takes_nothing_more() -> None:
    room = Hushed()
    async with running(room, Journal()) as port, await Peer.upgraded(port):
        (link,) = room.guests
        link.close(NORMAL, "bye")
        assert watched(link).result() is False


# -- any order of events ---------------------------------------------------------------------------


class Line:
    """A connection and its kernel, in a test's hand."""

    def __init__(self) -> None:
        self.queue: list[int] = []
        self.buffered = 0
        self.taken = 0
        self.put_bytes = 0
        self.transport = cast("Transport", self)

    # as a transport
    def get_write_buffer_size(self) -> int:
        return self.buffered

    def write(self, data: bytes) -> None:
        self.buffered += len(data)

    # as a connection
    @property
    def unread(self) -> int:
        return sum(self.queue) + self.buffered

    def put(self, size: int) -> None:
        self.queue.append(size)
        self.put_bytes += size

    def flush(self) -> None:
        self.transport.write(b"x" * sum(self.queue))
        self.queue.clear()

    def take(self, size: int) -> None:
        size = min(size, self.buffered)
        self.buffered -= size
        self.taken += size


class Turns:
    """An event loop that runs what is due when a test says so."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []

    def call_soon(self, what: Callable[[], None]) -> Any:
        self.due.append(what)
        return self

    def call_later(self, _: float, what: Callable[[], None]) -> Any:
        return self.call_soon(what)

    def cancel(self) -> None:
        self.due.clear()

    def run(self) -> None:
        due, self.due = self.due, []
        for what in due:
            what()


EVENTS = st.one_of(
    st.tuples(st.just("put"), st.integers(1, 50)),
    st.tuples(st.just("watch"), st.just(0)),
    st.tuples(st.just("flush"), st.just(0)),
    st.tuples(st.just("take"), st.integers(1, 80)),
    st.tuples(st.just("look"), st.just(0)),
)


@given(st.lists(EVENTS, max_size=60))
def test_a_mark_is_told_once_its_last_byte_is_taken_and_never_earlier(events: list[tuple[str, int]]) -> None:
    line, turns = Line(), Turns()
    watch = WriteWatch(cast("asyncio.AbstractEventLoop", turns))
    marks: list[tuple[int, list[bool]]] = []
    for event, size in events:
        if event == "put":
            line.put(size)
        elif event == "watch":
            told: list[bool] = []
            marks.append((line.put_bytes, told))
            watch.watch(line, told.append)
        elif event == "flush":
            line.flush()
        elif event == "take":
            line.take(size)
        else:
            turns.run()
            for position, told in marks:
                assert told == ([True] if position <= line.taken else [])
        for position, told in marks:
            assert not told or position <= line.taken
    watch.lost(line)
    assert all(len(told) == 1 for _, told in marks)
    assert not isinstance(line.transport, CountedTransport)


@pytest.mark.parametrize(
    "name",
    [
        "abort",
        "can_write_eof",
        "close",
        "get_write_buffer_size",
        "is_closing",
        "pause_reading",
        "resume_reading",
        "write_eof",
    ],
)
def test_the_counted_transport_passes_all_calls_on(name: str) -> None:
    calls: list[str] = []

    class Inner:
        def get_write_buffer_size(self) -> int:
            calls.append("get_write_buffer_size")
            return 0

        def __getattr__(self, called: str) -> Callable[[], bool | None]:
            def call() -> bool | None:
                calls.append(called)
                return False if called in ("can_write_eof", "is_closing") else None

            return call

    counted = CountedTransport(cast("Transport", Inner()))
    calls.clear()
    getattr(counted, name)()
    assert calls == [name]


class Stuck(asyncio.Transport):
    """A transport whose peer reads nothing, and how often it was looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    def get_write_buffer_size(self) -> int:
        self.looks += 1
        return 1


class StuckConnection:
    unread = 1

    def __init__(self) -> None:
        self.transport: Transport = Stuck()


async def test_peers_that_read_nothing_are_not_looked_at_for_each_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thousand of them would cost the hall half a millisecond for each message to others."""
    monkeypatch.setattr(written_module, "LATER", 3600.0)
    watch = WriteWatch(asyncio.get_running_loop())
    stuck, other = StuckConnection(), StuckConnection()
    transport = stuck.transport
    assert isinstance(transport, Stuck)
    watch.watch(stuck, lambda _: None)
    for _ in range(5):
        await turn()
    looks = transport.looks
    for _ in range(10):
        watch.watch(other, lambda _: None)
        await turn()
        await turn()
    watch.close()
    assert transport.looks == looks
