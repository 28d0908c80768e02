"""Entries that several nodes change: one wins, all hear of it. Over a real JetStream."""

import asyncio
from pathlib import Path

import pytest
from nats.js.errors import NoStreamResponseError

from moothall.bus import buckets, watching
from moothall.bus.nats_bus import NatsBus
from moothall.errors import BusDown
from moothall.hall.cluster.bus import Entry
from tests.bus.buses import Inbox, answer, buses, delete, get, put, rises
from tests.support.nats_server import NatsServer
from tests.support.sockets import on_uvloop


@on_uvloop
async def test_an_entry_changes_only_with_its_last_revision(nats: NatsServer) -> None:
    async with buses(nats, 2) as (one, two):
        assert await get(one, "ids", "alice") is None
        first = await put(one, "ids", "alice", b"one", 0)
        assert first is not None
        assert await put(two, "ids", "alice", b"two", 0) is None
        assert await get(two, "ids", "alice") == Entry("alice", b"one", first)
        second = await put(two, "ids", "alice", b"two", first)
        assert second is not None
        assert second > first
        assert await put(one, "ids", "alice", b"again", first) is None
        assert await delete(one, "ids", "alice", first) is False
        assert await delete(one, "ids", "alice", second) is True
        assert await get(one, "ids", "alice") is None
        assert await put(two, "ids", "alice", b"late", second) is None
        third = await put(one, "ids", "alice", b"anew", 0)
        assert third is not None
        assert third > second
        assert await put(two, "ids", "alice", b"no", 0) is None


@on_uvloop
async def test_keys_have_any_character_and_buckets_are_apart(nats: NatsServer) -> None:
    keys = ["a.b", "host-1.example", "with space", "*", ">", "ü/=%~", "A", "a"]
    async with buses(nats, 1) as (bus,):
        for key in keys:
            assert await put(bus, "homes", key, key.encode(), 0) is not None
        for key in keys:
            entry = await get(bus, "homes", key)
            assert entry is not None
            assert (entry.key, entry.value) == (key, key.encode())
            assert await get(bus, "ids", key) is None
        told, ready = Inbox(), Inbox()
        bus.registry.watch("homes", told, ready)
        await ready.count(1)
        assert sorted(entry.key for entry in told.items) == sorted(keys)
        with pytest.raises(ValueError, match="at least one character"):
            bus.registry.get("ids", "", told, told)
        with pytest.raises(ValueError, match="has a value"):
            bus.registry.put("ids", "a", b"", 0, told, told)


@on_uvloop
async def test_of_two_nodes_that_change_an_entry_at_once_one_wins(nats: NatsServer) -> None:
    """Each adds 1 to a number, and tries again when the other one was faster. No addition is lost."""
    async with buses(nats, 2) as nodes:

        async def add(bus: NatsBus, times: int) -> int:
            refusals = 0
            while times:
                entry = await get(bus, "homes", "sum")
                value, revision = (int(entry.value), entry.revision) if entry else (0, 0)
                if await put(bus, "homes", "sum", b"%d" % (value + 1), revision) is None:
                    refusals += 1
                else:
                    times -= 1
            return refusals

        refusals = await asyncio.gather(*(add(bus, 20) for bus in (*nodes, *nodes)))
        entry = await get(nodes[0], "homes", "sum")
        assert entry is not None
        assert entry.value == b"80"
        assert sum(refusals) > 0


@on_uvloop
async def test_many_claims_on_one_id_have_one_winner(nats: NatsServer) -> None:
    async with buses(nats, 2) as (one, two):
        claims = [put(bus, "ids", "alice", b"%d" % n, 0) for n in range(50) for bus in (one, two)]
        won = [revision for revision in await asyncio.gather(*claims) if revision is not None]
        entry = await get(one, "ids", "alice")
        assert entry is not None
        assert won == [entry.revision]


@on_uvloop
async def test_a_watch_tells_what_there_is_then_ready_then_changes(nats: NatsServer) -> None:
    async with buses(nats, 2) as (one, two):
        empty = Inbox()
        one.registry.watch("nodes", empty, empty)
        assert await empty.count(1) == [None]
        a = await put(one, "nodes", "a", b"1", 0)
        gone = await put(one, "nodes", "gone", b"1", 0)
        assert a is not None
        assert gone is not None
        await delete(one, "nodes", "gone", gone)
        seen = Inbox()
        stop = two.registry.watch("nodes", seen, seen)
        assert await seen.count(2) == [Entry("a", b"1", a), None]
        second = await put(one, "nodes", "a", b"2", a)
        assert second is not None
        b = await put(one, "nodes", "b", b"1", 0)
        assert b is not None
        await delete(one, "nodes", "a", second)
        await seen.count(5)
        assert seen.items[2:4] == [Entry("a", b"2", second), Entry("b", b"1", b)]
        assert seen.items[4].key == "a"
        assert seen.items[4].value == b""
        assert seen.items[4].revision > b
        stop()
        stop()
        await put(one, "nodes", "c", b"1", 0)
        await empty.until(lambda items: items[-1] is not None and items[-1].key == "c")
        assert len(seen.items) == 5


