"""The keep port under load and under attack: nothing is lost, nothing is unbounded, nobody waits for others."""

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from moothall.app import App
from moothall.gateways.batches import BESIDE_OTHERS, FULL_SPEED
from moothall.gateways.keep_connection import MAX_DISCARDED, KeepConnection
from moothall.gateways.keep_port import READ_AT_ONCE, KeepPort
from moothall.gateways.transport import TRANSPORT_HIGH_WATER, Transport
from moothall.hall.budgets import CONNECTION_FRAMES
from moothall.hall.hall import LOG_LINES
from moothall.hall.keep.routing import ARRIVAL_FRAMES, FREED_AT_ONCE
from moothall.settings import Settings
from moothall.settings.limits import Rate
from moothall.wire.keep.codec import decode, encode
from moothall.wire.keep.frames import HEADER, frame
from moothall.wire.keep.packet import Packet
from tests.support.keep import ALICE, BOB, CAROL, VECTORS, Signer
from tests.support.world import LogBook

PATIENCE = 20.0
BIG = "x" * 60_000

OpenHall = Callable[..., AbstractAsyncContextManager[App]]


@pytest.fixture
def open_hall(tmp_path: Path) -> OpenHall:
    @asynccontextmanager
    async def open_one(**settings: Any) -> AsyncIterator[App]:
        chosen: dict[str, Any] = {"port": 0, "keep_port": 0, "data_dir": tmp_path / "hall", **settings}
        async with App(Settings(**chosen), LogBook()) as app:
            yield app

    return open_one


@pytest.fixture
async def app(open_hall: OpenHall) -> AsyncIterator[App]:
    async with open_hall() as app:
        yield app


