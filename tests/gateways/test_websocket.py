"""The frame table of tests/wire/test_websocket.py over a real socket, against the echo, and what needs a socket."""

import asyncio
import signal
import sys
from contextlib import AsyncExitStack

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedError, ConnectionClosedOK, InvalidStatus
from websockets.typing import Data, Subprotocol

from moothall.gateways.connection import LONG_MESSAGE, Connection
from moothall.gateways.port import LONG_AT_ONCE, Patience, Port
from moothall.gateways.room import Served
from moothall.wire.websocket import (
    BINARY,
    CLOSE,
    CONTINUATION,
    INTERNAL_ERROR,
    INVALID_TEXT,
    NORMAL,
    PING,
    POLICY_VIOLATION,
    PONG,
    PROTOCOL_ERROR,
    TEXT,
    TOO_BIG,
    encode_frame,
    encode_text,
)
from tests.support.echo import Echo, Journal, running
from tests.support.sockets import (
    PATIENCE,
    Frame,
    Peer,
    chopped,
    closing,
    frame,
    head,
    on_uvloop,
    text,
    turn,
    until_empty,
)
from tests.wire.test_websocket import CASES, CHOPS, LONG, Case, Event

MEBIBYTE = 1024 * 1024
COMPLETE = {name: case for name, case in CASES.items() if not case.incomplete}
INCOMPLETE = {name: case for name, case in CASES.items() if case.incomplete}


def url(port: Port) -> str:
    host, number = port.address
    return f"ws://{host}:{number}"