@on_uvloop
async def test_an_entry_of_a_node_that_is_not_renewed_expires_and_watchers_hear_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "NODE_TTL", 1.0)
    with NatsServer(tmp_path) as server:
        async with buses(server, 1) as (bus,):
            told = Inbox()
            bus.registry.watch("nodes", told, lambda: None)
            first = await put(bus, "nodes", "a", b"1", 0)
            await put(bus, "ids", "alice", b"1", 0)
            assert first is not None
            await told.until(lambda items: items != [] and items[-1].value == b"")
            assert told.items[-1].key == "a"
            assert await get(bus, "nodes", "a") is None
            assert await put(bus, "nodes", "a", b"2", first) is None
            assert await put(bus, "nodes", "a", b"2", 0) is not None
            assert await get(bus, "ids", "alice") is not None


@on_uvloop
async def test_after_a_kill_of_nats_calls_fail_once_and_a_watch_looks_again(tmp_path: Path) -> None:
    with NatsServer(tmp_path) as server:
        async with buses(server, 2) as (one, two):
            kept = await put(one, "ids", "kept", b"1", 0)
            changed = await put(one, "ids", "changed", b"1", 0)
            await put(one, "ids", "gone", b"1", 0)
            node = await put(one, "nodes", "a", b"1", 0)
            assert changed is not None
            assert node is not None
            ids, nodes = Inbox(), Inbox()
            two.registry.watch("ids", ids, ids)
            two.registry.watch("nodes", nodes, lambda: None)
            await ids.count(4)
            await nodes.count(1)

            outcomes = Inbox()
            done, failed, future = answer()

            def kill_and_start() -> None:
                server.kill()
                for _ in range(20):
                    one.registry.put("ids", "unknown", b"1", 0, lambda _: outcomes("done"), outcomes)
                one.registry.get("ids", "kept", done, failed)
                server.start()

            await rises(one, kill_and_start)
            await outcomes.count(20)
            assert all(isinstance(outcome, BusDown) for outcome in outcomes.items)
            with pytest.raises(BusDown):
                await future
            await nodes.count(2)
            assert nodes.items[1] == Entry("a", b"", node + 1)  # it was in the memory of NATS
            entry = await get(one, "ids", "kept")
            assert entry == Entry("kept", b"1", kept or 0)
            again = await put(one, "nodes", "a", b"2", 0)
            assert again is not None
            assert again > node
            await nodes.count(3)
            assert nodes.items[2] == Entry("a", b"2", again)
            new = await put(one, "ids", "changed", b"2", changed)
            await ids.until(lambda items: Entry("changed", b"2", new or 0) in items)
            assert ids.items.count(None) == 1
            assert len(outcomes.items) == 20


@on_uvloop
async def test_entries_that_were_deleted_while_a_node_was_away_are_told(nats: NatsServer) -> None:
    async with buses(nats, 2) as (one, two):
        revisions = {key: await put(one, "homes", key, b"1", 0) for key in ("kept", "gone")}
        seen = Inbox()
        two.registry.watch("homes", seen, seen)
        await seen.count(3)
        connection = two._connection
        assert connection is not None
        two.registry.fall()  # it hears nothing more, but its watch is still there
        stream = two._buckets.stream("homes")
        assert one._connection is not None
        subject = two._buckets.subject("homes", "gone")
        await one._connection.jetstream().purge_stream(stream, subject=subject)  # without a marker
        two.registry.rise(connection)
        await seen.count(5)
        assert set(seen.items[3:]) == {
            Entry("kept", b"1", revisions["kept"] or 0),
            Entry("gone", b"", (revisions["gone"] or 0) + 1),
        }


@on_uvloop
async def test_close_waits_for_calls_under_way(nats: NatsServer) -> None:
    async with buses(nats, 1, hall="leaving") as (other,):
        outcomes = Inbox()
        async with buses(nats, 1, hall="leaving") as (bus,):
            for number in range(50):
                bus.registry.put("homes", f"{number}", b"1", 0, outcomes, outcomes)
        await outcomes.count(50)
        assert all(isinstance(outcome, int) for outcome in outcomes.items)
        assert await get(other, "homes", "49") is not None


@on_uvloop
async def test_calls_fail_at_once_while_the_bus_is_down(nats: NatsServer) -> None:
    async with buses(nats, 1) as (bus,):
        pass
    done, failed, future = answer()
    bus.registry.get("ids", "alice", done, failed)
    assert not future.done()
    with pytest.raises(BusDown):
        await future


@on_uvloop
async def test_a_bucket_that_was_deleted_is_made_again_and_watched(
    nats: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "IDLE_SECONDS", 0.2)
    monkeypatch.setattr(watching, "SILENCE_SECONDS", 0.8)
    async with buses(nats, 1) as (bus,):
        first = await put(bus, "homes", "a", b"1", 0)
        told = Inbox()
        bus.registry.watch("homes", told, lambda: None)
        await told.count(1)
        assert bus._connection is not None
        await bus._connection.jetstream().delete_stream(bus._buckets.stream("homes"))
        with pytest.raises(NoStreamResponseError):
            await put(bus, "homes", "b", b"1", 0)
        assert bus.registry._mending is not None
        await bus.registry._mending
        second = await put(bus, "homes", "b", b"1", 0)
        assert second is not None
        assert first is not None
        assert second > first
        expected = {Entry("b", b"1", second), Entry("a", b"", first + 1)}
        await told.until(lambda items: expected <= {*items})


@on_uvloop
async def test_a_bucket_is_made_once_by_nodes_that_start_together(nats: NatsServer) -> None:
    async def start() -> None:
        async with buses(nats, 1, hall="together") as (bus,):
            assert await get(bus, "ids", "nobody") is None

    await asyncio.gather(*(start() for _ in range(8)))
