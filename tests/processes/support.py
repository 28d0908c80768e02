"""A hall of two node processes, and agents at both."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from moothall.identity import PrivateKey
from tests.support.agentchat import AgentChat
from tests.support.server import PATIENCE, HallProcess

NODES = ("node1", "node2")
MOST = 64  # connections until one is at the wanted node: the kernel chooses


class NodesProcess(HallProcess):
    start_seconds = 4 * PATIENCE  # it starts four processes

    def __init__(self, folder: Path, *flags: str, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(folder, "--nodes", str(len(NODES)), *flags, environment=environment)

    def pid_of(self, node: str) -> int:
        """Of the latest process of this node. The hall may be open before its log says so of each node."""
        self.stderr.wait_for(lambda line: '"node_ready"' in line and f'"{node}"' in line)
        pids: list[int] = [
            line["pid"] for line in self.log if line["event"] == "node_ready" and line["node"] == node
        ]
        return pids[-1]

    async def started_again(self, node: str) -> int:
        """The pid of the second process of this node, when it is ready."""
        first = self.pid_of(node)

        def is_ready(line: str) -> bool:
            return '"node_ready"' in line and f'"{node}"' in line and f'"pid": {first}' not in line

        assert await asyncio.to_thread(self.stderr.wait_for, is_ready, self.start_seconds), self.stderr.text
        return self.pid_of(node)


async def connections(hall: HallProcess, wire: str = "agentchat") -> dict[str, float]:
    """By node."""
    _, _, text = await hall.get("/metrics")
    counts = dict.fromkeys(NODES, 0.0)
    for family in text_string_to_metric_families(text):
        if family.name == "moothall_connections":
            for sample in family.samples:
                if sample.labels["wire"] == wire:
                    counts[sample.labels["node"]] += sample.value
    return counts


@asynccontextmanager
async def spread(hall: HallProcess) -> AsyncIterator[dict[str, AgentChat]]:
    """Anonymous agents, one at each node."""
    async with AsyncExitStack() as opened:
        yield {node: await opened.enter_async_context(await come(hall, node)) for node in NODES}


async def come(hall: HallProcess, node: str, key: PrivateKey | None = None) -> AgentChat:
    """An agent at this node: it comes again until the kernel gives its connection to the right one."""
    for _ in range(MOST):
        before = await connections(hall)
        agent = await AgentChat.connect(hall.url, "agent", key)
        if (await connections(hall))[node] > before[node]:
            return agent
        await agent.close()
    pytest.fail(f"{node} got no connection")
