"""Plain sockets: what is written arrives whole and in order, and each connection ends once, for its own reason."""

import asyncio
import errno
import gc
import os
import select
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moothall.gateways import sockets as sockets_module
from moothall.gateways.listening import listen
from moothall.gateways.sockets import MOST_HELD, MOST_READ, Sockets, SocketTransport
from moothall.gateways.transport import TRANSPORT_HIGH_WATER
from tests.support.echo import Journal
from tests.support.sockets import PATIENCE, on_uvloop, turn

SMALL = 16 * 1024  # bytes of kernel buffers, where a peer does not read
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with a reset


class Visitor:
    """Remembers what it is told. It is a guest of the port in the hand of a test."""

    keeps_open = False  # after the peer's last byte

    def __init__(self) -> None:
        self.transport: SocketTransport
        self.events: list[str] = []
        self.received = b""
        self.ended = asyncio.Event()
        self.changed = asyncio.Event()
        self.on_data: Callable[[bytes], None] = lambda _: None
        self.error: Exception | None = None

    def arrive(self, transport: Any) -> bool:
        return True

    def vanish(self) -> None:
        self.events.append("vanish")

    def connection_made(self, transport: SocketTransport) -> None:
        self.transport = transport
        self._note("made")

    def connection_lost(self, exc: Exception | None) -> None:
        self.error = exc
        self._note("lost")
        self.ended.set()

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.changed.set()
        self.on_data(data)

    def eof_received(self) -> bool | None:
        self._note("eof")
        return self.keeps_open

    def pause_writing(self) -> None:
        self._note("stuck")

    def resume_writing(self) -> None:
        self._note("unstuck")

    def _note(self, event: str) -> None:
        self.events.append(event)
        self.changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


class Door:
    """Sockets on a free port of 127.0.0.1, their visitors, and what was said at the ends of turns."""

    def __init__(self) -> None:
        self.sockets: Sockets
        self.visitors: list[Visitor] = []
        self.turns = 0
        self.make: Callable[[], Visitor] = Visitor
        self.arrived = asyncio.Event()
        self.at_the_end: Callable[[], None] = lambda: None
        self.log = Journal()

    def guest(self) -> Visitor:
        visitor = self.make()
        self.visitors.append(visitor)
        self.arrived.set()
        return visitor

    def end_turn(self) -> None:
        self.turns += 1
        self.at_the_end()

    async def peer(self) -> tuple[Visitor, asyncio.StreamReader, asyncio.StreamWriter]:
        self.arrived.clear()
        host, port = self.sockets.sockets[0].getsockname()
        reader, writer = await asyncio.open_connection(host, port)
        async with asyncio.timeout(PATIENCE):
            await self.arrived.wait()
        return self.visitors[-1], reader, writer


@asynccontextmanager
async def opened(read_at_once: int = 65536) -> AsyncIterator[Door]:
    door = Door()
    made = await listen(
        door.guest,
        "127.0.0.1",
        0,
        None,
        at_the_end=door.end_turn,
        log=door.log,
        read_at_once=read_at_once,
    )
    assert isinstance(made, Sockets)
    door.sockets = made
    try:
        yield door
    finally:
        made.close()
        for visitor in door.visitors:
            visitor.transport.abort()
        for visitor in door.visitors:
            async with asyncio.timeout(PATIENCE):
                await visitor.ended.wait()
        assert made.epoll.closed


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    await asyncio.gather(writer.wait_closed(), return_exceptions=True)


def narrow(visitor: Visitor, writer: asyncio.StreamWriter) -> None:
    """The kernel takes little for a peer that does not read."""
    visitor.transport.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL)
    writer.transport.pause_reading()  # type: ignore[attr-defined]


def fill(visitor: Visitor) -> None:
    """The kernel takes nothing more, and the transport has nothing that waits."""
    with suppress(BlockingIOError):
        while True:
            visitor.transport.socket.send(bytes(SMALL))


