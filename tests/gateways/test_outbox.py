"""Outboxes: what waits in them, who lets them grow, and how they are emptied at the end."""

import asyncio
import socket
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from itertools import product
from time import monotonic
from typing import Any, cast

import pytest

from moothall.gateways.connection import Connection
from moothall.gateways.port import MANY, MOMENT, Patience, Port
from moothall.gateways.transport import TRANSPORT_HIGH_WATER, Transport
from moothall.wire.http import Response
from moothall.wire.http_routes import Route, RouteTable
from moothall.wire.websocket import (
    CLOSE,
    GOING_AWAY,
    NORMAL,
    PING,
    POLICY_VIOLATION,
    TEXT,
    encode_text,
)
from tests.support.echo import Echo, Journal, running
from tests.support.sockets import (
    PATIENCE,
    Frame,
    Peer,
    closing,
    frame,
    head,
    on_uvloop,
    text,
    turn,
    until_empty,
)

SMALL = 4096  # kernel buffers of those who are going to stop reading
LIMIT = 300_000
MAX_TRANSPORT = 2 * TRANSPORT_HIGH_WATER + 2048  # what a transport may hold: a full piece on top of another


class Gathering(Echo):
    """A room that a test can speak in; it keeps the kernel from taking much for those who do not read."""

    def __init__(self) -> None:
        self.guests: list[Connection] = []
        self.someone_left = asyncio.Event()

    def connect(
        self, link: Connection, ip: str, user_agent: str, *, is_loopback: bool, host: str
    ) -> Connection:
        link.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL)
        self.guests.append(link)
        return link

    def say(self, sent: bytes) -> None:
        for guest in self.guests:
            guest.put_frame(sent)

    def disconnect(self, guest: Connection) -> None:
        self.guests.remove(guest)
        self.someone_left.set()


def line(number: int, size: int = 1000) -> bytes:
    return encode_text(str(number).encode().ljust(size))


def number_of(received: Frame | None) -> int:
    assert received is not None
    assert received.opcode == TEXT
    return int(received.payload)