async def until(condition: Callable[[], bool]) -> None:
    """Nothing on the far side of a socket can tell us when; each turn of the loop is a chance."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)


def keep(app: App) -> KeepPort:
    assert app.keep is not None
    return app.keep


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, signer: Signer, src: str):
        self._reader = reader
        self._writer = writer
        self._signer = signer
        self.src = src

    @classmethod
    async def connect(
        cls, app: App, src: str, signer: Signer = ALICE, *, read_ahead: int = 65536
    ) -> "Client":
        """One that has registered."""
        host, port = keep(app).address
        client = cls(*await asyncio.open_connection(host, port, limit=read_ahead), signer, src)
        try:
            assert (await client.ask()).body == "done"
        except (asyncio.IncompleteReadError, ConnectionError):
            client.close()
            raise
        return client

    def packet(self, dst: str = "server", body: str = "", **fields: Any) -> bytes:
        return frame(encode(self._signer.packet(src=self.src, dst=dst, body=body, **fields)))

    async def send(self, dst: str = "server", body: str = "", **fields: Any) -> None:
        await self.send_bytes(self.packet(dst, body, **fields))

    async def send_bytes(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def receive(self) -> Packet:
        async with asyncio.timeout(PATIENCE):
            size = int.from_bytes(await self._reader.readexactly(HEADER), "big")
            return decode(await self._reader.readexactly(size))

    async def ask(self, dst: str = "server", body: str = "", **fields: Any) -> Packet:
        await self.send(dst, body, **fields)
        return await self.receive()

    async def assert_closed(self) -> None:
        async with asyncio.timeout(PATIENCE):
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await self.receive()

    def end(self) -> None:
        """Say no more, and listen."""
        self._writer.write_eof()

    def close(self) -> None:
        self._writer.close()


# -- many to one ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_thread", [True, False])
async def test_sixteen_senders_to_one_receiver_lose_and_corrupt_nothing(app: App, with_thread: bool) -> None:
    if not with_thread:
        keep(app).batches._helper = None
    receiver = await Client.connect(app, "bot:receiver", BOB)
    senders = [await Client.connect(app, f"bot:{number}") for number in range(16)]

    async def send_all(sender: Client) -> None:
        packets = (
            sender.packet("bot:receiver", "y" * (number % 700), id=str(number)) for number in range(100)
        )
        await sender.send_bytes(b"".join(packets))

    heard: dict[str, list[int]] = {sender.src: [] for sender in senders}
    async with asyncio.TaskGroup() as group:
        for sender in senders:
            group.create_task(send_all(sender))
        for _ in range(1600):
            packet = await receiver.receive()
            assert packet.body == "y" * (int(packet.id) % 700)
            heard[packet.src].append(int(packet.id))
    assert all(numbers == list(range(100)) for numbers in heard.values())
    for client in (receiver, *senders):
        client.close()


async def test_a_flood_of_bad_signatures_delays_nobodys_packets_for_ever(app: App) -> None:
    attacker, alice = await Client.connect(app, "bot:attacker", BOB), await Client.connect(app, "bot:alice")
    bad = encode(BOB.packet(src="bot:attacker", body="x"))
    await attacker.send_bytes(frame(bad[:2] + bytes(64) + bad[66:]) * 2000)
    assert (await alice.ask()).body == "done"
    assert (await attacker.ask()).body == "done"
    assert keep(app).room.dropped == {"bad_signature": 2000}
    attacker.close()
    alice.close()


# -- who does not read ---------------------------------------------------------------------------------


async def flood(sender: Client, dst: str, number: int) -> list[int]:
    """Send so many large packets; the numbers of those that were not delivered."""
    failed: list[int] = []

    async def listen() -> None:
        while True:
            answer = await sender.receive()
            if answer.id == "last":
                return
            assert answer.body == "error:delivery_failed"
            failed.append(int(answer.id))

    async with asyncio.TaskGroup() as group:
        group.create_task(listen())
        for serial in range(number):
            await sender.send(dst, BIG, id=str(serial))
        await sender.send("server", id="last")
    return failed


async def test_who_stops_reading_is_closed_and_its_senders_told_and_nobody_else_loses_a_packet(
    open_hall: OpenHall,
) -> None:
    async with open_hall(keep_outbox=256 * 1024, keep_write_timeout=PATIENCE) as app:
        stuck = await Client.connect(app, "bot:stuck", BOB, read_ahead=1024)
        flooder = await Client.connect(app, "bot:flooder")
        alice, carol = await Client.connect(app, "bot:alice"), await Client.connect(app, "bot:carol", CAROL)
        at_once = await flood(flooder, "bot:stuck", 300)
        assert at_once
        for number in range(50):
            await alice.send("bot:carol", str(number))
        assert [(await carol.receive()).body for _ in range(50)] == [str(number) for number in range(50)]
        keep(app)._deadlines = dict.fromkeys(keep(app)._deadlines, 0.0)  # its time is up
        await until(lambda: keep(app).overflows == 1)
        # What waited until the end was taken before what was refused at once.
        await flooder.send("server", id="last")
        late = [answer async for answer in answers_until(flooder, "last")]
        assert {answer.body for answer in late} == {"error:delivery_failed"}
        assert max(int(answer.id) for answer in late) < max(at_once)
        assert "bot:stuck" not in (await alice.ask("discover:agents")).body
        for client in (stuck, flooder, alice, carol):
            client.close()


async def answers_until(client: Client, last: str) -> AsyncIterator[Packet]:
    while (answer := await client.receive()).id != last:
        yield answer


async def test_a_slow_reader_gets_or_its_sender_is_told_of_each_packet_in_order(open_hall: OpenHall) -> None:
    async with open_hall(keep_outbox=64 * 1024, keep_write_timeout=PATIENCE) as app:
        slow = await Client.connect(app, "bot:slow", BOB, read_ahead=1024)
        fast = await Client.connect(app, "bot:fast")
        failed = await flood(fast, "bot:slow", 300)
        assert failed == sorted(failed)
        arrived = [int((await slow.receive()).id) for _ in range(300 - len(failed))]
        assert arrived == sorted(arrived)
        assert sorted(failed + arrived) == list(range(300))
        port = keep(app)
        assert port.waiting_bytes == 0
        assert port.overflows == 0
        # There is room again, and nothing is held against either of them.
        await fast.send("bot:slow", "and now?")
        assert (await slow.receive()).body == "and now?"
        slow.close()
        fast.close()


async def test_what_one_destination_leaves_unread_holds_up_nothing_else_of_its_sender(
    open_hall: OpenHall,
) -> None:
    async with open_hall(keep_outbox=64 * 1024, keep_write_timeout=PATIENCE) as app:
        stuck = await Client.connect(app, "bot:stuck", BOB, read_ahead=1024)
        bot, carol = await Client.connect(app, "bot:bot"), await Client.connect(app, "bot:carol", CAROL)
        assert await flood(bot, "bot:stuck", 300)
        for number in range(50):
            await bot.send("bot:stuck", BIG, id=str(number))
            await bot.send("bot:carol", str(number))
            assert (await carol.receive()).body == str(number)
            assert (await bot.receive()).body == "error:delivery_failed"
        assert "bot:stuck" in keep(app).room.registry
        for client in (stuck, bot, carol):
            client.close()


async def test_a_client_that_never_reads_its_own_answers_is_not_read_from(open_hall: OpenHall) -> None:
    async with open_hall(keep_outbox=32 * 1024, keep_write_timeout=0.5) as app:
        greedy = await Client.connect(app, "bot:" + "x" * 20_000, read_ahead=1024)
        questions = greedy.packet("discover:agents") * 400
        asking = asyncio.create_task(greedy.send_bytes(questions))
        port = keep(app)
        await until(lambda: port.overflows == 1)
        await until(lambda: port.connections == 0)
        assert port.room.packets < 400
        asking.cancel()
        greedy.close()


# -- limits --------------------------------------------------------------------------------------------


async def test_a_client_over_its_rate_waits_and_loses_nothing(open_hall: OpenHall) -> None:
    async with open_hall(keep_rate=Rate(10, 0.05)) as app:
        alice = await Client.connect(app, "bot:alice")
        await alice.send_bytes(b"".join(alice.packet(id=str(number)) for number in range(35)))
        assert [(await alice.receive()).id for _ in range(35)] == [str(number) for number in range(35)]
        assert keep(app).lines.throttled >= 3
        alice.close()


UNSIGNED = frame(encode(Packet(src="bot:junk", dst="server")))
FORGED = frame(encode(Packet(src="bot:junk", dst="server", pk=ALICE.pk, sig=bytes(64))))


@pytest.mark.parametrize(
    ("junk", "reason"), [(UNSIGNED, "unsigned"), (FORGED, "bad_signature")], ids=["unsigned", "forged"]
)
async def test_junk_is_charged_to_its_address_with_all_else(
    open_hall: OpenHall, junk: bytes, reason: str
) -> None:
    async with open_hall(loopback_factor=1, address_frames=Rate(100, 1000)) as app:
        attacker = await Client.connect(app, "bot:attacker")
        await attacker.send_bytes(junk * 500)
        await until(lambda: keep(app).lines.throttled == 1)
        assert keep(app).room.dropped.keys() == {reason}
        assert 0 < keep(app).room.dropped[reason] <= 100
        assert not app.hall.admit("127.0.0.1", CONNECTION_FRAMES, is_loopback=True)
        attacker.close()


async def test_connections_that_come_and_go_wait_until_their_address_has_paid(open_hall: OpenHall) -> None:
    async with open_hall(loopback_factor=1, address_frames=Rate(50, 1000)) as app:
        malformed = frame(b"\xff\xff\xff\xff")
        connections = [plugged(app) for _ in range(100)]
        for connection, _ in connections:
            connection.data_received(malformed)
        await until(lambda: keep(app).lines.throttled >= 100)
        assert sum(transport.reading for _, transport in connections) <= 50 / CONNECTION_FRAMES + 1
        assert not any(connection.closing for connection, _ in connections)
        assert keep(app).room.dropped == {}
        for connection, _ in connections:
            connection.connection_lost(None)


async def test_new_connections_of_an_address_in_debt_are_let_in_after_a_while(open_hall: OpenHall) -> None:
    async with open_hall(loopback_factor=1, address_frames=Rate(20, 0.05)) as app:
        flooder = await Client.connect(app, "bot:flooder", BOB)
        flood = asyncio.create_task(flooder.send_bytes(flooder.packet("bot:flooder") * 5000))
        await until(lambda: keep(app).lines.throttled > 3)
        alice = await Client.connect(app, "bot:alice")
        assert keep(app).room.packets < 5000
        flood.cancel()
        flooder.close()
        alice.close()


async def test_an_arrival_costs_its_address_more_than_a_packet(open_hall: OpenHall) -> None:
    async with open_hall(loopback_factor=1, address_frames=Rate(100, 1000)) as app:
        (many, _) = plugged(app)
        many.data_received(b"".join(frame(encode(ALICE.packet(src=f"bot:{n}"))) for n in range(100)))
        await until(lambda: keep(app).lines.throttled == 1)
        # A batch is paid for before its arrivals are known.
        most = 100 / ARRIVAL_FRAMES + 2 * BESIDE_OTHERS.messages
        assert 0 < len(keep(app).room.registry) <= most < 100
        many.connection_lost(None)


async def test_little_is_read_from_a_connection_that_cannot_pay(open_hall: OpenHall) -> None:
    async with open_hall(loopback_factor=1, address_frames=Rate(30, 1000)) as app:
        flooder = await Client.connect(app, "bot:flooder")
        flood = asyncio.create_task(flooder.send_bytes(flooder.packet() * 50_000))
        await until(lambda: keep(app).lines.throttled == 1)
        (connection,) = keep(app)._connections
        before = list(connection.inbox._packets)
        for _ in range(100):
            await asyncio.sleep(0)
        assert list(connection.inbox._packets) == before
        assert 0 < sum(len(payload or b"") for payload, _ in before) <= READ_AT_ONCE
        flood.cancel()
        flooder.close()


@pytest.mark.parametrize("no_limits", [True, False])
async def test_what_is_sent_before_a_half_close_is_answered_in_order(
    open_hall: OpenHall, no_limits: bool
) -> None:
    async with open_hall(no_limits=no_limits) as app:
        alice = await Client.connect(app, "bot:alice")
        sizes = [number * 37 % 60_000 for number in range(0, 3000, 10)]
        packets = [alice.packet(id=str(number), body="x" * size) for number, size in enumerate(sizes)]
        await alice.send_bytes(b"".join(packets))
        alice.end()
        assert [(await alice.receive()).id for _ in sizes] == [str(number) for number, _ in enumerate(sizes)]
        await alice.assert_closed()
        alice.close()


async def test_who_goes_on_sending_after_the_end_is_cut_off(app: App) -> None:
    connection, transport = plugged(app)
    connection.data_received(bytes(HEADER))
    await until(lambda: transport.ended)
    for _ in range(4):
        assert not transport.aborted
        connection.data_received(bytes(MAX_DISCARDED // 4))
    connection.data_received(b"x")
    assert transport.aborted
    connection.connection_lost(None)


async def test_what_a_client_left_behind_is_not_kept_until_its_address_has_paid(open_hall: OpenHall) -> None:
    async with open_hall(loopback_factor=1, address_frames=Rate(50, 1000)) as app:
        packets = frame(encode(ALICE.packet(src="bot:alice"))) * 500
        for _ in range(100):
            connection, _ = plugged(app)
            connection.data_received(packets)
            connection.connection_lost(None)
        await until(lambda: keep(app).connections == 0)
        waiting, _ = plugged(app)
        waiting.data_received(packets)
        await until(lambda: waiting.held == 1)
        waiting.connection_lost(None)
        assert keep(app).connections == 0
        assert keep(app).room.packets < 100
        assert app.hall.roster.agents == {}


async def test_a_broken_frame_ends_what_comes_after_it_in_any_piece(app: App) -> None:
    connection, transport = plugged(app)
    packet = frame(encode(ALICE.packet(src="bot:alice")))
    connection.data_received(packet * 100 + bytes(HEADER) + packet * 100)
    await until(lambda: transport.ended)
    assert len(decoded(transport.written)) == 100
    connection.connection_lost(None)


async def test_what_an_address_sends_too_fast_waits_and_is_not_lost(open_hall: OpenHall) -> None:
    async with open_hall(loopback_factor=1, address_frames=Rate(50, 0.2)) as app:
        alice = await Client.connect(app, "bot:alice")
        await alice.send_bytes(b"".join(alice.packet(id=str(number)) for number in range(200)))
        assert [(await alice.receive()).id for _ in range(200)] == [str(number) for number in range(200)]
        assert keep(app).lines.throttled
        alice.close()


async def test_without_limits_nothing_is_charged(open_hall: OpenHall) -> None:
    async with open_hall(no_limits=True, loopback_factor=1, address_frames=Rate(1, 1000)) as app:
        alice = await Client.connect(app, "bot:alice")
        for number in range(20):
            assert (await alice.ask(id=str(number))).id == str(number)
        assert keep(app).lines.throttled == 0
        assert keep(app).batches._pace is FULL_SPEED
        alice.close()


async def test_there_can_be_so_many_connections(open_hall: OpenHall) -> None:
    async with open_hall(keep_max_connections=2) as app:
        first, second = await Client.connect(app, "bot:1"), await Client.connect(app, "bot:2")
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await Client.connect(app, "bot:3")
        assert app.hall.tally.security == {"keep_connection_limit": 1}
        second.close()
        await until(lambda: keep(app).connections == 1)
        third = await Client.connect(app, "bot:3")
        first.close()
        third.close()


async def test_who_has_sent_nothing_longest_makes_way_for_who_comes(open_hall: OpenHall) -> None:
    async with open_hall(keep_max_connections=3) as app:
        listener = await Client.connect(app, "bot:listener", BOB)
        host, port = keep(app).address
        idle = [await asyncio.open_connection(host, port) for _ in range(2)]
        await until(lambda: keep(app).connections == 3)
        alice = await Client.connect(app, "bot:alice")
        assert await idle[0][0].read() == b""
        await alice.send("bot:listener", "hello")
        assert (await listener.receive()).body == "hello"
        assert keep(app).connections == 3
        for _, writer in idle:
            writer.close()
        alice.close()
        listener.close()


async def test_a_bug_of_ours_ends_one_connection_and_no_other(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await Client.connect(app, "bot:alice"), await Client.connect(app, "bot:bob", BOB)
    monkeypatch.setattr(keep(app).room.scars, "note", lambda src, scar: 1 / 0)
    await alice.send(scar=b"boom")
    await alice.assert_closed()
    assert (await bob.ask()).body == "done"
    alice.close()
    bob.close()


async def test_an_ephemeral_client_leaves_nothing_behind(app: App) -> None:
    for number in range(50):
        client = await Client.connect(app, f"bot:{number}")
        client.close()
    port = keep(app)
    await until(lambda: port.connections == 0)
    assert len(port.room.registry) == 0
    assert port.registered_connections == 0
    assert app.hall.roster.agents == {}
    assert app.hall.makes_way == {}


async def test_the_hall_closes_with_a_goodbye(open_hall: OpenHall) -> None:
    async with open_hall() as app:
        alice = await Client.connect(app, "bot:alice")
    await alice.assert_closed()
    alice.close()


# -- one connection with its time and its socket made up -----------------------------------------------


class FakeTransport:
    """Its peer reads everything at once, unless `full` says whom to tell that it reads nothing."""

    full: KeepConnection | None = None

    def __init__(self) -> None:
        self.written = b""
        self.closed = self.aborted = self.ended = self.lost = False
        self.reading = True

    def set_write_buffer_limits(self, high: int) -> None:
        assert high == TRANSPORT_HIGH_WATER

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return ("127.0.0.1", 1)

    def write(self, data: bytes) -> None:
        if self.lost:
            raise RuntimeError("unable to perform operation; the handler is closed")  # as uvloop's does
        self.written += data
        if self.full is not None and len(self.written) > TRANSPORT_HIGH_WATER:
            self.full.pause_writing()

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closed or self.aborted

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class MadeUpTime:
    """The running loop, with a clock in the test's hand."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.call_soon = loop.call_soon
        self.call_later = loop.call_later
        self.call_soon_threadsafe = loop.call_soon_threadsafe
        self.now = 1000.0

    def time(self) -> float:
        return self.now