def reset(writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()


# -- reading ---------------------------------------------------------------------------------------


@on_uvloop
async def test_what_a_peer_sends_arrives_and_the_turn_is_told() -> None:
    async with opened() as door:
        visitor, _, writer = await door.peer()
        assert visitor.transport.get_extra_info("sockname")[0] == "127.0.0.1"
        turns = door.turns
        writer.write(b"hello")
        await visitor.until(lambda: visitor.received == b"hello")
        await turn()
        assert door.turns > turns
        await closed(writer)
        await visitor.until(visitor.ended.is_set)
        assert visitor.events == ["made", "eof", "lost"]
        assert visitor.error is None


@on_uvloop
async def test_the_address_of_the_peer_is_told_when_it_arrives() -> None:
    async with opened() as door:
        addresses: list[str] = []

        class Asking(Visitor):
            def connection_made(self, transport: SocketTransport) -> None:
                super().connection_made(transport)
                addresses.append(transport.get_extra_info("peername")[0])

        door.make = Asking
        _, _, writer = await door.peer()
        assert addresses == ["127.0.0.1"]
        await closed(writer)


@on_uvloop
async def test_no_more_is_read_at_once_than_the_port_wants() -> None:
    async with opened(read_at_once=100) as door:
        visitor, _, writer = await door.peer()
        sizes: list[int] = []
        visitor.on_data = lambda data: sizes.append(len(data))
        writer.write(bytes(950))
        await visitor.until(lambda: len(visitor.received) == 950)
        assert max(sizes) <= 100
        await closed(writer)


@on_uvloop
async def test_many_that_send_at_once_are_read_in_shares() -> None:
    """One look at all of them would otherwise delay timers, and short messages of others, for a second."""
    many = 64
    size = MOST_READ // many + 1000
    async with opened() as door:
        peers = [await door.peer() for _ in range(many)]
        sizes: list[int] = []
        for visitor, _, writer in peers:
            visitor.on_data = lambda data: sizes.append(len(data))
            assert os.write(writer.get_extra_info("socket").fileno(), bytes(size)) == size
        for visitor, _, _ in peers:
            await visitor.until(lambda visitor=visitor: len(visitor.received) == size)  # type: ignore[misc]
        assert max(sizes[:many]) <= MOST_READ // many
        for _, _, writer in peers:
            await closed(writer)


@on_uvloop
async def test_a_paused_connection_reads_nothing_and_then_everything() -> None:
    async with opened() as door:
        visitor, _, writer = await door.peer()
        visitor.transport.pause_reading()
        writer.write(b"early")
        other, _, second = await door.peer()
        second.write(b"x")
        await other.until(lambda: other.received == b"x")
        assert visitor.received == b""
        visitor.transport.resume_reading()
        await visitor.until(lambda: visitor.received == b"early")
        await closed(writer)
        await closed(second)


@on_uvloop
async def test_a_peer_that_resets_a_paused_connection_costs_no_turns() -> None:
    """epoll tells of errors whether they are asked for or not: a turn without end, if nothing reads them."""
    async with opened() as door:
        visitor, _, writer = await door.peer()
        visitor.transport.pause_reading()
        reset(writer)
        other, _, second = await door.peer()
        turns = door.turns
        for _ in range(50):
            await turn()
        assert door.turns - turns <= 2
        visitor.transport.resume_reading()
        await visitor.until(visitor.ended.is_set)
        assert isinstance(visitor.error, ConnectionResetError)
        assert other.events == ["made"]
        await closed(second)


@on_uvloop
async def test_after_its_last_byte_a_peer_can_go_on_reading() -> None:
    async with opened() as door:
        visitor, reader, writer = await door.peer()
        visitor.keeps_open = True
        writer.write(b"question")
        writer.write_eof()
        await visitor.until(lambda: "eof" in visitor.events)
        visitor.transport.resume_reading()  # there is nothing more to read, and it is not told twice
        await turn()
        visitor.transport.write(b"answer")
        visitor.transport.close()
        assert await reader.read() == b"answer"
        assert visitor.events == ["made", "eof", "lost"]
        await closed(writer)


@on_uvloop
async def test_a_guest_that_fails_is_closed_and_the_others_go_on() -> None:
    async with opened() as door:
        complaints: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(told["exception"]))
        visitor, reader, writer = await door.peer()
        other, _, second = await door.peer()

        def fail(_: bytes) -> None:
            raise KeyError("a bug")

        visitor.on_data = fail
        writer.write(b"x")
        second.write(b"y")
        assert await reader.read() == b""
        await other.until(lambda: other.received == b"y")
        assert [type(complaint) for complaint in complaints] == [KeyError]
        await closed(writer)
        await closed(second)


@on_uvloop
async def test_a_guest_that_refuses_its_connection_ends_it() -> None:
    async with opened() as door:

        class Refusing(Visitor):
            def connection_made(self, transport: SocketTransport) -> None:
                super().connection_made(transport)
                transport.abort()

        door.make = Refusing
        visitor, reader, writer = await door.peer()
        assert await reader.read() == b""
        assert visitor.events == ["made", "lost"]
        await closed(writer)


