"""Messages between nodes over a real NATS: their order, and what is lost when."""

import asyncio
import gc
import signal
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from moothall.bus import buckets, nats_bus, parts
from moothall.bus.connection import Connection
from moothall.bus.nats_bus import NatsBus
from moothall.errors import BusDown, UsageError
from moothall.hall.cluster.bus import Entry
from tests.bus.buses import Inbox, Lines, answer, buses, get, heard, put, rises
from tests.support.nats_server import NatsServer, free_port, nats_cluster
from tests.support.sockets import on_uvloop, turn


@on_uvloop
async def test_messages_keep_the_order_of_one_publisher(nats: NatsServer) -> None:
    async with buses(nats, 3) as (one, two, listener):
        got = Inbox()
        listener.subscribe("channel.a", got)
        await heard(one, listener)
        await heard(two, listener)
        for number in range(2000):
            one.publish("channel.a", b"one %d" % number)
            two.publish("channel.a", b"two %d" % number)
        await got.count(4000)
        for name in (b"one", b"two"):
            assert [item for item in got.items if item.startswith(name)] == [
                b"%s %d" % (name, number) for number in range(2000)
            ]


@on_uvloop
async def test_a_node_does_not_hear_itself_nor_other_halls(nats: NatsServer) -> None:
    async with buses(nats, 2) as (one, two), buses(nats, 1) as (stranger,):
        own, others, strange = Inbox(), Inbox(), Inbox()
        one.subscribe("all", own)
        two.subscribe("all", others)
        stranger.subscribe("all", strange)
        await heard(one, two)
        await heard(two, one)
        one.publish("all", b"from one")
        two.publish("all", b"from two")
        assert await own.count(1) == [b"from two"]
        assert await others.count(1) == [b"from one"]
        assert strange.items == []


@on_uvloop
async def test_a_subscription_ends_and_the_others_of_its_subject_go_on(nats: NatsServer) -> None:
    async with buses(nats, 2) as (one, two):
        first, second = Inbox(), Inbox()
        stop_first = two.subscribe("all", first)
        stop_second = two.subscribe("all", second)
        await heard(one, two)
        one.publish("all", b"both")
        await second.count(1)
        stop_first()
        one.publish("all", b"second")
        assert await second.count(2) == [b"both", b"second"]
        assert first.items == [b"both"]
        stop_second()
        stop_second()
        await heard(one, two)
        one.publish("all", b"nobody")
        await heard(one, two)
        assert second.items == [b"both", b"second"]


@on_uvloop
async def test_a_message_larger_than_nats_takes_arrives_whole(nats: NatsServer) -> None:
    async with buses(nats, 2) as (one, two):
        got = Inbox()
        two.subscribe("node.two", got)
        await heard(one, two)
        large = bytes(range(256)) * 20_000
        one.publish("node.two", b"before")
        one.publish("node.two", large)
        one.publish("node.two", b"after")
        assert await got.count(3) == [b"before", large, b"after"]
        one.publish("node.two", bytes(parts.MOST_BYTES + 1))
        assert one.traffic.refused == 1
        assert one.is_up


@on_uvloop
async def test_a_handler_that_fails_is_logged_and_the_next_message_comes(nats: NatsServer) -> None:
    async with buses(nats, 2) as (one, two):
        got = Inbox()

        def fail(payload: bytes) -> None:
            got(payload)
            raise RuntimeError("a bug")

        two.subscribe("all", fail)
        await heard(one, two)
        one.publish("all", b"1")
        one.publish("all", b"2")
        assert await got.count(2) == [b"1", b"2"]
        assert isinstance(two._log, Lines)
        assert two._log.events().count("bus_handler_failed") >= 1


@on_uvloop
async def test_after_a_kill_of_nats_the_bus_is_up_again_and_nothing_comes_late(tmp_path: Path) -> None:
    with NatsServer(tmp_path) as server:
        async with buses(server, 2) as (one, two):
            got, changes = Inbox(), Inbox()
            one.on_change(changes)
            two.subscribe("all", got)
            await heard(one, two)
            server.kill()
            await changes.count(1)
            assert changes.items == [False]
            assert not one.is_up
            lost = one.traffic.lost
            for _ in range(10):
                one.publish("all", b"while down")
            assert one.traffic.lost == lost + 10
            late = Inbox()
            two.subscribe("late", late)
            server.start()
            await changes.count(2)
            assert changes.items == [False, True]
            await heard(one, two)
            one.publish("all", b"again")
            one.publish("late", b"late")
            assert await got.count(1) == [b"again"]
            assert await late.count(1) == [b"late"]
            assert isinstance(one._log, Lines)
            assert one._log.events()[:2] == ["bus_up", "bus_down"]
            assert one._log.events()[-1] == "bus_up"


@on_uvloop
async def test_nothing_is_left_of_connections_that_were_lost(tmp_path: Path) -> None:
    with NatsServer(tmp_path) as server:
        async with buses(server, 2) as nodes:
            for bus in nodes:
                bus.subscribe("all", lambda payload: None)
                bus.registry.watch("ids", lambda entry: None, lambda: None)

            def fail_while_busy() -> None:
                for _ in range(300):
                    nodes[0].publish("all", bytes(10_000))
                server.kill()
                server.start()

            for _ in range(3):
                await rises(nodes[0], fail_while_busy)
    while len(asyncio.all_tasks()) > 1:
        await turn()
    gc.collect()