@pytest.fixture
async def clock(app: App) -> MadeUpTime:
    port = keep(app)
    port.loop = clock = MadeUpTime(asyncio.get_running_loop())  # type: ignore[assignment]  # what is used of it
    return clock


def plugged(app: App) -> tuple[KeepConnection, FakeTransport]:
    connection, transport = KeepConnection(keep(app)), FakeTransport()
    connection.connection_made(cast("Transport", transport))
    return connection, transport


async def handled(app: App) -> None:
    """No packet is being checked, or waits to be checked, for the store, or to be sent."""
    port = keep(app)
    await until(
        lambda: not (port.batches.is_at_work or port.batches._ready or port.room._asking or port._dirty)
    )


def decoded(written: bytes) -> list[Packet]:
    found = []
    while written:
        size = int.from_bytes(written[:HEADER], "big")
        found.append(decode(written[HEADER : HEADER + size]))
        written = written[HEADER + size :]
    return found


def bodies(written: bytes) -> list[str]:
    return [packet.body for packet in decoded(written)]


async def test_who_goes_before_it_got_its_packet_costs_nobody_else_theirs(app: App) -> None:
    (leaving, socket), (staying, other) = plugged(app), plugged(app)
    for number in range(2):
        for connection in (leaving, staying):
            connection.deliver(encode(Packet(body=f"number {number}")), None, "", 0)
        if number == 0:
            socket.lost = True
            leaving.connection_lost(None)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert bodies(other.written) == ["number 0", "number 1"]
    assert socket.written == b""


