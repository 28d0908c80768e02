"""Halls that are peers of each other, on loopback, with agents on the `/mesh` of each."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from moothall.app import App
from moothall.errors import SettingsError
from moothall.identity import PrivateKey
from moothall.network.announcement import HALLS
from moothall.network.peering import Peering
from moothall.settings import Settings, load
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.envelope import encode
from moothall.wire.mesh.msg_types import BROADCAST_TOPIC, NAMED_TOPIC, MsgType
from moothall.wire.mesh.offers import Counter, Propose
from moothall.wire.mesh.peer_ids import peer_id
from tests.store.server import Server
from tests.store.support import Log
from tests.support.agentchat import AgentChat
from tests.support.mesh_peer import MeshPeer, mesh_peer
from tests.support.nodes import until
from tests.support.server import running_hall
from tests.test_mesh import fetch

pytestmark = pytest.mark.slow

ALICE, BOB, CAROL = (PrivateKey(letter * 32) for letter in (b"a", b"b", b"c"))
TALK = bytes(range(16))


def network_of(app: App) -> Peering:
    assert app.network is not None
    return app.network


def address_of(app: App) -> str:
    return str(network_of(app).address)


@asynccontextmanager
async def opened(folder: Path, *peers: str, port: int | None = 0, **settings: Any) -> AsyncIterator[App]:
    given = Settings(
        data_dir=folder / "data", port=0, keep=False, mesh_port=port, mesh_peers=peers, **settings
    )
    async with App(given, Log()) as app:
        yield app


def are_peers(one: App, other: App) -> bool:
    """True if both are in all topics that halls begin with, as the other sees it."""
    return all(
        key in network_of(this).host.peers_in(topic)
        for this, key in ((one, network_of(other).host.agent_id), (other, network_of(one).host.agent_id))
        for topic in (HALLS, BROADCAST_TOPIC)
    )


def reaches(app: App, key: PrivateKey) -> bool:
    return network_of(app)._routes.find(key.public.raw) is not None


class Pair:
    """Two halls, and an agent on each that the other hall knows of."""

    def __init__(self, here: App, there: App, alice: MeshPeer, bob: MeshPeer) -> None:
        self.here, self.there, self.alice, self.bob = here, there, alice, bob


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    async with AsyncExitStack() as stack:
        there = await stack.enter_async_context(opened(tmp_path / "there", server_name="there"))
        here = await stack.enter_async_context(opened(tmp_path / "here", address_of(there), port=None))
        await until(lambda: are_peers(here, there))
        alice = await stack.enter_async_context(mesh_peer(here.url, ALICE))
        bob = await stack.enter_async_context(mesh_peer(there.url, BOB))
        await until(lambda: reaches(here, BOB) and reaches(there, ALICE))
        yield Pair(here, there, alice, bob)


async def test_what_is_said_to_all_reaches_the_agents_of_the_other_hall(pair: Pair) -> None:
    assert (await pair.alice.send(MsgType.ADVERTISE, b'{"capabilities":["x"]}'))["type"] == "accepted"
    heard = await pair.bob.envelope(MsgType.ADVERTISE)
    assert heard.sender == ALICE.public.raw
    await pair.bob.send(MsgType.BOUNTY, b"{}")
    assert (await pair.alice.envelope(MsgType.BOUNTY)).sender == BOB.public.raw


async def test_a_broadcast_reaches_subscribers_and_members_of_the_channel_there(pair: Pair) -> None:
    topic = NAMED_TOPIC + "weather"
    async with await AgentChat.connect(pair.there.url, "carol") as carol:
        await carol.create_channel("#weather")
        await pair.bob.ask("subscribe", topic="weather")
        await until(lambda: network_of(pair.here).host.peers_in(topic))
        payload = Broadcast(topic="weather", title="alice", content=b"rain").encode()
        await pair.alice.send(MsgType.BROADCAST, payload)
        assert (await pair.bob.envelope(MsgType.BROADCAST)).payload == payload
        await carol.expect("MSG", content="rain", via="mesh")
        await pair.alice.ask("subscribe", topic="weather")
        await until(lambda: network_of(pair.there).host.peers_in(topic))
        await carol.say("#weather", "and sun")
        said = Broadcast.decode((await pair.alice.envelope(MsgType.BROADCAST)).payload)
        assert said.content == b"and sun"


async def test_bilateral_envelopes_go_both_ways(pair: Pair) -> None:
    sent = await pair.alice.send(MsgType.PROPOSE, Propose(message="work").encode(), BOB.public.raw, TALK)
    assert sent["type"] == "accepted"
    assert (await pair.bob.envelope(MsgType.PROPOSE)).conversation_id == TALK
    sent = await pair.bob.send(MsgType.COUNTER, Counter(message="more").encode(), ALICE.public.raw, TALK)
    assert sent["type"] == "accepted"
    assert (await pair.alice.envelope(MsgType.COUNTER)).sender == BOB.public.raw
    counts = network_of(pair.here).statistics().counts
    assert (counts["bilateral in"], counts["bilateral out"]) == (1, 1)


async def test_an_agent_that_leaves_is_not_announced_any_more(pair: Pair) -> None:
    async with mesh_peer(pair.there.url, CAROL):
        await until(lambda: reaches(pair.here, CAROL))
    await until(lambda: network_of(pair.here).statistics().routes.hosted == 1)


async def test_operators_see_the_network(pair: Pair) -> None:
    report = json.loads(await fetch(pair.there, "/health"))["mesh_network"]
    host, port = "127.0.0.1", network_of(pair.there).address.port  # type: ignore[union-attr]
    hall_key = network_of(pair.there).host.agent_id
    assert report["address"] == f"/ip4/{host}/tcp/{port}/p2p/{peer_id(hall_key)}"
    assert (report["peers"], report["unreachable"], report["halls"]) == (1, 0, 1)
    assert json.loads(await fetch(pair.here, "/health"))["mesh_network"]["address"] is None
    await pair.alice.send(MsgType.ADVERTISE, b"{}")
    await pair.bob.envelope(MsgType.ADVERTISE)
    forged = structs.replace(pair.alice.seal(MsgType.BOUNTY, b"{}"), signature=bytes(64))
    network_of(pair.here).publish(BROADCAST_TOPIC, encode(forged))
    assert pair.there.mesh is not None
    faults = pair.there.mesh.room.border.dropped
    await until(lambda: faults["InvalidSignature"])
    shown = await fetch(pair.there, "/metrics")
    assert 'moothall_network_received_total{type="ADVERTISE"} 1.0' in shown
    assert 'moothall_network_faults_total{fault="InvalidSignature"} 1.0' in shown
    assert 'moothall_network_peers{direction="inbound"} 1.0' in shown
    assert 'moothall_network_peers{direction="outbound"} 0.0' in shown
    assert "moothall_network_announced 1.0" in shown
    assert "moothall_network_topics 4.0" in shown
    assert 'moothall_network_routes{way="hall"} 1.0' in shown
    assert "moothall_network_unreachable 0.0" in shown
    assert 'moothall_network_envelopes_total{way="topic in"}' in shown
    assert 'moothall_network_messages_total{outcome="new"}' in shown
    assert 'moothall_network_dropped_total{reason="slow peer"} 0.0' in shown


async def test_a_third_hall_in_the_middle_passes_on(tmp_path: Path) -> None:
    async with (
        opened(tmp_path / "middle") as middle,
        opened(tmp_path / "one", address_of(middle), port=None) as one,
        opened(tmp_path / "two", address_of(middle), port=None) as two,
        mesh_peer(one.url, ALICE) as alice,
        mesh_peer(two.url, BOB) as bob,
    ):
        await until(lambda: reaches(one, BOB) and reaches(two, ALICE))
        assert network_of(one).statistics().host.peers == 1
        await alice.send(MsgType.PROPOSE, Propose(message="work").encode(), BOB.public.raw, TALK)
        assert (await bob.envelope(MsgType.PROPOSE)).sender == ALICE.public.raw
        await bob.send(MsgType.REJECT, b"{}", ALICE.public.raw, TALK)
        assert (await alice.envelope(MsgType.REJECT)).sender == BOB.public.raw
        await alice.send(MsgType.ADVERTISE, b"{}")
        assert (await bob.envelope(MsgType.ADVERTISE)).sender == ALICE.public.raw
        await bob.send(MsgType.BOUNTY, b"{}")
        await alice.envelope(MsgType.BOUNTY)
        assert not [each for each in bob.envelopes if each.msg_type is MsgType.ADVERTISE]  # it came once


async def test_a_hall_that_restarts_is_a_peer_again(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        there = await stack.enter_async_context(opened(tmp_path / "there"))
        place, port = address_of(there), network_of(there).address.port  # type: ignore[union-attr]
        async with opened(tmp_path / "here", place, port=None) as here, mesh_peer(here.url, ALICE) as alice:
            await until(lambda: are_peers(here, there))
            await stack.aclose()
            await until(lambda: network_of(here).statistics().unreachable == 1)
            async with opened(tmp_path / "there", port=port) as again, mesh_peer(again.url, BOB) as bob:
                assert address_of(again) == place  # the key is that of the hall
                await until(lambda: reaches(here, BOB) and reaches(again, ALICE))
                await alice.send(MsgType.PROPOSE, Propose(message="work").encode(), BOB.public.raw, TALK)
                assert (await bob.envelope(MsgType.PROPOSE)).sender == ALICE.public.raw
                assert network_of(here).statistics().unreachable == 0


async def test_a_hall_that_is_killed_is_a_peer_again(tmp_path: Path, unused_tcp_port: int) -> None:
    with running_hall(tmp_path, "--mesh-port", str(unused_tcp_port)) as there:
        place = f"/ip4/127.0.0.1/tcp/{unused_tcp_port}/p2p/{peer_id(there.key.raw)}"
        async with opened(tmp_path / "here", place, port=None) as here, mesh_peer(here.url, BOB) as bob:
            await until(lambda: network_of(here).statistics().host.peers == 1)
            await asyncio.to_thread(there.kill)
            await until(lambda: network_of(here).statistics().host.peers == 0)
            await asyncio.to_thread(there.start)
            async with mesh_peer(there.url, ALICE) as alice:
                await until(lambda: reaches(here, ALICE))
                await bob.send(MsgType.PROPOSE, Propose(message="work").encode(), ALICE.public.raw, TALK)
                assert (await alice.envelope(MsgType.PROPOSE)).sender == BOB.public.raw


async def test_a_peer_given_twice_is_one_and_the_hall_itself_is_none(tmp_path: Path) -> None:
    async with opened(tmp_path / "there") as there:
        place = address_of(there)
        short = place.partition("/p2p/")[0]
        async with opened(tmp_path / "here", place, place, short) as here:
            await until(lambda: are_peers(here, there))
            await until(lambda: all(kept.is_connected for kept in network_of(here).host.kept()))
            assert len(network_of(here).host.kept()) == 2
            assert network_of(here).statistics().host.peers == 1
            own, port = address_of(here), network_of(here).address.port  # type: ignore[union-attr]
        async with opened(tmp_path / "here", own, f"/ip4/127.0.0.1/tcp/{port}", port=port) as here:
            assert len(network_of(here).host.kept()) == 1
            await until(lambda: "our own address" in network_of(here).host.kept()[0].error)
            assert network_of(here).statistics().host.peers == 0


async def test_a_port_in_use_is_told(tmp_path: Path) -> None:
    async with opened(tmp_path / "there") as there:
        port = network_of(there).address.port  # type: ignore[union-attr]
        with pytest.raises(SettingsError, match=f"{port} for peers of the mesh: .*; choose another with"):
            async with opened(tmp_path / "here", port=port):
                raise AssertionError("it opened")
    async with opened(tmp_path / "here", port=port):  # nothing of the first attempt is left
        pass


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ({"mesh_peers": ("/ip4/127.0.0.1/tcp/1", "nonsense")}, "mesh_peers from flag: 'nonsense' is not the"),
        ({"mesh_peers": ("/ip4/127.0.0.1/udp/1/quic-v1",)}, "/ip4/127.0.0.1/udp/1/quic-v1"),
        ({"mesh_port": 70_000}, "mesh_port from flag: 70000 is not between 0 and 65535"),
        ({"mesh_port": 9000, "mesh": False}, "mesh_port from flag: needs mesh"),
        ({"mesh_peers": ("/ip4/127.0.0.1/tcp/1",), "mesh": False}, "mesh_peers from flag: needs mesh"),
    ],
)
def test_settings_that_make_no_sense_are_refused(flags: dict[str, Any], why: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load(flags, environment={})
    assert why in str(refused.value)


def test_the_settings_of_the_environment() -> None:
    peers = "/ip4/127.0.0.1/tcp/1,/dns4/hall.example.org/tcp/9000"
    variables = {"MOOTHALL_MESH_PORT": "0", "MOOTHALL_MESH_PEERS": peers}
    settings = load(environment=variables).settings
    assert settings.mesh_port == 0
    assert settings.mesh_peers == tuple(peers.split(","))
    assert load(environment={}).settings.mesh_port is None


async def test_a_hall_is_not_on_the_network_unless_it_is_told_to(tmp_path: Path) -> None:
    async with opened(tmp_path / "here", port=None) as app:
        assert app.network is None
        assert "mesh_network" not in json.loads(await fetch(app, "/health"))
        assert "moothall_network" not in await fetch(app, "/metrics")


async def test_the_command_prints_the_address_that_others_dial(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with running_hall(tmp_path / "one", "--mesh-port", "0") as one:
        line = one.stdout.wait_for(lambda line: line.startswith("  peers"))
        assert line is not None
        place = line.split()[1]
        assert place.endswith(f"/p2p/{peer_id(one.key.raw)}")
        with running_hall(tmp_path / "two", "--mesh-peer", place, "--mesh-peer", place) as two:
            async with mesh_peer(one.url, ALICE) as alice, mesh_peer(two.url, BOB) as bob:
                for _ in range(200):  # until the peers have met
                    await alice.send(MsgType.ADVERTISE, b"{}")
                    if any(each.msg_type is MsgType.ADVERTISE for each in bob.envelopes):
                        break
                    await bob.ask("balance")
                assert (await bob.envelope(MsgType.ADVERTISE)).sender == ALICE.public.raw


async def test_of_the_halls_on_one_store_one_is_a_peer(tmp_path: Path) -> None:
    server = Server()
    try:
        store = server.new_database()
        async with opened(tmp_path / "one", store=store):
            with pytest.raises(SettingsError, match="another hall on this store is on the network"):
                async with opened(tmp_path / "two", store=store):
                    raise AssertionError("it opened")
            async with opened(tmp_path / "three", store=store, port=None) as three:
                assert three.network is None
        async with opened(tmp_path / "two", store=store) as two:
            assert two.network is not None
    finally:
        server.stop()