# -- writing ---------------------------------------------------------------------------------------


@on_uvloop
async def test_what_is_written_outside_of_a_turn_leaves_at_once() -> None:
    async with opened() as door:
        visitor, reader, writer = await door.peer()
        visitor.transport.write(b"now")
        assert visitor.transport.get_write_buffer_size() == 0
        assert await reader.readexactly(3) == b"now"
        await closed(writer)


@on_uvloop
async def test_short_answers_wait_until_the_others_are_read() -> None:
    async with opened() as door:
        peers = [await door.peer() for _ in range(3)]
        seen: list[str] = []
        ends = [writer.get_extra_info("socket").fileno() for _, _, writer in peers]
        for name, (visitor, _, _) in zip("abc", peers, strict=True):

            def answer(data: bytes, visitor: Visitor = visitor, name: str = name) -> None:
                seen.append("read " + name)
                arrived, _, _ = select.select(ends, [], [], 0)
                assert not arrived
                visitor.transport.write(b"one ")
                visitor.transport.write(data)

            visitor.on_data = answer
        door.at_the_end = lambda: seen.append("end")
        for _, _, writer in peers:  # all of them are readable before the first is read
            os.write(writer.get_extra_info("socket").fileno(), b"two")
        for _, reader, _ in peers:
            assert await reader.readexactly(7) == b"one two"
        reads = [entry for entry in seen if entry != "end"]
        assert sorted(reads) == ["read a", "read b", "read c"]
        assert seen.index("end") == 3
        for _, _, writer in peers:
            await closed(writer)


@pytest.mark.parametrize("size", [MOST_HELD, MOST_HELD + 1, TRANSPORT_HIGH_WATER, 3_000_000])
@on_uvloop
async def test_an_answer_of_any_size_arrives_with_the_end_of_the_stream(size: int) -> None:
    async with opened() as door:
        visitor, reader, writer = await door.peer()
        answer = os.urandom(size)

        def say_all(_: bytes) -> None:
            visitor.transport.write(answer[:100])
            visitor.transport.write(answer[100:])
            visitor.transport.write_eof()
            visitor.transport.write(b"too late")

        visitor.on_data = say_all
        writer.write(b"x")
        assert await reader.read() == answer
        assert "lost" not in visitor.events  # the peer may still speak
        writer.write(b"y")
        await visitor.until(lambda: visitor.received == b"xy")
        await closed(writer)
        await visitor.until(visitor.ended.is_set)
        assert visitor.error is None


@on_uvloop
async def test_close_sends_what_was_written_and_abort_does_not() -> None:
    async with opened() as door:
        patient, reader, writer = await door.peer()
        hasty, other_reader, second = await door.peer()
        narrow(patient, writer)
        narrow(hasty, second)
        answer = os.urandom(150_000)
        for visitor in (patient, hasty):
            visitor.transport.write(answer)
            assert visitor.transport.get_write_buffer_size() > TRANSPORT_HIGH_WATER
        patient.transport.close()
        patient.transport.write(b"too late")
        assert patient.transport.is_closing()
        hasty.transport.abort()
        for stream in (writer, second):
            stream.transport.resume_reading()  # type: ignore[attr-defined]
        assert await reader.read() == answer
        with suppress(ConnectionResetError):
            assert await other_reader.read() != answer
        await patient.until(patient.ended.is_set)
        assert patient.events == ["made", "stuck", "unstuck", "lost"]
        assert hasty.events == ["made", "stuck", "lost"]
        await closed(writer)
        await closed(second)


@on_uvloop
async def test_a_peer_that_goes_while_it_is_owed_bytes_is_lost() -> None:
    async with opened() as door:
        visitor, _, writer = await door.peer()
        narrow(visitor, writer)
        visitor.transport.write(bytes(150_000))
        visitor.transport.pause_reading()
        reset(writer)
        await visitor.until(visitor.ended.is_set)
        assert isinstance(visitor.error, ConnectionError)
        visitor.transport.write(b"nobody")
        visitor.transport.write_eof()
        visitor.transport.close()
        visitor.transport.abort()
        assert visitor.events == ["made", "stuck", "lost"]


@on_uvloop
async def test_the_last_words_of_a_peer_that_resets_are_read_although_it_is_owed_bytes() -> None:
    """A peer that closes its socket before it has read everything sends a reset."""
    async with opened() as door:
        peer = socket.create_connection(door.sockets.sockets[0].getsockname())
        await door.arrived.wait()
        (visitor,) = door.visitors
        fill(visitor)
        visitor.transport.write(b"owed")
        peer.send(b"last words")
        peer.close()
        await visitor.until(visitor.ended.is_set)
        assert visitor.received == b"last words"
        assert isinstance(visitor.error, ConnectionError)