async def test_a_packet_waits_for_its_reader_no_longer_than_its_ttl(app: App, clock: MadeUpTime) -> None:
    (connection, transport), (sender, other) = plugged(app), plugged(app)
    connection.pause_writing()
    for ttl in (5, 0, 20):
        assert connection.deliver(encode(Packet(body=f"ttl {ttl}")), sender, "", ttl)
    clock.now += 6
    connection.resume_writing()
    assert bodies(transport.written) == ["ttl 0", "ttl 20"]
    assert keep(app).room.dropped == {"ttl": 1}
    keep(app)._flush()
    assert bodies(other.written) == ["error:delivery_failed"]


async def test_a_packet_waits_for_its_turn_no_longer_than_its_ttl(app: App, clock: MadeUpTime) -> None:
    connection, transport = plugged(app)
    connection.hold()
    for ttl in (5, 0, 20):
        packet = ALICE.packet(src="bot:alice", dst="bot:alice", body=f"ttl {ttl}", ttl=ttl)
        connection.data_received(frame(encode(packet)))
    await handled(app)
    clock.now += 6
    connection.release()
    await handled(app)
    assert bodies(transport.written) == ["error:delivery_failed", "ttl 0", "ttl 20"]
    connection.connection_lost(None)


async def test_a_backlog_has_an_end(app: App) -> None:
    (connection, _), (sender, _) = plugged(app), plugged(app)
    connection.pause_writing()
    payload = b"\x3a" + bytes([0x80, 0x80, 3]) + b"x" * 49152
    taken = 0
    while connection.deliver(payload, sender, "", 0):
        taken += 1
    assert 0 < taken * len(payload) <= keep(app).limits.soft_mark
    assert (connection.held, sender.held) == (0, 0)
    # Others cannot take what room there is for the hall's own; and a client that does not read is not read from.
    while connection.deliver(payload, connection, "", 0):
        taken += 1
    assert keep(app).limits.soft_mark < taken * len(payload) <= 4 * keep(app).limits.soft_mark
    assert connection.held == 1
    connection.connection_lost(None)
    assert connection.held == 0


