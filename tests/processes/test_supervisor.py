"""A hall of several node processes, for real: one port, restarts, and an end in order."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from moothall.errors import UsageError
from moothall.identity import PrivateKey
from moothall.store.files import DataDirectory
from tests.identity.vectors import ALICE, BOB
from tests.support.agentchat import AgentChat
from tests.support.deals import signed
from tests.support.server import PATIENCE, HallProcess

pytestmark = pytest.mark.slow

NODES = ("node1", "node2")
ROOT = {"PYTHONPATH": str(Path(__file__).parents[2])}
MOST = 64  # connections until one is at the wanted node: the kernel chooses


class NodesProcess(HallProcess):
    command = (sys.executable, "-m", "tests.processes.program", "serve")
    start_seconds = 4 * PATIENCE  # three processes

    def pid_of(self, node: str) -> int:
        """Of the latest process of this node."""
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


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[NodesProcess]:
    hall = NodesProcess(tmp_path, environment=ROOT)
    hall.start()
    yield hall
    hall.kill()


async def connections(hall: HallProcess) -> dict[str, float]:
    """Of agents, by node."""
    _, _, text = await hall.get("/metrics")
    counts = dict.fromkeys(NODES, 0.0)
    for family in text_string_to_metric_families(text):
        if family.name == "moothall_connections":
            for sample in family.samples:
                counts[sample.labels["node"]] += sample.value
    return counts


@asynccontextmanager
async def spread(hall: HallProcess) -> AsyncIterator[dict[str, AgentChat]]:
    """Anonymous agents, one at each node."""
    found: dict[str, AgentChat] = {}
    async with AsyncExitStack() as opened:
        for _ in range(MOST):
            before = await connections(hall)
            agent = await opened.enter_async_context(await AgentChat.connect(hall.url, "agent"))
            after = await connections(hall)
            (node,) = [node for node in NODES if after[node] > before[node]]
            found[node] = agent
            if len(found) == len(NODES):
                yield found
                return
    pytest.fail("one node got all connections")


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def until_gone(*pids: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while any(map(is_alive, pids)):  # noqa: ASYNC110  # they are not children of this process
            await asyncio.sleep(0.01)


async def test_a_killed_node_is_started_again_and_all_end_when_the_hall_is_told_to_stop(
    hall: NodesProcess,
) -> None:
    async with spread(hall) as agents:
        os.kill(hall.pid_of("node1"), signal.SIGKILL)
        await agents["node1"].closed()
        await agents["node2"].ask("AGENTS", type="LIST_AGENTS", channel="#general")
        ended = await hall.logged("node_ended")
        assert (ended["node"], ended["code"]) == ("node1", -signal.SIGKILL)
        await hall.started_again("node1")
        pids = [hall.pid_of(node) for node in NODES]
        hall.process.send_signal(signal.SIGTERM)
        assert (await agents["node2"].closed())[0] == 1001
    assert await asyncio.to_thread(hall.wait) == 0
    assert not any(map(is_alive, pids))
    stopped = [line.get("node") for line in hall.log if line["event"] == "server_stop"]
    assert sorted(stopped, key=str) == [None, *NODES]


async def test_nodes_end_with_the_supervising_process_and_nothing_acknowledged_is_lost(
    hall: NodesProcess,
) -> None:
    pids = [hall.pid_of(node) for node in NODES]
    async with await come(hall, ALICE) as alice, await come(hall, BOB) as bob:
        deal = (await alice.ask("PROPOSAL", type="PROPOSAL", **offer(ALICE, bob)))["id"]
        await bob.expect("PROPOSAL", id=deal)
        os.kill(pids[1], signal.SIGSTOP)
        hall.process.kill()
        await until_gone(pids[0])
        directory = DataDirectory(hall.data_dir)
        with pytest.raises(UsageError, match="another hall or node is using it"):  # while a node lives
            directory.claim()
        os.kill(pids[1], signal.SIGCONT)
        await until_gone(pids[1])
    hall.wait()
    hall.restart()
    async with await come(hall, BOB) as bob:
        accepted = signed(BOB, "ACCEPT", proposal_id=deal)
        assert (await bob.ask("ACCEPT", type="ACCEPT", **accepted))["proposal_id"] == deal


def test_a_setting_that_no_node_can_serve_is_explained_once(tmp_path: Path) -> None:
    hall = NodesProcess(tmp_path, "--cert", "no.pem", "--key", "no.key", environment=ROOT)
    with pytest.raises(AssertionError, match=r"there is no TLS certificate no\.pem") as raised:
        hall.start()
    assert str(raised.value).count("there is no TLS certificate") == 1


async def come(hall: HallProcess, key: PrivateKey) -> AgentChat:
    return await AgentChat.connect(hall.url, "agent", key)


def offer(key: PrivateKey, recipient: AgentChat) -> dict[str, object]:
    return signed(key, "PROPOSAL", to=recipient.agent_id, task="review")
