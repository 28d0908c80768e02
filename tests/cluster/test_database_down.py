"""PostgreSQL goes away and comes back: chat goes on across nodes, deals answer UNAVAILABLE, nothing is done by
half, and no node has to be started again."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from moothall.identity import PrivateKey
from moothall.store.files import DataDirectory
from tests.identity.vectors import ALICE, BOB, CAROL
from tests.store.server import Server
from tests.store.support import Place
from tests.support.agentchat import AgentChat, Refused
from tests.support.deal_checks import check
from tests.support.dealers import Ring
from tests.support.deals import signed
from tests.support.namespaces import BACK, Networks
from tests.support.nats_server import NatsServer
from tests.support.real_cluster import RealCluster

pytestmark = pytest.mark.slow

OUTAGES = 2
STEPS = 30  # acknowledged ones before each outage


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def cluster(tmp_path: Path, server: Server, nats: NatsServer) -> Iterator[RealCluster]:
    cluster = RealCluster(tmp_path, server.new_database(), nats.url, nodes=2)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()


async def propose(proposer: AgentChat, to: AgentChat) -> None:
    assert proposer.key is not None
    offer = signed(proposer.key, "PROPOSAL", to=to.agent_id, task="review", elo_stake=5)
    await proposer.ask("PROPOSAL", type="PROPOSAL", **offer)


async def until_it_is_gone(proposer: AgentChat, to: AgentChat) -> None:
    """Its processes outlive the first one by a moment, and may take a COMMIT without an answer."""
    async with asyncio.timeout(30):
        while True:
            try:
                await propose(proposer, to)
            except Refused as refused:
                if refused.code == "UNAVAILABLE":
                    return


async def until_it_is_back(proposer: AgentChat, to: AgentChat) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                return await propose(proposer, to)
            except Refused as refused:
                if refused.code != "UNAVAILABLE":
                    raise
                await asyncio.sleep(0.1)  # a client that tries again


async def test_chat_goes_on_and_deals_are_unavailable(cluster: RealCluster, server: Server) -> None:
    """Alice and Bob are on two nodes, and so are the agents that come while the database is gone."""
    here, there = cluster[0].url, cluster[1].url
    await cluster.together()
    alice = await AgentChat.connect(here, "alice", ALICE)
    bob = await AgentChat.connect(there, "bob", BOB)
    for agent in (alice, bob):
        await agent.join("#general")
    await alice.expect("AGENT_JOINED", agent=bob.agent_id)
    await propose(alice, bob)
    deal = (await bob.expect("PROPOSAL"))["id"]
    server.kill()
    await until_it_is_gone(alice, bob)
    with pytest.raises(Refused, match=r"UNAVAILABLE: .*Nothing has changed"):
        await propose(alice, bob)
    with pytest.raises(Refused, match=r"UNAVAILABLE: .*Nothing has changed"):
        await bob.ask("ACCEPT", type="ACCEPT", **signed(BOB, "ACCEPT", proposal_id=deal, elo_stake=5))
    await alice.say("#general", "the database is gone")
    await bob.expect("MSG", to="#general", content="the database is gone")
    await bob.say(alice.agent_id, "I see")
    await alice.expect("MSG", to=alice.agent_id, content="I see")
    again = await AgentChat.connect(there, "bob", BOB)  # the node knows its key
    await bob.expect("SESSION_DISPLACED")
    for url in (here, there):
        with pytest.raises(Refused, match="UNAVAILABLE"):
            await AgentChat.connect(url, "carol", CAROL)
    async with await AgentChat.connect(there, "stranger") as stranger:
        await stranger.join("#general")
        await alice.expect("AGENT_JOINED", agent=stranger.agent_id)
    server.start()
    await until_it_is_back(alice, again)
    await again.ask("ACCEPT", type="ACCEPT", **signed(BOB, "ACCEPT", proposal_id=deal, elo_stake=5))
    await alice.expect("ACCEPT", proposal_id=deal)
    async with await AgentChat.connect(there, "carol", CAROL):
        pass
    for agent in (alice, bob, again):
        await agent.close()


async def test_deals_at_two_nodes_while_the_database_is_killed_again_and_again(
    cluster: RealCluster, server: Server, tmp_path: Path
) -> None:
    ring = Ring([PrivateKey(os.urandom(32)) for _ in range(8)])
    await ring.come_in(*(node.url for node in cluster.nodes))
    dealing = asyncio.create_task(ring.deal())
    for _ in range(OUTAGES):
        struck = asyncio.Event()

        def strike(struck: asyncio.Event = struck) -> None:
            server.kill()
            struck.set()

        ring.diary.strike_after(STEPS, strike)
        await asyncio.wait_for(struck.wait(), 30)
        await asyncio.to_thread(server.start)
    recovered = asyncio.Event()
    ring.diary.strike_after(STEPS, recovered.set)
    await asyncio.wait_for(recovered.wait(), 30)
    ring.stop()
    await asyncio.wait_for(dealing, 30)
    await ring.go()
    assert ring.diary.refused
    cluster.kill()
    check(Place(DataDirectory(tmp_path / "data"), cluster.store), ring.diary)


async def test_a_database_that_vanishes_without_a_word(tmp_path: Path) -> None:
    """The node's cable is cut: no end of a connection is told. UNAVAILABLE comes before clients give up."""
    with Networks(1) as networks:
        server = Server(BACK)
        cluster = RealCluster(tmp_path, server.new_database(), "", nodes=1, machines=networks.machines)
        try:
            cluster.start()
            alice = await AgentChat.connect(cluster[0].url, "alice", ALICE)
            bob = await AgentChat.connect(cluster[0].url, "bob", BOB)
            await propose(alice, bob)
            networks.machines[0].cut()
            with pytest.raises(Refused, match="UNAVAILABLE"):
                await propose(alice, bob)
            networks.machines[0].heal()
            await until_it_is_back(alice, bob)
            await alice.close()
            await bob.close()
        finally:
            cluster.kill()
            server.stop()