async def test_what_a_connection_sends_itself_in_one_turn_has_an_end(app: App) -> None:
    connection, transport = plugged(app)
    transport.full = connection
    payload = encode(Packet(body="x" * 60_000))
    taken = sum(connection.deliver(payload, connection, "", 0) for _ in range(1000))
    assert taken * len(payload) <= 5 * keep(app).limits.soft_mark
    assert len(transport.written) < 512 * 1024
    connection.connection_lost(None)


async def test_heartbeats_are_counted_from_registration(app: App, clock: MadeUpTime) -> None:
    port = keep(app)
    first, early = plugged(app)
    first.registered()
    clock.now += 30
    second, late = plugged(app)
    second.registered()
    clock.now += 31
    port._beat(clock.now)
    port._flush()
    assert (bool(early.written), bool(late.written)) == (True, False)
    clock.now += 30
    port._beat(clock.now)
    port._flush()
    assert len(late.written) == len(early.written)
    for connection in (first, second):
        connection.connection_lost(None)


async def test_ten_thousand_idle_connections_do_not_close_the_port(open_hall: OpenHall) -> None:
    async with open_hall(address_frames=Rate(0, 1)) as app:
        idle = [plugged(app) for _ in range(10_005)]
        assert keep(app).connections == 10_000
        alice = await Client.connect(app, "bot:alice")
        alice.close()
        assert [transport.aborted for _, transport in idle] == [True] * 6 + [False] * 9999
        for connection, _ in idle:
            connection.connection_lost(None)


