"""What a real hall survives: nonsense, half-open sockets, crowds, readers that stop, lines that break."""

import asyncio
import json
import os
import random
import resource
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any, Final

import pytest
from websockets.exceptions import ConnectionClosed

from tests.identity.vectors import ALICE
from tests.support.agentchat import AgentChat, Closed
from tests.support.faults import FaultProxy
from tests.support.server import ADMIN_KEY, HallProcess, running_hall

# What a hall that answers in a millisecond may take on a machine that is busy with something else. A hall that
# waited for the peer in trouble would take for ever.
UNNOTICED: Final = 2.0

UPGRADE: Final = (
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAECAwQFBgcICQoLDA0ODw==\r\n\r\n"
)

_rooms = count(1)


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    with running_hall(tmp_path_factory.mktemp("hall"), "--no-limits") as running:
        yield running
        assert running.stop() == 0
        assert [line for line in running.log if "exception" in line] == []


@pytest.fixture
def room() -> str:
    return f"#room-{next(_rooms)}"


async def join_room(room: str, *agents: AgentChat) -> None:
    first, *others = agents
    await first.create_channel(room)
    for agent in others:
        await agent.join(room)


async def exchange(room: str, speaker: AgentChat, listener: AgentChat, words: str) -> float:
    """Seconds until what was said is heard."""
    start = monotonic()
    await speaker.say(room, words)
    message = await listener.expect("MSG", to=room)
    assert message["content"] == words
    return monotonic() - start


# -- wrong frames (seed 000, message flow) -------------------------------------------------------------


@pytest.mark.parametrize(
    "frame",
    [
        "null",
        "[]",
        "7",
        '"PING"',
        "{}",
        '{"type": "NOPE"}',
        '{"type": null}',
        '{"type": "JOIN"}',
        '{"type": "JOIN", "channel": 7}',
        '{"type": "MSG", "to": {"a": 1}, "content": "x"}',
        '{"type": "FILE_CHUNK", "to": 7, "content": "x"}',
        '{"type": "INVITE", "channel": "#general", "agent": true}',
        '{"type": "VERIFY_REQUEST", "target": 1, "nonce": "0123456789abcdef"}',
        '{"type": "REGISTER_SKILLS", "skills": [null], "sig": "x"}',
        '{"type": "PING", "deep": ' + "[" * 10_000 + "]" * 10_000 + "}",
    ],
    ids=lambda frame: frame[:60],
)
async def test_a_frame_that_is_wrong_is_answered_and_harms_nobody(hall: HallProcess, frame: str) -> None:
    """The first of these, and some of the others, end the reference server (agentchat wire 5.0)."""
    async with await AgentChat.connect(hall.url) as agent:
        await agent.send_text(frame)
        assert (await agent.refusal())["code"] == "INVALID_MSG"
        await agent.settle()


async def test_text_that_is_not_json_is_ignored(hall: HallProcess) -> None:
    async with await AgentChat.connect(hall.url) as agent:
        await agent.send_text('{"type": "MSG", ')
        await agent.settle()
        assert agent.types() == ["WELCOME", "PONG"]


async def test_a_binary_frame_is_read_as_text(hall: HallProcess) -> None:
    async with await AgentChat.open(hall.url) as agent:
        await agent.send_text(b'{"type": "PING"}')
        await agent.expect("PONG")


async def test_a_frame_over_256_kilobytes_closes_the_connection(hall: HallProcess) -> None:
    async with await AgentChat.connect(hall.url) as agent:
        with suppress(ConnectionClosed):
            await agent.send(type="PING", padding="x" * (256 * 1024))
        code, _ = await agent.closed()
        assert code == 1009


async def test_content_has_4096_characters_at_most(hall: HallProcess, room: str) -> None:
    async with await AgentChat.connect(hall.url) as agent, await AgentChat.connect(hall.url) as other:
        await join_room(room, agent, other)
        await exchange(room, agent, other, "é" * 4096)
        await agent.say(room, "x" * 4097)
        error = await agent.refusal()
        assert error["code"] == "INVALID_MSG"
        assert "content" in error["message"]


# -- fuzzed frames -------------------------------------------------------------------------------------