class Departures(Echo):
    """An echo that notes what it hears and who leaves, and closes those who ask for it."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.left: list[Connection] = []
        self.someone_left = asyncio.Event()

    def receive(self, guest: Connection, payload: bytes) -> None:
        self.heard.append(payload)
        if payload == b"fail":
            raise ZeroDivisionError
        super().receive(guest, payload)
        if payload == b"close me":
            guest.close(4000, "As you wish")

    def disconnect(self, guest: Connection) -> None:
        self.left.append(guest)
        self.someone_left.set()


# -- the table -------------------------------------------------------------------------------------


def echoed(events: tuple[Event, ...]) -> list[Frame]:
    """What an echo answers: messages as they came, pongs to pings, nothing to pongs, the code to a close."""
    answers = {TEXT: TEXT, BINARY: BINARY, PING: PONG, CLOSE: CLOSE}
    return [
        Frame(answers[opcode], payload[:2] if opcode == CLOSE else payload)
        for opcode, payload in events
        if opcode != PONG
    ]


async def converse(port: Port, case: Case, chop: int | None) -> list[Frame]:
    """All that the echo answers until it hangs up; a case that does not end by itself is ended with 1000."""
    async with await Peer.upgraded(port) as peer:
        await peer.say(*([case.sent] if chop is None else chopped(case.sent, chop)))
        ends = case.refused is not None or any(opcode == CLOSE for opcode, _ in case.events)
        if not ends:
            await peer.say(closing(NORMAL))
        frames = await peer.read_frames()
        if not ends:
            assert frames.pop() == Frame(CLOSE, b"\x03\xe8")
        return frames


@pytest.mark.parametrize("case", COMPLETE.values(), ids=COMPLETE.keys())
@on_uvloop
async def test_every_case_is_answered_over_a_socket(case: Case) -> None:
    async with running() as port:
        for chop in (None, *CHOPS) if len(case.sent) < LONG else (None, LONG):
            frames = await converse(port, case, chop)
            if case.refused is not None:
                assert frames.pop().close_code == case.refused, chop
            assert frames == echoed(case.events), chop


@pytest.mark.parametrize("case", INCOMPLETE.values(), ids=INCOMPLETE.keys())
@on_uvloop
async def test_an_unfinished_message_is_waited_for(case: Case) -> None:
    async with running() as port, await Peer.upgraded(port) as peer:
        await peer.say(text("first"), case.sent)
        assert await peer.read_frame() == Frame(TEXT, b"first")
        for expected in echoed(case.events):
            assert await peer.read_frame() == expected
        peer.stop_talking()
        assert await peer.read_frames() == []


@on_uvloop
async def test_pongs_leave_in_the_order_of_the_pings_between_the_messages() -> None:
    async with running() as port, await Peer.upgraded(port) as peer:
        await peer.say(frame(PING, b"1") + text("2") + frame(PING, b"3") + text("4"))
        expected = encode_frame(PONG, b"1") + encode_text(b"2") + encode_frame(PONG, b"3") + encode_text(b"4")
        await peer.say(closing(NORMAL))
        assert await peer.read_to_end() == expected + encode_frame(CLOSE, b"\x03\xe8")


# -- big messages ----------------------------------------------------------------------------------


@pytest.mark.parametrize("opcode", [TEXT, BINARY])
@pytest.mark.parametrize("size", [MEBIBYTE, 16 * MEBIBYTE])
@on_uvloop
async def test_big_messages_come_back(opcode: int, size: int) -> None:
    payload = ("é" if opcode == TEXT else "x").encode() * (size // (2 if opcode == TEXT else 1))
    async with running() as port, await Peer.upgraded(port) as peer:
        await peer.say(frame(opcode, payload))
        assert await peer.read_frame() == Frame(opcode, payload)


@pytest.mark.parametrize("fragment", [64, 1300, 65536, 4 * MEBIBYTE])
@on_uvloop
async def test_big_fragmented_messages_come_back(fragment: int) -> None:
    payload = bytes(range(128)) * (4 * MEBIBYTE // 128)
    fragments = list(chopped(payload, fragment))
    sent = b"".join(
        frame(CONTINUATION if index else TEXT, piece, final=index == len(fragments) - 1)
        for index, piece in enumerate(fragments)
    )
    async with running() as port, await Peer.upgraded(port) as peer:
        await peer.say(sent)
        assert await peer.read_frame() == Frame(TEXT, payload)


@pytest.mark.parametrize("chop", [64, 256, 2048])
@on_uvloop
async def test_a_big_message_in_small_deliveries_comes_back(chop: int) -> None:
    payload = b"*" * MEBIBYTE
    async with running() as port, await Peer.upgraded(port) as peer:
        await peer.say(*chopped(frame(TEXT, payload), chop))
        assert await peer.read_frame() == Frame(TEXT, payload)


@on_uvloop
async def test_a_message_over_the_limit_is_refused_at_its_header() -> None:
    async with running(max_frame=1000) as port, await Peer.upgraded(port) as peer:
        await peer.say(frame(TEXT, b"x" * 1000), frame(BINARY, announced=1001))
        kept, refused = await peer.read_frames()
        assert kept == Frame(TEXT, b"x" * 1000)
        assert refused.close_code == TOO_BIG


@pytest.mark.parametrize(
    ("subprotocols", "chosen"), [((), None), (("*",), "b"), (("a", "c"), "a")], ids=["none", "any", "listed"]
)
@on_uvloop
async def test_a_client_that_offers_subprotocols_gets_one_of_the_operators(
    subprotocols: tuple[str, ...], chosen: str | None
) -> None:
    async with running(subprotocols=subprotocols) as port:
        url = "ws://{}:{}".format(*port.address)
        for _ in range(2):  # the second handshake is read from memory
            async with connect(url, subprotocols=[Subprotocol("b"), Subprotocol("a")], proxy=None) as socket:
                assert socket.subprotocol == chosen
                await socket.send("hello")
                assert await socket.recv() == "hello"


async def upgraded_from(port: Port, address: str) -> Peer:
    """A peer that a trusted proxy says comes from this address."""
    peer = await Peer.connect(port)
    await peer.say(head({"X-Forwarded-For": address}))
    assert (await peer.read_head()).startswith("HTTP/1.1 101 ")
    return peer


@on_uvloop
async def test_an_address_has_so_many_long_messages_under_way() -> None:
    """Their bytes wait in memory for their end, and costs are charged when it arrives."""
    size = 2 * LONG_MESSAGE
    async with running(max_frame=size, trusted_proxies=("127.0.0.1",)) as port, AsyncExitStack() as stack:
        whole, echoed = frame(TEXT, b"x" * size), Frame(TEXT, b"x" * size)
        peers = [
            await stack.enter_async_context(await upgraded_from(port, "203.0.113.7"))
            for _ in range(LONG_AT_ONCE + 2)
        ]
        for number, peer in enumerate(peers[:-2], start=1):
            await peer.say(whole[:-1])
            while port._reserved["203.0.113.7"] < number * (size - 1):
                await turn()
        await peers[-2].say(whole[:-1])
        refused = await peers[-2].read_frames()
        assert [(answer.opcode, answer.close_code) for answer in refused] == [(CLOSE, POLICY_VIOLATION)]
        other = await stack.enter_async_context(await upgraded_from(port, "203.0.113.8"))
        await other.say(whole)
        assert await other.read_frame() == echoed
        for peer in peers[:LONG_AT_ONCE]:  # they are not disturbed, and make room again
            await peer.say(whole[-1:])
            assert await peer.read_frame() == echoed
        peers[0].close()
        await peers[-1].say(whole)
        assert await peers[-1].read_frame() == echoed


# -- the end ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("last_words", [frame(15), closing(NORMAL)], ids=["violation", "close"])
@on_uvloop
async def test_late_bytes_do_not_destroy_our_last_words(last_words: bytes) -> None:
    """A socket that is closed while bytes arrive resets the connection, and the peer may never see the code."""
    room = Departures()
    async with running(room) as port, await Peer.upgraded(port) as peer:
        await peer.say(last_words)
        await room.someone_left.wait()
        await peer.say(*[b"late" * 1000] * 10)
        (answer,) = await peer.read_frames()
        assert answer.opcode == CLOSE
        assert not peer.was_reset


@on_uvloop
async def test_a_peer_that_does_not_hang_up_is_cut_off() -> None:
    async with (
        running(patience=Patience(sweep=0.001, linger=0.01)) as port,
        await Peer.upgraded(port) as peer,
    ):
        await peer.say(closing(NORMAL))
        assert [answer.close_code for answer in await peer.read_frames()] == [NORMAL]
        await until_empty(port)


@on_uvloop
async def test_when_the_hall_closes_nothing_more_is_answered_but_the_peers_close() -> None:
    room = Departures()
    async with running(room) as port, await Peer.upgraded(port) as peer:
        await peer.say(text("close me") + text("too late") + frame(PING))
        assert await peer.read_frame() == Frame(TEXT, b"close me")
        assert await peer.read_frame() == Frame(CLOSE, (4000).to_bytes(2, "big") + b"As you wish")
        (link,) = port._connections
        link.heard = False
        await peer.say(text("still too late"))
        while not link.heard:
            await turn()
        await peer.say(closing(4000))
        assert await peer.read_frames() == []
    assert room.heard == [b"close me"]


@on_uvloop
async def test_a_violation_after_our_close_ends_it_at_once() -> None:
    async with running(Departures()) as port, await Peer.upgraded(port) as peer:
        await peer.say(text("close me"), frame(15))
        frames = await peer.read_frames()
        assert [received.opcode for received in frames] == [TEXT, CLOSE]


@pytest.mark.parametrize(
    "end", [closing(NORMAL), frame(15), b"", text("fail")], ids=["close", "violation", "hang-up", "bug"]
)
@on_uvloop
async def test_a_guest_leaves_once_however_it_ends(end: bytes) -> None:
    room = Departures()
    async with running(room) as port:
        async with await Peer.upgraded(port) as peer:
            await peer.say(text("hello"))
            assert await peer.read_frame() == Frame(TEXT, b"hello")
            await peer.say(end) if end else peer.stop_talking()
            await peer.read_frames()
        await until_empty(port)
    assert len(room.left) == 1


@on_uvloop
async def test_a_bug_of_ours_costs_one_connection_only() -> None:
    log = Journal()
    async with running(Departures(), log) as port, await Peer.upgraded(port) as other:
        async with await Peer.upgraded(port) as peer:
            await peer.say(text("fine") + text("fail") + text("never"))
            fine, ended = await peer.read_frames()
            assert fine == Frame(TEXT, b"fine")
            assert ended.close_code == INTERNAL_ERROR
        await other.say(text("still here"))
        assert await other.read_frame() == Frame(TEXT, b"still here")
    assert log.events == ["a message could not be handled"]


@on_uvloop
async def test_a_peer_that_stops_talking_still_hears_the_answers() -> None:
    async with running() as port, await Peer.upgraded(port) as peer:
        await peer.say(text("question") + frame(PING, b"?"))
        peer.stop_talking()
        assert await peer.read_frames() == [Frame(TEXT, b"question"), Frame(PONG, b"?")]


@on_uvloop
async def test_the_first_frame_may_come_with_the_handshake() -> None:
    async with running() as port, await Peer.connect(port) as peer:
        await peer.say(head() + text("eager") + closing(NORMAL))
        assert (await peer.read_head()).startswith("HTTP/1.1 101 ")
        assert await peer.read_frames() == [Frame(TEXT, b"eager"), Frame(CLOSE, b"\x03\xe8")]


# -- who is not there any more ---------------------------------------------------------------------


@on_uvloop
async def test_a_peer_that_answers_no_pings_is_dropped_without_a_close_frame() -> None:
    room, log = Departures(), Journal()
    async with (
        running(room, log, ping_interval=0.01, ping_timeout=0.01) as port,
        await Peer.upgraded(port) as silent,
    ):
        received = await silent.read_frames()
        assert set(received) == {Frame(PING, b"")}
        assert len(received) >= 3  # two unanswered, and the grace after the third
        await until_empty(port)
    assert log.entries == [("heartbeat_timeout", {"ip": "127.0.0.1"})]
    assert len(room.left) == 1


@pytest.mark.parametrize("sign", [frame(PONG), text("busy"), b"\x81"], ids=["pong", "message", "one byte"])
@on_uvloop
async def test_any_sign_of_life_counts(sign: bytes) -> None:
    async with running() as port, await Peer.upgraded(port) as peer:
        (link,) = port._connections
        link.heard = False  # it was pinged
        await peer.say(sign)
        while not link.heard:
            await turn()


# -- another implementation ------------------------------------------------------------------------


@on_uvloop
async def test_the_websockets_client_gets_its_messages_back() -> None:
    said: list[Data] = ["", "hello", "κόσμε 😀", b"", b"\x00\xff", "x" * 70_000]
    async with running() as port, connect(url(port), compression="deflate") as client:
        for message in said:
            await client.send(message)
        assert [await client.recv() for _ in said] == said
        await client.send(["frag", "men", "", "ted"])
        assert await client.recv() == "fragmented"
        await client.send([b"in", b"", b"pieces"])
        assert await client.recv() == b"inpieces"
        async with asyncio.timeout(PATIENCE):
            await (await client.ping(b"there?"))


@on_uvloop
async def test_the_websockets_client_finds_our_close_clean() -> None:
    async with running(Departures()) as port, connect(url(port)) as client:
        await client.send("close me")
        assert await client.recv() == "close me"
        with pytest.raises(ConnectionClosedError) as closed:
            await client.recv()
        assert closed.value.rcvd is not None
        assert closed.value.sent is not None
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (4000, "As you wish")


@on_uvloop
async def test_the_websockets_client_closes_clean() -> None:
    async with running() as port:
        async with connect(url(port)) as client:
            await client.close(1001, "going")
            with pytest.raises(ConnectionClosedOK) as closed:
                await client.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1001
        await until_empty(port)


@pytest.mark.parametrize(
    ("sent", "code"), [(b"\x8f\x80", PROTOCOL_ERROR), (b"\x81\x81abcd\x9e", INVALID_TEXT)]
)
@on_uvloop
async def test_the_websockets_client_is_told_its_violation(sent: bytes, code: int) -> None:
    async with running() as port, connect(url(port)) as client:
        client.transport.write(sent + b"abcd")
        with pytest.raises(ConnectionClosedError) as closed:
            await client.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == code


# -- as a program ----------------------------------------------------------------------------------


@on_uvloop
async def test_the_echo_runs_as_a_program_until_it_is_told_to_stop() -> None:
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.echo", "0", stdout=asyncio.subprocess.PIPE
    )
    assert program.stdout is not None
    async with asyncio.timeout(PATIENCE):
        ready = (await program.stdout.readline()).decode()
        async with connect(ready.split()[-1]) as client:
            await client.send("anybody there?")
            assert await client.recv() == "anybody there?"
            program.send_signal(signal.SIGTERM)
            with pytest.raises(ConnectionClosedOK) as closed:
                await client.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1001
        assert await program.wait() == 0


# -- rooms by path ---------------------------------------------------------------------------------


@on_uvloop
async def test_a_path_can_have_a_room_of_its_own() -> None:
    hall, side = Departures(), Departures()
    async with running(hall) as port:
        port.rooms = {"/side": Served(side, frozenset({"side.v1"}), 10)}
        offered = [Subprotocol("other"), Subprotocol("side.v1")]
        async with connect(f"{url(port)}/side?x=1", subprotocols=offered, proxy=None) as socket:
            assert socket.subprotocol == "side.v1"
            await socket.send("here")
            assert await socket.recv() == "here"
            await socket.send("longer than ten bytes")
            with pytest.raises(ConnectionClosedError) as closed:
                await socket.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == TOO_BIG
        async with connect(f"{url(port)}/any/other", proxy=None) as socket:
            assert socket.subprotocol is None
            await socket.send("in the hall")
            assert await socket.recv() == "in the hall"
    assert (side.heard, hall.heard) == ([b"here"], [b"in the hall"])
    assert (len(side.left), len(hall.left)) == (1, 1)


@on_uvloop
async def test_a_room_that_is_turned_off_is_refused_clearly() -> None:
    async with running() as port:
        port.rooms = {"/side": None}
        with pytest.raises(InvalidStatus) as refused:
            async with connect(f"{url(port)}/side", proxy=None):
                pass
        assert refused.value.response.status_code == 404
        assert b"/side" in (refused.value.response.body or b"")