async def test_a_flood_of_connections_does_not_fill_the_log(open_hall: OpenHall) -> None:
    async with open_hall(keep_max_connections=1) as app:
        refused = [plugged(app)[0] for _ in range(500)]
        assert app.hall.tally.security == {"keep_connection_limit": 499}
        assert len(cast("LogBook", app.log).find("keep_connection_limit")) == LOG_LINES.limit
        for connection in refused:
            connection.connection_lost(None)


async def test_who_sends_no_packet_is_closed_and_who_has_an_identity_is_not(
    app: App, clock: MadeUpTime
) -> None:
    port, timeout = keep(app), app.settings.keep_idle_timeout
    (silent, _), (slow, _), (junk, _), (nameless, _), (listener, other) = (plugged(app) for _ in range(5))
    packet = frame(encode(ALICE.packet(src="bot:alice")))
    slow.data_received(packet[:-1])
    unsigned = frame(encode(Packet(src="bot:junk")))
    clock.now += timeout - 1
    junk.data_received(unsigned)
    nameless.data_received(frame(encode(ALICE.packet(dst="server"))))
    listener.data_received(packet)
    await handled(app)
    clock.now += 2
    port._drop_idle(clock.now)
    everyone = (silent, slow, junk, nameless, listener)
    assert [connection.closing for connection in everyone] == [True] * 3 + [False] * 2
    clock.now += timeout
    port._drop_idle(clock.now)
    assert [connection.closing for connection in everyone] == [True] * 4 + [False]
    clock.now += 100 * timeout
    port._drop_idle(clock.now)
    assert [connection.closing for connection in everyone] == [True] * 4 + [False]
    assert bodies(other.written) == ["done"]
    assert port.connections == 1
    listener.connection_lost(None)