@on_uvloop
async def test_a_server_that_no_longer_answers_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_bus, "HEARTBEAT_SECONDS", 0.05)
    monkeypatch.setattr(nats_bus, "STALE_SECONDS", 0.2)
    with NatsServer(tmp_path) as server:
        async with buses(server, 1) as (bus,):
            changes = Inbox()
            bus.on_change(changes)
            done, failed, future = answer()
            server.signal(signal.SIGSTOP)  # as if the network lost every packet: the connection does not end
            bus.registry.get("ids", "alice", done, failed)
            for _ in range(100):
                bus.publish("all", bytes(100_000))  # more than the socket takes
            await changes.count(1)
            with pytest.raises(BusDown):
                await future
            assert bus.traffic.lost > 0
            server.signal(signal.SIGCONT)
            await changes.until(lambda told: told[-1] is True)


@on_uvloop
async def test_a_node_that_does_not_keep_up_is_cut_off_and_comes_back(tmp_path: Path) -> None:
    """NATS closes the connection of a slow consumer. That must not be the end of the bus."""
    with NatsServer(tmp_path, "max_pending: 2MB\nmax_payload: 1MB") as server:
        async with buses(server, 1) as (bus,):
            subject = f"{bus._prefix}all"
            is_flooded = False

            def flood(_: bytes) -> None:
                """Nothing is read meanwhile."""
                nonlocal is_flooded
                if is_flooded:
                    return
                is_flooded = True
                with socket.create_connection(("127.0.0.1", server.port)) as other:
                    other.recv(4096)
                    other.sendall(b'CONNECT {"verbose":false}\r\n')
                    for _number in range(64):
                        other.sendall(b"PUB %s 1000000\r\n%s\r\n" % (subject.encode(), bytes(1_000_000)))
                    other.sendall(b"PING\r\n")
                    while b"PONG" not in other.recv(4096):
                        pass

            bus.subscribe("all", flood)
            async with buses(server, 1, hall=bus._prefix.split(".")[1]) as (other,):
                await heard(other, bus)
                await rises(bus, lambda: other.publish("all", b"begin"))
                await heard(other, bus)


@on_uvloop
async def test_what_nats_does_not_take_closes_the_connection_and_is_counted(
    nats: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_bus, "MOST_WAITING", 1000)
    async with buses(nats, 1) as (bus,):

        def publish_much() -> None:
            for _ in range(11):
                bus.publish("all", bytes(100))

        await rises(bus, publish_much)
        assert bus.traffic.overruns == 1
        assert bus.traffic.lost == 11


@on_uvloop
async def test_close_sends_what_was_published(nats: NatsServer) -> None:
    async with buses(nats, 1, hall="closing") as (listener,):
        got = Inbox()
        listener.subscribe("all", got)
        async with buses(nats, 1, hall="closing") as (bus,):
            await heard(bus, listener)
            for number in range(100):
                bus.publish("all", b"%d" % number)
        assert await got.count(100) == [b"%d" % number for number in range(100)]
        assert not bus.is_up


@on_uvloop
async def test_the_second_server_of_the_list_is_used_if_the_first_is_not_there(nats: NatsServer) -> None:
    bus = NatsBus([f"nats://127.0.0.1:{free_port()}", nats.url], "list", Lines())
    await bus.open()
    assert bus.is_up
    await bus.close()


@on_uvloop
async def test_a_bus_that_cannot_be_reached_says_so() -> None:
    port = free_port()
    bus = NatsBus([f"nats://user:secret@127.0.0.1:{port}"], "none", Lines())
    with pytest.raises(
        UsageError, match=f"reached: nats://127.0.0.1:{port}: Connection refused; is NATS"
    ) as caught:
        await bus.open(within=0.5)
    assert "secret" not in str(caught.value) + repr(bus._log.lines)  # type: ignore[attr-defined]


@on_uvloop
async def test_a_server_without_jetstream_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "PREPARING_SECONDS", 0.2)
    with NatsServer(tmp_path, "jetstream: disabled") as server:
        bus = NatsBus([server.url], "none", Lines())
        with pytest.raises(UsageError, match="NATS has no JetStream"):
            await bus.open(within=1)


@on_uvloop
async def test_close_ends_the_bus_even_if_a_cancellation_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in `asyncio.wait_for` of Python 3.11, if what it waits for comes in the same turn."""

    async def swallow(*_: object) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    monkeypatch.setattr(Connection, "open", swallow)
    monkeypatch.setattr(nats_bus, "ENDING_SECONDS", 0.05)
    bus = NatsBus(["nats://127.0.0.1:1", "nats://127.0.0.1:2"], "none", Lines())
    with pytest.raises(UsageError, match="the bus cannot be reached"):
        await bus.open(within=0.05)
    assert bus._task is None


@pytest.mark.slow
async def test_a_cluster_of_nats_keeps_three_copies_and_outlives_one_server(tmp_path: Path) -> None:
    """Servers of NATS take up to nine seconds to elect a leader."""
    servers = nats_cluster(tmp_path, 3)
    with ExitStack() as running:
        for server in servers[:2]:
            running.enter_context(server)
        bus, log = NatsBus([server.url for server in servers[:2]], "many", Lines()), Lines()
        early = NatsBus([servers[0].url], "early", log)
        opening = asyncio.create_task(early.open(within=60))
        await log.heard.count(1)
        assert "too few servers to keep 3 copies" in str(log.lines) or "leader" in str(log.lines)
        running.enter_context(servers[2])
        await opening
        await bus.open(within=60)
        revision = await put(bus, "ids", "alice", b"1", 0)
        assert bus._connection is not None
        stream = await bus._connection.jetstream().stream_info(bus._buckets.stream("nodes"))
        assert stream.config.num_replicas == 3
        (used,) = [server for server in servers if server.url == bus._connection.server.url]
        await rises(bus, used.kill)
        assert await get(bus, "ids", "alice") == Entry("alice", b"1", revision or 0)
        await early.close()
        await bus.close()