FUZZERS: Final = 6
FRAMES_EACH: Final = 1500

VALID: Final[tuple[dict[str, Any], ...]] = (
    {"type": "IDENTIFY", "name": "fuzz", "pubkey": None},
    {"type": "IDENTIFY", "name": "fuzz", "pubkey": ALICE.public.pem},
    {"type": "VERIFY_IDENTITY", "challenge_id": "chal_1_00000000", "signature": "c2ln", "timestamp": 1},
    {"type": "PING", "ref": "r"},
    {"type": "SET_NICK", "nick": "fuzz"},
    {"type": "SET_PRESENCE", "status": "away", "status_text": "x"},
    {"type": "JOIN", "channel": "#general"},
    {"type": "LEAVE", "channel": "#general"},
    {"type": "LIST_CHANNELS"},
    {"type": "LIST_AGENTS", "channel": "#general"},
    {"type": "CREATE_CHANNEL", "channel": "#fuzz", "invite_only": True},
    {"type": "INVITE", "channel": "#general", "agent": "@b8de75d1"},
    {"type": "MSG", "to": "#general", "content": "hello @@cb:0.01s@@there", "sig": "x", "in_reply_to": "1-a"},
    {"type": "FILE_CHUNK", "to": "@b8de75d1", "content": "\ud83d"},
    {"type": "TYPING", "channel": "#general"},
    {"type": "RESPONDING_TO", "msg_id": "1-a", "channel": "#general", "started_at": 1},
    {"type": "VERIFY_REQUEST", "target": "@b8de75d1", "nonce": "0123456789abcdef"},
    {"type": "VERIFY_RESPONSE", "request_id": "verify_1_00000000", "nonce": "x", "sig": "x"},
    {"type": "PROPOSAL", "to": "@b8de75d1", "task": "work", "amount": 1.5, "elo_stake": 3, "sig": "x"},
    {"type": "SEARCH_SKILLS", "query": {"capability": "x"}, "query_id": "q"},
    {"type": "EVIDENCE", "dispute_id": "disp_1", "items": [{"kind": "x"}], "statement": "", "sig": "x"},
    {"type": "ADMIN_BAN", "agent_id": "@b8de75d1", "admin_key": "guess"},
    {"type": "ADMIN_MOTD", "admin_key": "guess", "motd": None, "kick": True},
)
ODD_VALUES: Final[list[Any]] = [
    *(None, True, 0, -1, 2**63, 10**400, 1e308, -0.5, [], {}, [[[[]]]], {"type": "PING"}),
    *("", " ", "#", "@", "#general\n", "\x00", "é\u2028\U0001f600", "\udc00", "x" * 5000),
]
BROKEN_STREAMS: Final = (
    b"",
    b"\x81\xfe",  # a header, cut off
    b"\x81\x85\0\0\0\0he",  # a payload, cut off
    b"\x81\x05hello",  # not masked
    b"\xf1\x80\0\0\0\0",  # reserved bits
    b"\x83\x80\0\0\0\0",  # unknown opcode
    b"\x09\x80\0\0\0\0",  # a ping in pieces
    b"\x80\x80\0\0\0\0",  # a continuation of nothing
    b"\x81\xff" + b"\xff" * 8 + b"\0\0\0\0",  # longer than anything
    b"\x81\x82\0\0\0\0\xff\xff",  # not UTF-8
    b"\x88\x81\0\0\0\0\x03",  # half a close code
    b"\x88\x82\0\0\0\0\x03\xed",  # a close code that is never sent
    b"GET /health HTTP/1.1\r\n\r\n",
)


def fuzzed(dice: random.Random) -> str | bytes:
    """A message with something wrong, or nothing right at all."""
    if dice.random() < 0.1:
        return dice.randbytes(dice.randrange(200))
    if dice.random() < 0.1:
        return "".join(
            chr(dice.choice((32, 34, 91, 123, 0x2028, 0x1F600))) for _ in range(dice.randrange(50))
        )
    message = dict(dice.choice(VALID))
    for _ in range(dice.randrange(3)):
        field = dice.choice([*message, "extra"])
        if dice.random() < 0.3:
            message.pop(field, None)
        else:
            message[field] = dice.choice(ODD_VALUES)
    text = json.dumps(message)
    if dice.random() < 0.2:
        place = dice.randrange(len(text))
        text = text[:place] + dice.choice(("", "}", "\\", "\\ud800", '"', "\x00")) + text[place + 1 :]
    return text.encode() if dice.random() < 0.2 else text


