"""Files between agents of two nodes."""

import asyncio
import os
from pathlib import Path

import pytest

from moothall import Agent, Progress
from moothall.client import chunk_lane, transfer
from tests.client.door import Door
from tests.client.meeting import soon
from tests.client.test_files import contents, two_parties
from tests.support.real_cluster import Node, RealCluster


@pytest.fixture(autouse=True)
def _no_throttle(monkeypatch: pytest.MonkeyPatch) -> None:
    """These halls have no limits."""
    monkeypatch.setattr(chunk_lane, "CHUNK_SPACING", 0.0)
    monkeypatch.setattr(transfer, "RETRY_AFTER", 0.02)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder of several chunks."""
    folder = tmp_path / "project"
    (folder / "sub").mkdir(parents=True)
    (folder / "readme.md").write_text("# hello\n")
    (folder / "sub" / "noise.bin").write_bytes(os.urandom(1_500_000))
    return folder


async def known(there: Agent, here: Agent) -> None:
    """Until the node of one agent knows the other one."""

    async def look() -> None:
        while not await here.agents([there.address]):  # noqa: ASYNC110  # another process
            await asyncio.sleep(0.05)

    await soon(look())


async def connections(node: Node) -> float:
    _, _, body = await node.get("/metrics")
    return sum(
        float(line.split()[-1]) for line in body.splitlines() if line.startswith("moothall_connections{")
    )


async def test_a_folder_goes_to_an_agent_of_another_node(
    cluster: RealCluster, project: Path, tmp_path: Path
) -> None:
    async with two_parties(cluster[0].url, cluster[1].url) as (alice, bob):
        await known(bob.agent, alice.agent)
        sending = asyncio.create_task(alice.agent.send_files(bob.agent.address, project))
        offer = await bob.offers.next()
        assert (offer.sender, offer.verified) == (alice.agent.address, True)
        received = await soon(offer.accept(tmp_path / "inbox"))
        assert (await soon(sending)).state == "delivered"
        assert received.skipped == ()
        assert contents(tmp_path / "inbox" / "project") == contents(project)


async def test_a_transfer_goes_on_when_its_sender_comes_back_at_another_node(
    cluster: RealCluster, project: Path, tmp_path: Path
) -> None:
    here, there, third = cluster.nodes
    async with Door(here.port) as door, two_parties(door.url, there.url) as (alice, bob):
        await known(bob.agent, alice.agent)
        seen: list[int] = []

        def move(progress: Progress) -> None:
            seen.append(progress.chunks)
            if len(seen) == 2:
                door.lead_to(third.port)
                door.drop()

        sending = asyncio.create_task(alice.agent.send_files(bob.agent.address, project))
        offer = await bob.offers.next()
        assert offer.chunks > 4
        await soon(offer.accept(tmp_path / "inbox", progress=move))
        assert (await soon(sending)).state == "delivered"
        assert seen[1] < offer.chunks, "it was under way"
        assert await connections(third) == 1
        assert contents(tmp_path / "inbox" / "project") == contents(project)