@on_uvloop
async def test_a_guest_that_fails_when_it_is_stuck_is_closed_and_the_others_are_answered() -> None:
    async with opened() as door:
        complaints: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(told["exception"]))

        class Failing(Visitor):
            def pause_writing(self) -> None:
                raise KeyError("a bug")

        door.make = Failing
        failing, _, writer = await door.peer()
        door.make = Visitor
        other, reader, second = await door.peer()
        narrow(failing, writer)
        fill(failing)
        failing.transport.set_write_buffer_limits(0)

        def answer_both(_: bytes) -> None:
            failing.transport.write(b"answer")
            other.transport.write(b"answer")

        other.on_data = answer_both
        turns = door.turns
        second.write(b"x")
        assert await reader.readexactly(6) == b"answer"
        await failing.until(failing.ended.is_set)
        assert door.turns > turns
        assert [type(complaint) for complaint in complaints] == [KeyError]
        await closed(writer)
        await closed(second)


@on_uvloop
async def test_a_peer_that_has_read_everything_costs_no_turns() -> None:
    async with opened() as door:
        visitor, reader, writer = await door.peer()
        narrow(visitor, writer)
        visitor.transport.write(bytes(150_000))
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert await reader.readexactly(150_000) == bytes(150_000)
        await visitor.until(lambda: "unstuck" in visitor.events)
        await turn()
        turns = door.turns
        for _ in range(50):
            await turn()
        assert door.turns - turns <= 2
        await closed(writer)


@on_uvloop
async def test_a_connection_that_another_one_aborts_in_its_turn_is_not_read() -> None:
    async with opened() as door:
        one, _, writer = await door.peer()
        other, _, second = await door.peer()
        one.on_data = lambda _: other.transport.abort()
        other.on_data = lambda _: one.transport.abort()
        for stream in (writer, second):  # both are readable before the first is read
            os.write(stream.get_extra_info("socket").fileno(), b"x")
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait(
                [asyncio.ensure_future(visitor.ended.wait()) for visitor in (one, other)],
                return_when=asyncio.FIRST_COMPLETED,
            )
        assert one.received + other.received == b"x"
        one.on_data = other.on_data = lambda _: None
        await closed(writer)
        await closed(second)


@on_uvloop
async def test_a_guest_that_fails_at_its_end_does_not_keep_the_others_from_theirs() -> None:
    async with opened() as door:
        complaints: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(told["exception"]))

        class Failing(Visitor):
            def connection_lost(self, exc: Exception | None) -> None:
                super().connection_lost(exc)
                raise KeyError("a bug")

        door.make = Failing
        failing, _, writer = await door.peer()
        door.make = Visitor
        other, _, second = await door.peer()
        failing.transport.abort()
        other.transport.abort()
        await other.until(other.ended.is_set)
        assert failing.ended.is_set()
        assert [type(complaint) for complaint in complaints] == [KeyError]
        await closed(writer)
        await closed(second)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["say", "say in a turn"]), st.integers(1, 30_000)),
        st.tuples(st.sampled_from(["read", "turn"]), st.integers(1, 30_000)),
    ),
    max_size=12,
)


@given(STEPS, st.sampled_from(["close", "write_eof"]))
@settings(max_examples=30, deadline=None)
def test_all_bytes_arrive_in_order_however_they_are_written_and_read(
    steps: list[tuple[str, int]], ending: str
) -> None:
    @on_uvloop
    async def play() -> None:
        async with opened() as door:
            visitor, reader, writer = await door.peer()
            narrow(visitor, writer)
            written = read = b""
            for step, size in steps:
                said = os.urandom(16) * (size // 16 + 1)
                if step == "say":
                    visitor.transport.write(said)
                    written += said
                elif step == "say in a turn":
                    visitor.on_data = lambda _, said=said: visitor.transport.write(said)  # type: ignore[misc]
                    before = len(visitor.received)
                    writer.write(b"?")
                    await visitor.until(lambda before=before: len(visitor.received) > before)  # type: ignore[misc]
                    written += said
                elif step == "read":
                    writer.transport.resume_reading()  # type: ignore[attr-defined]
                    read += await reader.read(min(size, len(written) - len(read))) if written != read else b""
                    writer.transport.pause_reading()  # type: ignore[attr-defined]
                else:
                    await turn()
            getattr(visitor.transport, ending)()
            writer.transport.resume_reading()  # type: ignore[attr-defined]
            assert read + await reader.read() == written
            stuck, unstuck = (visitor.events.count(event) for event in ("stuck", "unstuck"))
            assert stuck == unstuck
            await closed(writer)

    play()


# -- the port --------------------------------------------------------------------------------------


async def test_an_empty_host_is_all_addresses_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str | None] = []
    loop = asyncio.get_running_loop()
    look_up = loop.getaddrinfo

    async def local(host: str | None, port: int, **options: Any) -> Any:
        asked.append(host)
        return await look_up("127.0.0.1", port, **options)

    monkeypatch.setattr(loop, "getaddrinfo", local)
    made = await listen(Visitor, "", 0, None, at_the_end=lambda: None, log=Journal())
    made.close()
    assert asked == [None]