async def fuzz(hall: HallProcess, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311  # the same nonsense every time
    agent = await AgentChat.open(hall.url)
    for number in range(FRAMES_EACH):
        try:
            await agent.send_text(fuzzed(dice))
            if number % 10 == 0:
                await agent.settle()
        except (Closed, ConnectionClosed):
            await agent.close()
            agent = await AgentChat.open(hall.url)
    await agent.close()


async def break_streams(hall: HallProcess) -> None:
    for stream in BROKEN_STREAMS:
        _, writer = await open_raw(hall.port)
        writer.write(stream)
        writer.write_eof()
        writer.close()
        await writer.wait_closed()


async def open_raw(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A WebSocket without a library that would keep us from doing wrong."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(UPGRADE)
    async with asyncio.timeout(10):
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
    return reader, writer


@pytest.mark.slow
async def test_nonsense_from_many_does_not_disturb_two_who_talk(hall: HallProcess, room: str) -> None:
    async with (
        await AgentChat.connect(hall.url, "alice") as alice,
        await AgentChat.connect(hall.url, "bob") as bob,
    ):
        await join_room(room, alice, bob)
        noise = asyncio.gather(*(fuzz(hall, seed) for seed in range(FUZZERS)), break_streams(hall))
        delays: list[float] = []
        while not noise.done():
            delays.append(await exchange(room, alice, bob, f"line {len(delays)}"))
        await noise
        assert len(delays) > 30
        assert max(delays) < UNNOTICED
    _, _, metrics = await hall.get("/metrics")
    refused = [
        line
        for line in metrics.splitlines()
        if line.startswith('moothall_refusals_total{code="INVALID_MSG"}')
    ]
    assert float(refused[0].split()[1]) > 500  # the nonsense was looked at


# -- half-open sockets ---------------------------------------------------------------------------------


@pytest.mark.slow
async def test_sockets_that_never_finish_their_request_disturb_nobody_and_are_dropped(
    hall: HallProcess, room: str
) -> None:
    beginnings = [b"", b"GET / HTTP/1.1\r\nHost: hall\r\nUpgr"]
    files = open_files(hall)
    streams = [await asyncio.open_connection("127.0.0.1", hall.port) for _ in range(400)]
    for index, (_, writer) in enumerate(streams):
        writer.write(beginnings[index % 2])
    async with await AgentChat.connect(hall.url) as alice, await AgentChat.connect(hall.url) as bob:
        await join_room(room, alice, bob)
        assert await exchange(room, alice, bob, "still here") < UNNOTICED
        async with asyncio.timeout(20):
            await asyncio.gather(*(dropped(reader) for reader, _ in streams))
        assert await exchange(room, alice, bob, "and now") < UNNOTICED
    for _, writer in streams:
        writer.close()
    assert open_files(hall) <= files + 10


async def dropped(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionResetError):
        assert await reader.read() == b""


def open_files(hall: HallProcess) -> int:
    folder = Path(f"/proc/{hall.process.pid}/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0


# -- crowds --------------------------------------------------------------------------------------------

CROWD: Final = 5000
ROOMS: Final = 50


class Visitor(asyncio.Protocol):
    """One of thousands: no more of a client than it takes to identify, join and listen."""

    def __init__(self) -> None:
        self._heard = bytearray()
        self._words = b""
        self._arrival = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._heard += data
        if self._words in self._heard and not self._arrival.done():
            self._arrival.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._arrival.done():
            self._arrival.set_exception(ConnectionError(f"the hall hung up: {bytes(self._heard[-200:])!r}"))

    async def hears(self, words: bytes) -> None:
        """Wait for it; what was heard before is forgotten then."""
        self._words = words
        if words not in self._heard:
            self._arrival = asyncio.get_running_loop().create_future()
            await self._arrival
        self._heard.clear()

    def send(self, **message: Any) -> None:
        payload = json.dumps(message).encode()
        assert len(payload) < 126
        self.transport.write(bytes((0x81, 0x80 | len(payload), 0, 0, 0, 0)) + payload)


async def visit(port: int, number: int) -> Visitor:
    loop = asyncio.get_running_loop()
    _, visitor = await loop.create_connection(Visitor, "127.0.0.1", port)
    visitor.transport.write(UPGRADE)
    await visitor.hears(b"\r\n\r\n")
    visitor.send(type="IDENTIFY", name=f"visitor-{number}")
    await visitor.hears(b'"type":"WELCOME"')
    visitor.send(type="JOIN", channel=f"#crowd-{number % ROOMS}")
    await visitor.hears(b'"type":"JOINED"')
    return visitor


@pytest.fixture
def many_files() -> Iterator[None]:
    """A limit on open files, ours and the hall's, that has room for the crowd."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = CROWD + 500
    if hard != resource.RLIM_INFINITY and hard < needed:
        pytest.skip(f"at most {hard} open files here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
@pytest.mark.usefixtures("many_files")
async def test_five_thousand_agents_at_once_all_hear_what_is_said(tmp_path: Path) -> None:
    environment = {"MOOTHALL_ADMIN_KEY": ADMIN_KEY}
    with running_hall(tmp_path, "--no-limits", environment=environment) as hall:
        async with await AgentChat.connect(hall.url, "crier") as crier, asyncio.timeout(60):
            for number in range(ROOMS):
                await crier.create_channel(f"#crowd-{number}")
            crowd: list[Visitor] = []
            for start in range(0, CROWD, 500):
                crowd += await asyncio.gather(*(visit(hall.port, start + n) for n in range(500)))
            health = json.loads((await hall.get("/health"))[2])
            assert health["agents"]["connected"] == CROWD + 1
            for number in range(ROOMS):
                await crier.say(f"#crowd-{number}", "hear ye")
            await asyncio.gather(*(visitor.hears(b'"content":"hear ye"') for visitor in crowd))
            await crier.send(type="ADMIN_MOTD", motd="all of you", admin_key=ADMIN_KEY)
            await asyncio.gather(*(visitor.hears(b'"motd":"all of you"') for visitor in crowd))
            crier.forget()
            for visitor in crowd:
                visitor.transport.abort()
            for _ in range(CROWD):  # everybody's leaving is told in the room they were in
                await crier.expect("AGENT_LEFT")
            assert [agent["id"] for agent in await crier.list_agents("#crowd-7")] == [crier.agent_id]
        assert hall.stop() == 0


# -- readers that stop ---------------------------------------------------------------------------------

READER: Final = """
import json, socket, sys
from websockets.sync.client import connect
line = socket.socket()
line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
line.connect(("127.0.0.1", int(sys.argv[1])))
with connect(f"ws://127.0.0.1:{sys.argv[1]}", sock=line, compression=None, ping_interval=None) as hall:
    hall.send(json.dumps({"type": "IDENTIFY", "name": "sleeper"}))
    hall.send(json.dumps({"type": "JOIN", "channel": sys.argv[2]}))
    for text in hall:
        if json.loads(text)["type"] == "JOINED":
            print("reading", flush=True)
"""


@pytest.mark.slow
async def test_a_process_that_is_stopped_delays_nobody_and_is_dropped(tmp_path: Path, room: str) -> None:
    limit = 200_000
    sizes = ("--set", f"outbox_limit={limit}", "--set", "max_frame=65536")
    with running_hall(tmp_path, "--no-limits", *sizes) as hall:
        async with await AgentChat.connect(hall.url) as alice, await AgentChat.connect(hall.url) as bob:
            await join_room(room, alice, bob)
            arguments = (sys.executable, "-c", READER, str(hall.port), room)
            sleeper = await asyncio.create_subprocess_exec(*arguments, stdin=DEVNULL, stdout=PIPE)
            try:
                assert sleeper.stdout is not None
                async with asyncio.timeout(20):
                    assert await sleeper.stdout.readline() == b"reading\n"
                os.kill(sleeper.pid, signal.SIGSTOP)
                address = (await alice.expect("AGENT_JOINED", name="sleeper"))["agent"]
                delays: list[float] = []
                while not alice.pending("AGENT_LEFT"):
                    delays.append(await exchange(room, alice, bob, f"{len(delays):>4000}"))
                    assert len(delays) < 10_000
            finally:
                sleeper.kill()
                await sleeper.wait()
            assert max(delays) < UNNOTICED
            assert [notice["agent"] for notice in bob.pending("AGENT_LEFT")] == [address]
            assert len(await alice.list_agents(room)) == 2
        overflow = await hall.logged("outbox_overflow")
        assert overflow["ip"] == "127.0.0.1"
        _, _, metrics = await hall.get("/metrics")
        values = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if not line.startswith("#"))
        assert float(values["moothall_outbox_overflows_total"]) == 1
        assert limit * 0.9 < float(values["moothall_outbox_peak_bytes"]) < limit * 1.5
        assert hall.stop() == 0


# -- lines that break ----------------------------------------------------------------------------------


async def test_a_line_that_is_cut_inside_a_frame_leaves_nothing_behind(hall: HallProcess, room: str) -> None:
    async with await AgentChat.connect(hall.url, "bob") as bob, FaultProxy(hall.port) as proxy:
        await bob.create_channel(room)
        async with await AgentChat.connect(proxy.url, "alice", ALICE) as alice:
            await alice.join(room)
            proxy.cut_after(1000)
            await alice.say(room, "x" * 4000)
            assert (await bob.expect("AGENT_LEFT"))["agent"] == alice.agent_id
        assert bob.pending("MSG") == []
        assert [agent["id"] for agent in await bob.list_agents(room)] == [bob.agent_id]
    async with await AgentChat.connect(hall.url, "alice", ALICE) as alice:
        assert "SESSION_DISPLACED" not in alice.types()


async def test_a_line_that_is_reset_leaves_nothing_behind(hall: HallProcess, room: str) -> None:
    async with await AgentChat.connect(hall.url, "bob") as bob, FaultProxy(hall.port) as proxy:
        await bob.create_channel(room)
        async with await AgentChat.connect(proxy.url, "alice") as alice:
            await alice.join(room)
            proxy.drop()
            assert (await bob.expect("AGENT_LEFT"))["agent"] == alice.agent_id
        assert len(await bob.list_agents(room)) == 1


async def test_a_line_that_delivers_byte_by_byte_is_only_slow(hall: HallProcess, room: str) -> None:
    async with FaultProxy(hall.port) as proxy, await AgentChat.connect(hall.url, "bob") as bob:
        proxy.piece = 1
        async with await AgentChat.connect(proxy.url, "alice", ALICE) as alice:
            await join_room(room, alice, bob)
            await exchange(room, alice, bob, "ü" * 300)
            await exchange(room, bob, alice, "ü" * 300)


async def test_a_long_line_is_only_late(hall: HallProcess, room: str) -> None:
    async with FaultProxy(hall.port) as proxy, await AgentChat.connect(hall.url, "bob") as bob:
        proxy.delay = 0.02
        async with await AgentChat.connect(proxy.url, "alice", ALICE) as alice:
            await join_room(room, alice, bob)
            assert await exchange(room, alice, bob, "from afar") >= proxy.delay


@pytest.mark.slow
async def test_a_line_that_went_silent_is_found_by_ping(tmp_path: Path, room: str) -> None:
    flags = ("--set", "ping_interval=0.2", "--set", "ping_timeout=0.1")
    with running_hall(tmp_path, "--no-limits", *flags) as hall:
        async with (
            await AgentChat.connect(hall.url, "bob") as bob,
            await AgentChat.connect(hall.url, "carol") as carol,
            FaultProxy(hall.port) as proxy,
        ):
            alice = await AgentChat.connect(proxy.url, "alice")
            await join_room(room, bob, carol, alice)
            proxy.stall()
            while not bob.pending("AGENT_LEFT"):
                assert await exchange(room, bob, carol, "not waiting for alice") < UNNOTICED
            assert [notice["agent"] for notice in bob.pending("AGENT_LEFT")] == [alice.agent_id]
            assert (await hall.logged("heartbeat_timeout"))["ip"] == "127.0.0.1"
            alice.cut()
            await alice.closed()
