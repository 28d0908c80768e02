"""What a hall does by itself, it does once and not once per node: idle prompts, callbacks, deadlines."""

from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import pytest

from moothall.wire.agentchat.callback_markers import FIRED
from tests.identity.vectors import ALICE, BOB, CAROL
from tests.store.server import Server
from tests.support.agentchat import AgentChat, Message
from tests.support.deals import signed
from tests.support.nats_server import NatsServer
from tests.support.real_cluster import RealCluster

QUIET = 2  # seconds until a channel gets a prompt
PROMPTS = 3


@pytest.fixture
async def agents(tmp_path: Path, server: Server, nats: NatsServer) -> AsyncIterator[list[AgentChat]]:
    """Alice, Bob and Carol, each on a node of their own, and members of one channel."""
    cluster = RealCluster(tmp_path, server.new_database(), nats.url, "--set", f"idle_timeout={QUIET}")
    try:
        cluster.start()
        await cluster.together()
        agents = [
            await AgentChat.connect(node.url, "agent", key)
            for node, key in zip(cluster.nodes, (ALICE, BOB, CAROL), strict=True)
        ]
        for agent in agents:
            await agent.join("#general")
        yield agents
        for agent in agents:
            await agent.close()
    finally:
        cluster.kill()


def prompts(agent: AgentChat) -> list[Message]:
    return [message for message in agent.received if is_prompt(message)]


def is_prompt(message: Message) -> bool:
    return message["type"] == "MSG" and "are here - " in message["content"]


async def test_idle_prompts_callbacks_and_deadlines(agents: list[AgentChat]) -> None:
    alice, bob, carol = agents
    for prompt in range(1, PROMPTS + 1):
        for agent in agents:
            while len(prompts(agent)) < prompt:
                await agent.expect("MSG")
    await bob.say("#general", "@@cb:1s@@first @@cb:2s@@last")
    deals = []
    for seconds in (1, 2):
        offer = signed(ALICE, "PROPOSAL", to=carol.agent_id, task="soon", expires=seconds)
        deals.append((await alice.ask("PROPOSAL", type="PROPOSAL", **offer))["id"])
    await bob.expect("MSG", content=f"{FIRED}last")
    for agent in (alice, carol):
        await agent.expect("EXPIRED", proposal_id=deals[-1])
    for agent in agents:
        await agent.settle()

    fired = [message["content"] for message in bob.received if message.get("cb_id")]
    assert fired == [f"{FIRED}first", f"{FIRED}last"]
    for agent in (alice, carol):
        expired = [message["proposal_id"] for message in agent.received if message["type"] == "EXPIRED"]
        assert expired == deals
    seen = [prompts(agent)[:PROMPTS] for agent in agents]
    assert seen[0] == seen[1] == seen[2], "all nodes tell the same ones"
    times = [message["ts"] for message in seen[0]]
    assert all(later - earlier >= 1000 * QUIET for earlier, later in pairwise(times))