async def test_a_packet_that_waits_for_us_is_not_held_against_its_sender(app: App, clock: MadeUpTime) -> None:
    port = keep(app)
    connection, transport = plugged(app)
    connection.hold()
    connection.data_received(frame(encode(ALICE.packet(src="bot:alice"))))
    clock.now += app.settings.keep_idle_timeout + 1
    port._drop_idle(clock.now)
    assert not connection.closing
    connection.release()
    await handled(app)
    assert bodies(transport.written) == ["done"]
    connection.connection_lost(None)


async def test_a_reset_with_a_thousand_identities_leaves_the_others_their_turns(app: App) -> None:
    (many, socket), alice = plugged(app), await Client.connect(app, "bot:alice", BOB)
    many.data_received(b"".join(frame(encode(ALICE.packet(src=f"bot:{n}"))) for n in range(1000)))
    port = keep(app)
    await until(lambda: len(port.room.registry) == 1001)
    socket.lost = True
    many.connection_lost(ConnectionResetError())
    left: list[int] = []
    async with asyncio.TaskGroup() as group:
        group.create_task(watch_freeing(port, left))
        for number in (0, 999):
            assert (await alice.ask(f"bot:{number}")).body == "error:offline"
    assert left[0] > 900
    assert left[-1] == 1
    assert all(before - after <= 2 * FREED_AT_ONCE for before, after in itertools.pairwise(left))
    assert app.hall.roster.agents.keys() == {port.room.bridge.residents["bot:alice"].agent.id}
    alice.close()


