"""Nodes on one NATS and one PostgreSQL are one hall: its roster, direct messages, takeovers, ends and returns."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.identity.vectors import ALICE, BOB, CAROL
from tests.store.server import Server
from tests.support.agentchat import AgentChat, Message, Refused
from tests.support.deals import signed
from tests.support.nats_server import NatsServer
from tests.support.real_cluster import Node, RealCluster
from tests.support.server import ADMIN_KEY, PATIENCE


@pytest.fixture(scope="module")
def database() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(tmp_path / "nats") as nats:
        yield nats


@pytest.fixture
def cluster(tmp_path: Path, database: Server, nats: NatsServer) -> Iterator[RealCluster]:
    cluster = RealCluster(tmp_path, database.new_database(), nats.url, nodes=2)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()


async def agents(asking: AgentChat) -> dict[str, Message]:
    listed = await asking.ask("AGENTS", type="LIST_AGENTS")
    return {entry["id"]: entry for entry in listed["list"]}


async def until_listed(asking: AgentChat, *expected: AgentChat) -> None:
    """Until the node of this agent knows these agents and no others."""
    async with asyncio.timeout(PATIENCE):
        while (await agents(asking)).keys() != {agent.agent_id for agent in expected}:  # noqa: ASYNC110  # over there
            await asyncio.sleep(0.05)


async def test_agents_of_two_nodes_are_in_one_hall(cluster: RealCluster) -> None:
    await cluster.together()
    here, there = cluster[0].url, cluster[1].url
    alice = await AgentChat.connect(here, "alice", ALICE)
    bob = await AgentChat.connect(there, "bob", BOB)
    await until_listed(alice, alice, bob)
    await until_listed(bob, alice, bob)

    await alice.say(bob.agent_id, "hello", ref="1")
    ack = await alice.answer("ACK", ref="1")
    assert (await bob.expect("MSG", content="hello"))["msg_id"] == ack["msg_id"]
    assert (await bob.verify(alice.agent_id))["pubkey"] == ALICE.public.pem

    await alice.join("#general")
    await bob.join("#general")
    await alice.expect("AGENT_JOINED", agent=bob.agent_id)
    await bob.say("#general", "hello all")
    await alice.expect("MSG", to="#general", content="hello all")

    offer = signed(ALICE, "PROPOSAL", to=bob.agent_id, task="review")
    deal = (await alice.ask("PROPOSAL", type="PROPOSAL", **offer))["id"]
    await bob.expect("PROPOSAL", id=deal)

    again = await AgentChat.connect(there, "alice", ALICE)
    await alice.expect("SESSION_DISPLACED")
    assert await alice.closed() == (1000, "Identity claimed by verified connection")
    await bob.say(again.agent_id, "there you are")
    await again.expect("MSG", content="there you are")
    carol = await AgentChat.connect(here, "carol", CAROL)
    await until_listed(carol, again, bob, carol)
    await bob.settle()
    assert bob.pending("PROPOSAL") == [], "a deal is told once"
    for agent in (again, bob, carol):
        await agent.close()


async def test_a_node_that_stops_leaves_at_once(cluster: RealCluster) -> None:
    """It says so in the registry, or its agents would be listed until it is given up."""
    await cluster.together()
    bob = await AgentChat.connect(cluster[1].url, "bob", BOB)
    alice = await AgentChat.connect(cluster[0].url, "alice", ALICE)
    await until_listed(bob, alice, bob)
    await asyncio.to_thread(cluster[0].stop)
    again = await AgentChat.connect(cluster[1].url, "alice", ALICE)
    await until_listed(bob, again, bob)
    silences = [line for line in cluster[1].stderr.lines if "node_silent" in line]
    assert silences == []
    for agent in (alice, again, bob):
        await agent.close()


async def test_agents_of_a_node_that_is_killed_come_back_elsewhere(cluster: RealCluster) -> None:
    await cluster.together()
    alice = await AgentChat.connect(cluster[0].url, "alice", ALICE)
    bob = await AgentChat.connect(cluster[1].url, "bob", BOB)
    await until_listed(bob, alice, bob)
    cluster[0].kill()
    again = await AgentChat.connect(cluster[1].url, "alice", ALICE)  # WELCOME when that life is over
    assert again.agent_id == alice.agent_id
    await until_listed(bob, again, bob)
    cluster[0].start()
    carol = await AgentChat.connect(cluster[0].url, "carol", CAROL)
    await until_listed(carol, again, bob, carol)
    await until_listed(bob, again, bob, carol)
    for agent in (alice, again, bob, carol):
        await agent.close()


async def test_a_bus_that_was_down_costs_no_agent_its_place(cluster: RealCluster, nats: NatsServer) -> None:
    await cluster.together()
    alice = await AgentChat.connect(cluster[0].url, "alice", ALICE)
    bob = await AgentChat.connect(cluster[1].url, "bob", BOB)
    await until_listed(alice, alice, bob)
    nats.kill()
    await cluster[0].reports(bus="down")
    await alice.say(bob.agent_id, "hello", ref="1")
    with pytest.raises(Refused) as refused:
        await alice.answer("ACK", ref="1")
    assert refused.value.code == "UNAVAILABLE"
    with pytest.raises(Refused) as refused:
        await AgentChat.connect(cluster[0].url, "carol", CAROL)
    assert refused.value.code == "UNAVAILABLE"
    await alice.say(alice.agent_id, "to myself")
    await alice.expect("MSG", content="to myself")
    nats.start()
    async with asyncio.timeout(PATIENCE):
        while True:
            await alice.say(bob.agent_id, "again", ref="2")
            try:
                await alice.answer("ACK", ref="2")
                break
            except Refused:
                await asyncio.sleep(0.1)
    await bob.expect("MSG", content="again")
    await until_listed(alice, alice, bob)
    await until_listed(bob, alice, bob)
    carol = await AgentChat.connect(cluster[0].url, "carol", CAROL)
    await until_listed(bob, alice, bob, carol)
    assert "SESSION_DISPLACED" not in alice.types() + bob.types()
    for agent in (alice, bob, carol):
        await agent.close()


async def shared_addresses(node: Node) -> float:
    _, _, body = await node.get("/metrics")
    (line,) = (line for line in body.splitlines() if line.startswith("moothall_shared_addresses "))
    return float(line.split()[1])


async def behind_a_proxy(node: Node, address: str) -> AgentChat:
    agent = await AgentChat.open(node.url, headers={"X-Forwarded-For": address})
    await agent.identify()
    return agent


async def test_limits_of_an_address_hold_for_both_nodes(
    tmp_path: Path, database: Server, nats: NatsServer
) -> None:
    """Its budget, and its wrong admin keys."""
    settings = {"address_frames": "100/10", "rate_admin": "3/600", "trusted_proxies": "127.0.0.1"}
    flags = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    cluster = RealCluster(tmp_path, database.new_database(), nats.url, *flags, nodes=2, has_limits=True)
    try:
        cluster.start()
        for node in cluster.nodes:
            await node.reports(nodes=2)
        flooder = await behind_a_proxy(cluster[0], "198.51.100.7")
        async with asyncio.timeout(2 * PATIENCE):
            while not await shared_addresses(cluster[1]):
                for _ in range(20):
                    await flooder.send(type="PING")
                await asyncio.sleep(0.05)
        assert not await shared_addresses(cluster[0]), "it has spent nothing elsewhere"

        one, other = [await behind_a_proxy(node, "198.51.100.8") for node in cluster.nodes]
        order = {"type": "ADMIN_KICK", "agent_id": "@00000000"}
        for _ in range(3):
            with pytest.raises(Refused, match="AUTH_REQUIRED"):
                await one.ask("ADMIN_RESULT", admin_key="wrong", **order)
        answer = ""
        async with asyncio.timeout(2 * PATIENCE):
            while "Too many wrong admin keys" not in answer:
                await asyncio.sleep(0.2)
                with pytest.raises(Refused, match=r"AGENT_NOT_FOUND|RATE_LIMITED: Too many wrong") as refused:
                    await other.ask("ADMIN_RESULT", admin_key=ADMIN_KEY, **order)
                answer = refused.value.message
        for agent in (flooder, one, other):
            agent.cut()
            await agent.close()
    finally:
        cluster.kill()
