"""What an agent may do, and what becomes of what it sends, with the other agent at another real node."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import pytest

from tests.identity.vectors import ALICE, BOB
from tests.store.server import Server
from tests.support import keep
from tests.support.agentchat import PATIENCE, AgentChat, Refused
from tests.support.keep import keep_client
from tests.support.nats_server import NatsServer
from tests.support.real_cluster import LOOK_SECONDS, Node, RealCluster, listed
from tests.support.server import ADMIN_KEY

RATE = 4  # messages of a key in ten minutes


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, server: Server) -> Iterator[RealCluster]:
    folder = tmp_path_factory.mktemp("pair")
    with NatsServer(folder / "nats") as nats:
        flags = ("--set", f"rate_message={RATE}/600")
        cluster = RealCluster(folder, server.new_database(), nats.url, *flags, nodes=2, has_limits=True)
        try:
            cluster.start()
            asyncio.run(cluster.together())
            yield cluster
        finally:
            cluster.kill()


async def with_receipts(node: Node, name: str) -> AgentChat:
    agent = await AgentChat.open(node.url, name)
    await agent.send(type="IDENTIFY", name=name, features=["receipts"])
    agent.agent_id = (await agent.answer("WELCOME"))["agent_id"]
    return agent


async def test_the_rate_of_a_key_goes_with_it_from_node_to_node(pair: RealCluster) -> None:
    """It takes over at the other node, then leaves and comes back at the first one."""
    here, there = pair.nodes
    alice = await AgentChat.connect(here.url, "alice", ALICE)
    for number in range(RATE - 1):
        await alice.say(alice.agent_id, str(number), ref=str(number))
        await alice.answer("ACK", ref=str(number))
    moved = await AgentChat.connect(there.url, "alice", ALICE)
    await alice.expect("SESSION_DISPLACED")
    await moved.say(moved.agent_id, "last", ref="last")
    await moved.answer("ACK", ref="last")
    with pytest.raises(Refused, match="RATE_LIMITED"):
        await moved.ask("ACK", type="MSG", to=moved.agent_id, content="too much", ref="more")
    await moved.close()
    async with await AgentChat.connect(here.url, "alice", ALICE) as back:
        with pytest.raises(Refused, match="RATE_LIMITED"):
            await back.ask("ACK", type="MSG", to=back.agent_id, content="too much", ref="more")


async def test_a_receipt_waits_for_the_node_of_the_recipient(pair: RealCluster) -> None:
    here, there = pair.nodes
    alice, bob = await with_receipts(here, "alice"), await with_receipts(there, "bob")
    await listed(alice, bob.agent_id)
    there.freeze()
    try:
        await alice.say(bob.agent_id, "hello", receipt=True, ref="1")
        msg_id = (await alice.answer("ACK", ref="1"))["msg_id"]
        await alice.settle()
        assert alice.pending("RECEIPT") == []
    finally:
        there.thaw()
    assert (await alice.expect("RECEIPT", msg_id=msg_id))["status"] == "DELIVERED"
    await bob.expect("MSG", content="hello")
    for agent in (alice, bob):
        await agent.close()


async def test_packets_find_the_nearest_agent_and_a_swarm_at_the_other_node(pair: RealCluster) -> None:
    here, there = pair.nodes
    async with await AgentChat.connect(there.url, "lookout") as lookout:
        await lookout.create_channel("#harbour")
        with (
            keep_client(here.keep_port) as alice,
            keep_client(there.keep_port, keep.BOB, "bot:bob") as bob,
        ):
            bob.ask()
            async with asyncio.timeout(PATIENCE):
                while "bot:bob" not in alice.discover("agents")["agents"]:  # noqa: ASYNC110  # another process
                    await asyncio.sleep(LOOK_SECONDS)
            alice.send("nearest:bob", "to you")
            assert bob.receive().body == "to you"
            alice.send("swarm:harbour", "to all")
            assert (await lookout.expect("MSG", content="to all"))["via"] == "keep"


async def test_a_ban_at_one_node_holds_at_the_other(pair: RealCluster) -> None:
    here, there = pair.nodes
    async with await AgentChat.open(here.url) as admin:
        order = partial(admin.ask, "ADMIN_RESULT", admin_key=ADMIN_KEY, agent_id=BOB.public.agent_id())
        bob = await AgentChat.connect(there.url, "bob", BOB)
        await order(type="ADMIN_BAN", reason="spam")
        await bob.closed()
        for node in (there, here):
            with pytest.raises(Refused, match="BANNED: spam"):
                await AgentChat.connect(node.url, "bob", BOB)
        await order(type="ADMIN_UNBAN")
    async with asyncio.timeout(PATIENCE):
        while True:  # the other node reads the list within a second
            with suppress(Refused):
                async with await AgentChat.connect(there.url, "bob", BOB):
                    return