async def watch_freeing(port: KeepPort, left: list[int]) -> None:
    """In each turn of the loop, how many identities there are."""
    left.append(len(port.room.registry))
    while left[-1] > 1:
        await asyncio.sleep(0)
        left.append(len(port.room.registry))


async def test_a_flood_leaves_the_loop_to_others_after_each_few_packets(app: App) -> None:
    port = keep(app)
    flooders = [plugged(app)[0] for _ in range(20)]
    packets = [frame(encode(ALICE.packet(src=f"bot:{number}", dst="server"))) for number in range(20)]
    for flooder, packet in zip(flooders, packets, strict=True):
        flooder.data_received(packet)
    await until(lambda: port.room.packets == 20)
    for flooder, packet in zip(flooders, packets, strict=True):
        flooder.data_received(packet * 50)
    handled_by_turn = [20]
    while port.room.packets < 1020:
        await asyncio.sleep(0)
        handled_by_turn.append(port.room.packets)
    most = 2 * BESIDE_OTHERS.messages + BESIDE_OTHERS.share
    assert all(after - before <= most for before, after in itertools.pairwise(handled_by_turn))
    for flooder in flooders:
        flooder.connection_lost(None)


async def test_mutated_frames_never_raise_past_the_gateway(app: App) -> None:
    dice = random.Random(7)  # noqa: S311  # the same every time is the point
    seeds = [
        bytes.fromhex(v.get("frame_hex") or v["bytes_hex"]) for v in VECTORS["packets"] + VECTORS["negative"]
    ]
    for _ in range(1500):
        connection, _ = plugged(app)
        stream = bytearray(b"".join(dice.choices(seeds, k=3)))
        for _ in range(dice.randint(1, 6)):
            stream[dice.randrange(len(stream))] = dice.randrange(256)
        for piece in (stream[: len(stream) // 2], stream[len(stream) // 2 :]):
            connection.data_received(bytes(piece))
        connection.eof_received()
        await handled(app)
        connection.connection_lost(None)
    log = cast("LogBook", app.log)
    assert log.find("a keep packet could not be handled") == []
    assert keep(app).connections == 0
    assert app.hall.roster.agents == {}
