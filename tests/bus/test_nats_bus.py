"""Messages between nodes over a real NATS: their order, and what is lost when."""

import socket
from pathlib import Path

import pytest

from moothall.bus import nats_bus, parts
from moothall.bus.nats_bus import NatsBus
from moothall.errors import UsageError
from tests.bus.buses import Inbox, Lines, buses, heard, rises
from tests.support.nats_server import NatsServer, free_port
from tests.support.sockets import on_uvloop


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
async def test_a_server_that_no_longer_answers_is_noticed(
    nats: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_bus, "HEARTBEAT_SECONDS", 0.02)
    monkeypatch.setattr(nats_bus, "STALE_SECONDS", 0.05)
    monkeypatch.setattr(nats_bus, "SECOND_LOOK", 0.05)
    async with buses(nats, 1) as (bus,):
        connection = bus._connection
        assert connection is not None

        def fall_silent() -> None:
            """As if the network lost every packet, without an end of the connection."""
            assert connection._reading_task is not None
            connection._reading_task.cancel()

        await rises(bus, fall_silent)
        assert bus._connection is not connection


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
    with pytest.raises(UsageError, match=f"the bus cannot be reached: nats://127.0.0.1:{port}: ") as caught:
        await bus.open(within=0.5)
    assert "secret" not in str(caught.value) + repr(bus._log.lines)  # type: ignore[attr-defined]


@on_uvloop
async def test_a_server_without_jetstream_is_told(tmp_path: Path) -> None:
    with NatsServer(tmp_path, "jetstream: disabled") as server:
        bus = NatsBus([server.url], "none", Lines())
        with pytest.raises(UsageError, match="NATS has no JetStream"):
            await bus.open(within=1)
