"""A hall of several node processes, for real: one port, restarts, and an end in order."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from moothall.errors import UsageError
from moothall.identity import PrivateKey
from moothall.store.files import DataDirectory
from tests.identity.vectors import ALICE, BOB
from tests.processes.support import NODES, NodesProcess, spread
from tests.support.agentchat import AgentChat
from tests.support.deals import signed
from tests.support.server import PATIENCE, HallProcess

pytestmark = pytest.mark.slow


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[NodesProcess]:
    hall = NodesProcess(tmp_path)
    hall.start()
    yield hall
    hall.kill()


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
        for agent in agents.values():
            await agent.ask("JOINED", type="JOIN", channel="#general")
        os.kill(hall.pid_of("node1"), signal.SIGKILL)
        await agents["node1"].closed()
        await agents["node2"].expect("AGENT_LEFT", agent=agents["node1"].agent_id)
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
    async with await connect(hall, ALICE) as alice, await connect(hall, BOB) as bob:
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
    async with await connect(hall, BOB) as bob:
        accepted = signed(BOB, "ACCEPT", proposal_id=deal)
        assert (await bob.ask("ACCEPT", type="ACCEPT", **accepted))["proposal_id"] == deal


def test_a_setting_that_no_node_can_serve_is_explained_once(tmp_path: Path) -> None:
    hall = NodesProcess(tmp_path, "--cert", "no.pem", "--key", "no.key")
    with pytest.raises(AssertionError, match=r"there is no TLS certificate no\.pem") as raised:
        hall.start()
    assert str(raised.value).count("there is no TLS certificate") == 1


async def connect(hall: HallProcess, key: PrivateKey) -> AgentChat:
    return await AgentChat.connect(hall.url, "agent", key)


def offer(key: PrivateKey, recipient: AgentChat) -> dict[str, object]:
    return signed(key, "PROPOSAL", to=recipient.agent_id, task="review")