@on_uvloop
async def test_what_was_accepted_goes_on_when_the_port_is_closed() -> None:
    async with opened() as door:
        visitor, reader, writer = await door.peer()
        host, port = door.sockets.sockets[0].getsockname()
        door.sockets.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(host, port)
        writer.write(b"still")
        await visitor.until(lambda: visitor.received == b"still")
        visitor.transport.write(b"here")
        assert await reader.readexactly(4) == b"here"
        assert not door.sockets.epoll.closed
        await closed(writer)
        await visitor.until(visitor.ended.is_set)


@on_uvloop
async def test_a_process_without_files_accepts_again_when_it_has_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sockets_module, "NO_FILES_PAUSE", 0.0)
    async with opened() as door:
        (listening,) = door.sockets._listening.values()

        class Exhausted:
            """A listening socket in a process that has as many files as it may have."""

            failures = 1

            def _accept(self) -> Any:
                if self.failures:
                    self.failures -= 1
                    raise OSError(errno.EMFILE, "Too many open files")
                return cast("Any", listening)._accept()

            def __getattr__(self, name: str) -> Any:
                return getattr(listening, name)

        door.sockets._listening[listening.fileno()] = Exhausted()  # type: ignore[assignment]
        _, _, writer = await door.peer()
        port = listening.getsockname()[1]
        facts = {"port": port, "reason": "Too many open files", "seconds": 0.0}
        assert door.log.entries == [("accept_failed", facts)]
        await closed(writer)


@on_uvloop
async def test_a_process_without_files_does_not_try_again_at_once() -> None:
    async with opened() as door:

        class Exhausted:
            def _accept(self) -> Any:
                raise OSError(errno.EMFILE, "Too many open files")

            def __getattr__(self, name: str) -> Any:
                return getattr(listening, name)

        (listening,) = door.sockets._listening.values()
        door.sockets._listening[listening.fileno()] = Exhausted()  # type: ignore[assignment]
        with socket.create_connection(listening.getsockname()):
            async with asyncio.timeout(PATIENCE):
                while not door.log.entries:
                    await turn()
            for _ in range(50):
                await turn()
        assert door.log.events == ["accept_failed"]


@on_uvloop
async def test_a_connection_that_was_reset_leaves_no_garbage() -> None:
    """A flood of them would otherwise keep the search for garbage busy, and each search stops the hall."""
    async with opened() as door:
        visitor, _, writer = await door.peer()
        reset(writer)
        await visitor.until(visitor.ended.is_set)
        assert isinstance(visitor.error, ConnectionResetError)
        door.visitors.clear()
        gc.collect()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            del visitor
            gc.collect()
            assert not [found for found in gc.garbage if isinstance(found, SocketTransport)]
        finally:
            gc.set_debug(0)
            gc.garbage.clear()


@on_uvloop
async def test_many_connections_that_come_and_go_leave_nothing() -> None:
    async with opened() as door:
        for _ in range(5):
            peers = await asyncio.gather(
                *(asyncio.open_connection(*door.sockets.sockets[0].getsockname()) for _ in range(100))
            )
            for number, (_, writer) in enumerate(peers):
                if number % 2:
                    writer.write(b"bye")
                else:
                    reset(writer)
            await asyncio.gather(*(closed(writer) for _, writer in peers))
        async with asyncio.timeout(PATIENCE):
            while len(door.visitors) < 500:
                door.arrived.clear()
                await door.arrived.wait()
        for visitor in door.visitors:
            await visitor.until(visitor.ended.is_set)
        assert door.sockets._transports == {}