class Recorder:
    """A transport that remembers what was written."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.writes: list[bytes] = []

    def write(self, sent: bytes) -> None:
        self.writes.append(sent)
        self.transport.write(sent)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.transport, name)


def recorded(links: Sequence[Connection]) -> list[Recorder]:
    recorders = [Recorder(link.transport) for link in links]
    for link, recorder in zip(links, recorders, strict=True):
        link.transport = cast("Transport", recorder)
    return recorders


async def until_stuck(link: Connection) -> int:
    """Speak to one who does not read until its transport takes no more; how many lines that took."""
    for number in range(10_000):
        if link.stuck:
            return number
        link.put_frame(line(number))
        await turn()
    raise AssertionError("everything was taken")


class Clumsy(Gathering):
    """A room that fails when a guest leaves."""

    def disconnect(self, guest: Connection) -> None:
        super().disconnect(guest)
        raise KeyError("a bug")


@on_uvloop
async def test_a_room_that_fails_when_a_slow_reader_leaves_does_not_stop_the_flush() -> None:
    room, log = Clumsy(), Journal()
    async with (
        running(room, log, outbox_limit=LIMIT) as port,
        await Peer.upgraded(port, receive_buffer=SMALL),
        await Peer.upgraded(port) as reader,
    ):
        slow, fast = room.guests
        while (
            slow in room.guests
        ):  # until the port closes it, in a flush that has a line for the other one too
            slow.put_frame(line(0, 10_000))
            if len(room.guests) == 2:
                fast.put_frame(line(1))
            await turn()
        assert "a guest could not leave" in log.events
        fast.put_frame(line(2))
        read = [number_of(await reader.read_frame())]
        while read[-1] != 2:
            read.append(number_of(await reader.read_frame()))
        assert set(read[:-1]) == {1}


@on_uvloop
async def test_what_is_unread_is_counted_whether_it_waits_here_or_in_the_transport() -> None:
    room = Gathering()
    async with running(room, Journal()) as port, await Peer.upgraded(port, receive_buffer=SMALL):
        (link,) = room.guests
        assert link.unread == 0
        link.put_frame(line(0))
        link.put_frame(line(1))
        assert link.unread == 2 * len(line(0))
        await until_stuck(link)
        before = link.unread
        assert before >= TRANSPORT_HIGH_WATER
        link.put_frame(line(2))
        assert link.unread == before + len(line(2))


# -- a reader that stops ---------------------------------------------------------------------------


@on_uvloop
async def test_a_peer_that_stops_reading_is_closed_and_the_others_get_everything() -> None:
    room, log = Gathering(), Journal()
    async with (
        running(room, log, outbox_limit=LIMIT) as port,
        await Peer.upgraded(port, receive_buffer=SMALL) as slow,
        await Peer.upgraded(port) as quick,
    ):
        slow_link, quick_link = room.guests
        told = 0
        while not port.overflows:
            room.say(line(told))
            assert number_of(await quick.read_frame()) == told
            told += 1
            assert slow_link.waiting_bytes <= LIMIT + 1004
        assert told > LIMIT / 1004  # it was given the whole limit

        assert room.guests == [quick_link]
        ((event, facts),) = log.entries
        assert event == "outbox_overflow"
        assert facts["ip"] == "127.0.0.1"
        assert cast("int", facts["bytes"]) > LIMIT
        assert slow_link.queue == []
        assert slow_link.waiting_bytes <= MAX_TRANSPORT

        room.say(line(told))
        assert number_of(await quick.read_frame()) == told
        assert slow_link.queue == []

        # It reads on in time, and finds where it was cut off, and why.
        *heard, end = await slow.read_frames_until_close()
        assert [number_of(received) for received in heard] == list(range(len(heard)))
        assert end.close_code == POLICY_VIOLATION
        assert end.payload[2:].startswith(b"Outbox full")
        await slow.say(closing(POLICY_VIOLATION))
        assert await slow.read_frames() == []
    assert port.peak_backlog == facts["bytes"]


async def behind_proxy(port: Port, ip: str) -> Peer:
    """A peer of this address that will not read much."""
    peer = await Peer.connect(port, receive_buffer=SMALL)
    await peer.say(head({"X-Forwarded-For": ip}))
    assert (await peer.read_head()).startswith("HTTP/1.1 101 ")
    return peer


@on_uvloop
async def test_an_address_leaves_no_more_unread_than_some_full_outboxes() -> None:
    """Many connections, each within its own limit, would take all the memory there is."""
    room, log = Gathering(), Journal()
    one, other, local = "203.0.113.7", "203.0.113.8", "127.0.0.1"
    async with running(
        room, log, outbox_limit=LIMIT, trusted_proxies=(local,), patience=Patience(sweep=0.001, unread=2)
    ) as port:
        peers = [await behind_proxy(port, ip) for ip in [one] * 4 + [other] + [local] * 4]
        links = list(room.guests)
        for number, link in enumerate(links):
            link.put_frame(bytes(LIMIT * 3 // 5 + number))
        while port.overflows < 1:
            await turn()
        assert room.guests == [link for link in links if link is not links[3]]
        assert sum(link.waiting_bytes for link in links[:3]) <= 2 * LIMIT
        assert log.events == ["outbox_overflow"]
        for peer in peers:
            peer.close()
        await until_empty(port)
        assert port.stuck == set()


@on_uvloop
async def test_the_same_holds_for_long_answers_to_plain_requests() -> None:
    answer = Response(200, bytes(8 * 1024 * 1024))
    async with running(
        outbox_limit=4 * 1024 * 1024, trusted_proxies=("127.0.0.1",), patience=Patience(sweep=0.001, unread=2)
    ) as port:
        port.routes = RouteTable([Route("/long", lambda asked: answer)])
        peers = []
        for ip in ["203.0.113.7"] * 3 + ["203.0.113.8"]:
            peers.append(await Peer.connect(port, receive_buffer=SMALL))
            await peers[-1].say(head({"X-Forwarded-For": ip}, base={"Host": "127.0.0.1"}, target="/long"))
        for peer in peers:
            assert (await peer.read_head()).startswith("HTTP/1.1 200 ")
        while port.connections > 2:
            await turn()
        assert len(await peers[-1].read_to_end()) == len(answer.body)
        for peer in peers:
            peer.close()
        await until_empty(port)


class Talkative(Gathering):
    """A room where every question has a long answer."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.most = 0  # bytes that have waited

    def receive(self, guest: Connection, payload: bytes) -> None:
        self.asked += 1
        guest.put_frame(encode_text(bytes(LIMIT // 4)))
        self.most = max(self.most, guest.waiting_bytes + sum(map(len, guest.queue)))


@on_uvloop
async def test_questions_that_arrive_together_have_no_more_answers_waiting_than_the_limit() -> None:
    room = Talkative()
    async with (
        running(room, outbox_limit=LIMIT) as port,
        await Peer.upgraded(port, receive_buffer=SMALL) as peer,
    ):
        await peer.say(b"".join(text("?") for _ in range(60)))
        await room.someone_left.wait()
        assert port.overflows == 1
        assert room.asked < 10
        assert room.most <= 3 * LIMIT


class Filling(Gathering):
    """A room where all hear what one of them says, when the kernel has no room left for the first of them."""

    def receive(self, guest: Connection, payload: bytes) -> None:
        full = self.guests[0].transport.get_extra_info("socket")
        with suppress(BlockingIOError):
            while True:
                full.send(bytes(SMALL))
        self.say(encode_text(payload))


@on_uvloop
async def test_a_peer_that_half_closes_with_one_short_line_unread_is_cut_off() -> None:
    """The line waits for the end of the turn. Only then the port learns that the kernel has no room for it."""
    room = Filling()
    async with (
        running(room, patience=Patience(sweep=0.001, linger=0.01)) as port,
        await Peer.upgraded(port, receive_buffer=SMALL) as silent,
        await Peer.upgraded(port) as speaker,
    ):
        speaker.say_now(text("hello"))
        silent.stop_talking()
        assert await speaker.read_frame() == Frame(TEXT, b"hello")
        async with asyncio.timeout(PATIENCE):
            while port.connections > 1:
                await turn()


@on_uvloop
async def test_a_peer_that_never_reads_again_is_cut_off() -> None:
    room = Gathering()
    async with (
        running(room, outbox_limit=LIMIT, patience=Patience(sweep=0.001, linger=0.01)) as port,
        await Peer.upgraded(port, receive_buffer=SMALL),
    ):
        (link,) = room.guests
        sent = line(0)
        references = sys.getrefcount(sent)
        while not port.overflows:
            room.say(sent)
            await turn()
        await until_empty(port)
        assert link.queue == []
        assert sys.getrefcount(sent) == references


@on_uvloop
async def test_who_neither_reads_nor_talks_is_cut_off_without_any_ping() -> None:
    room = Gathering()
    async with (
        running(room, patience=Patience(sweep=0.001, linger=0.01)) as port,
        await Peer.upgraded(port, receive_buffer=SMALL) as peer,
    ):
        await until_stuck(room.guests[0])
        peer.stop_talking()
        await until_empty(port)
        assert room.guests == []


@on_uvloop
async def test_a_peer_that_stops_reading_delays_nobody() -> None:
    """Counted in turns of the event loop, from the moment a line is said until it is there to be read."""

    async def turns(quick: Peer, number: int) -> int:
        room.say(line(number))
        count = 0
        while not quick.has_received():
            await turn()
            count += 1
        assert number_of(await quick.read_frame()) == number
        return count

    room = Gathering()
    async with (
        running(room, outbox_limit=LIMIT) as port,
        await Peer.upgraded(port, receive_buffer=SMALL) as slow,
        await Peer.upgraded(port) as quick,
    ):
        before: list[int] = []
        for number in range(5):
            before.append(await turns(quick, number))
            assert number_of(await slow.read_frame()) == number
        assert len(set(before)) == 1
        after: list[int] = []
        while not port.overflows:
            after.append(await turns(quick, len(after)))
        after.append(await turns(quick, 0))
        assert set(after) == set(before)


@on_uvloop
async def test_a_ping_flood_that_reads_no_answers_is_an_overflow_too() -> None:
    room, log = Gathering(), Journal()
    async with (
        running(room, log, outbox_limit=10_000) as port,
        await Peer.upgraded(port, receive_buffer=SMALL) as peer,
    ):
        while not port.overflows:
            await peer.say(frame(PING, b"x" * 125) * 100)
            await turn()
    assert log.events == ["outbox_overflow"]


# -- what waits ------------------------------------------------------------------------------------


@on_uvloop
async def test_what_is_queued_when_the_transport_is_full_counts_as_waiting() -> None:
    """uvloop finds out at the end of a turn, when more may have been put already."""
    room = Gathering()
    async with running(room) as port, await Peer.upgraded(port):
        (link,) = room.guests
        link.put_frame(line(0))
        link.pause_writing()
        link.put_frame(line(1))
        assert link.waiting_bytes == len(line(0)) + len(line(1))
        assert port.waiting_bytes == link.waiting_bytes
        link.resume_writing()


@on_uvloop
async def test_those_who_wait_share_the_frames() -> None:
    room = Gathering()
    async with (
        running(room) as port,
        await Peer.upgraded(port, receive_buffer=SMALL),
        await Peer.upgraded(port, receive_buffer=SMALL),
    ):
        for link in room.guests:
            await until_stuck(link)
        waiting = [line(number) for number in range(50)]
        for sent in waiting:
            room.say(sent)
            await turn()
        for link in room.guests:
            assert all(kept is sent for kept, sent in zip(link.queue[-50:], waiting, strict=True))
            assert link.waiting_bytes >= 50 * len(waiting[0])


@on_uvloop
async def test_who_reads_again_gets_everything_in_order_and_no_copies_ahead_of_time() -> None:
    room = Gathering()
    async with running(room) as port, await Peer.upgraded(port, receive_buffer=SMALL) as peer:
        (link,) = room.guests
        told = await until_stuck(link)
        for number in range(told, told + 1000):
            link.put_frame(line(number))
            await turn()
        for number in range(told + 1000):
            assert number_of(await peer.read_frame()) == number
            assert link.transport.get_write_buffer_size() <= MAX_TRANSPORT
            assert link._backlog == sum(map(len, link.queue))
        assert link.queue == []
        assert link.waiting_bytes == 0
        link.put_frame(line(7))
        assert number_of(await peer.read_frame()) == 7
        assert port.frames_sent == told + 1001


@on_uvloop
async def test_what_is_put_in_one_turn_leaves_in_one_write() -> None:
    room = Gathering()
    async with running(room) as port, await Peer.upgraded(port) as peer, await Peer.upgraded(port):
        recorders = recorded(room.guests)
        lines = [line(number) for number in range(3)]
        for sent in lines:
            room.say(sent)
        assert [recorder.writes for recorder in recorders] == [[], []]
        for number in range(3):
            assert number_of(await peer.read_frame()) == number
        assert [recorder.writes for recorder in recorders] == [[b"".join(lines)]] * 2
        alone = line(3)
        room.say(alone)
        await peer.read_frame()
        assert all(recorder.writes[-1] is alone for recorder in recorders)


class Relaying(Gathering):
    """A room where all guests hear what one of them says. The next message comes while it handles the last one."""

    def __init__(self, messages: int, *, slow: float = 0.0) -> None:
        super().__init__()
        self.speaker: Peer | None = None
        self.to_come = messages
        self.slow = slow  # seconds that each message takes

    def receive(self, guest: Connection, payload: bytes) -> None:
        self.to_come -= 1
        if self.to_come and self.speaker is not None:
            self.speaker.say_now(text("more"))
        self.say(encode_text(payload))
        done = monotonic() + self.slow
        while monotonic() < done:
            pass


async def written_to_a_crowd(room: Relaying, *, members: int) -> list[list[int]]:
    """How many frames each write to each member had."""
    all_of_it = room.to_come
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(running(room))
        peers = [await stack.enter_async_context(await Peer.upgraded(port)) for _ in range(members)]
        recorders = recorded(room.guests)
        room.speaker = peers[0]
        room.speaker.say_now(text("more"))
        for peer in peers:
            for _ in range(all_of_it):
                assert await peer.read_frame() == Frame(TEXT, b"more")
    said = encode_text(b"more")
    writes = [[sent.count(said) for sent in recorder.writes] for recorder in recorders]
    return [counts[:-1] for counts in writes]  # the last one has the close frame


@on_uvloop
async def test_what_arrives_before_the_writes_to_many_leaves_with_them() -> None:
    assert await written_to_a_crowd(Relaying(2), members=2 * MANY + 1) == [[2]] * (2 * MANY + 1)


@on_uvloop
async def test_writes_to_a_few_do_not_wait_for_more() -> None:
    assert await written_to_a_crowd(Relaying(2), members=MANY) == [[1, 1]] * MANY


@on_uvloop
async def test_writes_to_many_wait_for_a_bounded_number_of_reads() -> None:
    assert await written_to_a_crowd(Relaying(6), members=2 * MANY + 1) == [[3, 3]] * (2 * MANY + 1)


@on_uvloop
async def test_writes_to_many_wait_for_a_bounded_time() -> None:
    slow = Relaying(3, slow=2 * MOMENT)
    assert await written_to_a_crowd(slow, members=2 * MANY + 1) == [[2, 1]] * (2 * MANY + 1)


@on_uvloop
async def test_in_one_turn_everybody_gets_what_was_for_them() -> None:
    room = Gathering()
    async with running(room) as port:
        peers = [await Peer.upgraded(port) for _ in range(3)]
        for told in product(((), (1,), (2,), (1, 2)), repeat=3):
            for link, numbers in zip(room.guests, told, strict=True):
                for number in numbers:
                    link.put_frame(line(number))
            for peer, numbers in zip(peers, told, strict=True):
                assert [number_of(await peer.read_frame()) for _ in numbers] == list(numbers)
        for link in room.guests:
            link.close(NORMAL, "")
        for peer in peers:
            assert [received.opcode for received in await peer.read_frames_until_close()] == [CLOSE]
            peer.close()


@on_uvloop
async def test_close_comes_after_what_was_queued_before_it() -> None:
    room = Gathering()
    async with running(room) as port, await Peer.upgraded(port) as peer:
        (link,) = room.guests
        for number in range(3):
            link.put_frame(line(number))
        link.close(NORMAL, "That was all")
        link.put_frame(line(3))
        link.close(POLICY_VIOLATION, "Again")
        *lines, end = await peer.read_frames_until_close()
        assert [number_of(received) for received in lines] == [0, 1, 2]
        assert end.payload == b"\x03\xe8That was all"


@pytest.mark.parametrize("who", ["hall", "peer"])
@on_uvloop
async def test_also_for_a_reader_who_is_behind(who: str) -> None:
    room = Gathering()
    async with (
        running(room, patience=Patience(linger=600.0)) as port,
        await Peer.upgraded(port, receive_buffer=SMALL) as peer,
    ):
        (link,) = room.guests
        told = await until_stuck(link)
        for number in range(told, told + 300):
            link.put_frame(line(number))
        await turn()
        if who == "hall":
            link.close(NORMAL, "")
        else:
            await peer.say(closing(NORMAL))
            await room.someone_left.wait()
        assert link.queue
        *lines, end = await peer.read_frames_until_close()
        assert [number_of(received) for received in lines] == list(range(told + 300))
        assert end == Frame(CLOSE, b"\x03\xe8")
        if who == "hall":
            await peer.say(closing(NORMAL))
        assert await peer.read_frames() == []
        assert not peer.was_reset


@on_uvloop
async def test_after_the_end_every_call_is_harmless() -> None:
    room = Gathering()
    async with running(room) as port:
        async with await Peer.upgraded(port):
            (link,) = room.guests
        await until_empty(port)
        sent = port.frames_sent
        link.put_frame(line(0))
        link.pause()
        link.resume()
        link.close(NORMAL, "")
        link.flush()
        link.abort()
        await turn()
        assert (link.queue, port.frames_sent) == ([], sent)


@on_uvloop
async def test_nothing_is_read_while_paused() -> None:
    room = Gathering()
    async with running(room) as port, await Peer.upgraded(port) as peer:
        (link,) = room.guests
        link.pause()
        await peer.say(text("wait for it"))
        for _ in range(10):
            await turn()
        assert not peer.has_received()
        link.resume()
        assert await peer.read_frame() == Frame(TEXT, b"wait for it")


# -- the hall closes -------------------------------------------------------------------------------


@on_uvloop
async def test_closing_the_port_tells_everybody_and_waits_for_them() -> None:
    room = Gathering()
    async with running(room) as port:
        async with await Peer.upgraded(port):
            pass
        await until_empty(port)  # the house was empty once before
        first, second = await Peer.upgraded(port), await Peer.upgraded(port)
        room.say(line(1))
        closed = asyncio.create_task(port.close("Server shutting down"))
        for peer in (first, second):
            *lines, end = await peer.read_frames_until_close()
            assert [number_of(received) for received in lines] == [1]
            assert end == Frame(CLOSE, GOING_AWAY.to_bytes(2, "big") + b"Server shutting down")
        async with first:
            await first.say(closing(GOING_AWAY))
            assert await first.read_frames() == []
        assert not closed.done()
        async with second:
            await second.say(closing(GOING_AWAY))
            assert await second.read_frames() == []
        async with asyncio.timeout(PATIENCE):
            await closed
        assert port.connections == 0
        assert room.guests == []


@on_uvloop
async def test_who_does_not_answer_is_not_waited_for_long() -> None:
    async with (
        running(patience=Patience(sweep=0.001, linger=0.01)) as port,
        await Peer.upgraded(port) as peer,
        await Peer.connect(port) as half_open,
    ):
        await half_open.say(b"GET / HT")
        await peer.say(text("in"))
        assert await peer.read_frame() == Frame(TEXT, b"in")
        async with asyncio.timeout(PATIENCE):
            await port.close("bye")
        assert port.connections == 0
        assert [received.close_code for received in await peer.read_frames()] == [GOING_AWAY]
        assert await half_open.read_to_end() == b""


@on_uvloop
async def test_at_the_very_latest_everybody_is_cut_off() -> None:
    room = Gathering()
    async with (
        running(room, patience=Patience(goodbye=0.01)) as port,
        await Peer.upgraded(port, receive_buffer=SMALL),
    ):
        await until_stuck(room.guests[0])
        async with asyncio.timeout(PATIENCE):
            await port.close("bye")
        await until_empty(port)
        assert room.guests == []


@on_uvloop
async def test_an_answer_on_its_way_is_not_cut_off_by_closing() -> None:
    body = b"x" * 10_000_000
    async with running() as port, await Peer.connect(port) as peer:
        port.routes = RouteTable([Route("/large", lambda asked: Response(200, body))])
        await peer.say(head({"Upgrade": None}, target="/large"))
        await peer.read_head()
        closed = asyncio.create_task(port.close("bye"))
        assert await peer.read_to_end() == body
        peer.close()
        async with asyncio.timeout(PATIENCE):
            await closed


@on_uvloop
async def test_a_closed_port_takes_no_more_connections() -> None:
    async with running() as port:
        address = port.address
        await port.close("bye")
    with socket.socket() as visitor, pytest.raises(ConnectionRefusedError):
        visitor.connect(address)
