"""Whole deals between two reference nodes and an agent in our hall, and each of them started again on the way."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Final

import pytest

from moothall.identity import PrivateKey
from moothall.wire.mesh.envelope import NO_CONVERSATION
from moothall.wire.mesh.msg_types import MsgType
from tests.strangers.parties import HallParty, NodeParty, deal, in_hall
from tests.strangers.reference import Clock, Reference, StartReference
from tests.support.server import HallProcess, run_moothall

ADA: Final = PrivateKey(b"a" * 32)
TALK: Final = b"talk of the deal"
BEACON_PERIOD: Final = 31  # seconds, and one more
BEACONS: Final = 20
BEACON_PATIENCE: Final = 3  # seconds
MESSAGES: Final = 15  # that a node may have sent in a deal


class Mesh:
    """A hall between two reference nodes, and an agent in it.

    The nodes are not connected to each other. They send to the peer that brought a BEACON, so one that had come by
    the other node would lead them there (mesh wire 6.3).
    """

    first: NodeParty
    second: NodeParty
    ada: HallParty

    def __init__(self, folder: Path) -> None:
        self._clocks = Clock(folder / "first"), Clock(folder / "second")
        (folder / "hall").mkdir()
        self.hall = HallProcess(folder / "hall", "--no-limits")
        self._visit = AsyncExitStack()
        self._restarts = 0

    @property
    def nodes(self) -> tuple[Reference, Reference]:
        return self.first.node, self.second.node

    async def open(self, reference: StartReference) -> None:
        self.first = NodeParty(await reference("first", b"1" * 32, clock=self._clocks[0]))
        self.second = NodeParty(await reference("second", b"2" * 32, clock=self._clocks[1]))
        self.hall.use(*(f"--mesh-peer={node.address}" for node in self.nodes))
        await asyncio.to_thread(self.hall.start)
        words = ("ledger", "deposit", ADA.public.raw.hex(), "100", "--data-dir", "data")
        await asyncio.to_thread(run_moothall, self.hall.folder, *words)
        await self._acquaint()
        await self._enter()
        await self.ada.introduce(*self.nodes)

    async def close(self) -> None:
        await self._visit.aclose()
        await asyncio.to_thread(self.hall.kill)

    async def restart_hall(self) -> None:
        """As after a power cut."""
        await asyncio.to_thread(self.hall.kill)
        await self._visit.aclose()
        for node in self.nodes:
            node.log.clear()
        await asyncio.to_thread(self.hall.restart)
        await asyncio.gather(*(node.identifies(self.hall.key.raw) for node in self.nodes))
        await self._enter()
        await self.ada.introduce(*self.nodes)

    async def restart_first(self) -> None:
        """Peers drop what has an old nonce, and it starts with 1 again: it has to count up (mesh wire 3.2)."""
        await self.first.node.stop()
        await self.first.node.start(clock=self._clocks[0])
        await self.first.node.identifies(self.hall.key.raw)
        await self.ada.introduce(*self.nodes)
        self._restarts += 1
        for _ in range(MESSAGES * self._restarts):
            await self.first.say(MsgType.ADVERTISE, b"{}", b"", NO_CONVERSATION)

    async def _acquaint(self) -> None:
        """A BEACON reaches only those that are in the hall's part of the topic already. Another one comes later."""
        for node in self.nodes:
            await node.identifies(
                self.hall.key.raw
            )  # a handshake would be over if the clock went on meanwhile
        for _ in range(BEACONS):
            for clock in self._clocks:
                clock.hurry(BEACON_PERIOD)
            with suppress(TimeoutError):
                async with asyncio.timeout(BEACON_PATIENCE):
                    await self.first.hears(MsgType.BEACON, self.second.id, NO_CONVERSATION)
                    await self.second.hears(MsgType.BEACON, self.first.id, NO_CONVERSATION)
                    return
        raise AssertionError("the nodes do not know each other")

    async def _enter(self) -> None:
        self.ada = await self._visit.enter_async_context(in_hall(self.hall.url, ADA))


@pytest.fixture
async def mesh(reference: StartReference, tmp_path: Path) -> AsyncIterator[Mesh]:
    mesh = Mesh(tmp_path)
    try:
        await mesh.open(reference)
        yield mesh
    finally:
        await mesh.close()


async def test_deals_in_all_pairings(mesh: Mesh) -> None:
    """The hall takes those between the two nodes to the other side."""
    await deal(lambda: mesh.first, lambda: mesh.second, TALK)
    await deal(lambda: mesh.ada, lambda: mesh.first, TALK[::-1])
    await deal(lambda: mesh.second, lambda: mesh.ada, TALK.upper())


async def test_the_hall_starts_again_in_the_middle(mesh: Mesh) -> None:
    again = {MsgType.PROPOSE: mesh.restart_hall, MsgType.DELIVER: mesh.restart_hall}
    await deal(lambda: mesh.ada, lambda: mesh.first, TALK, again)


async def test_a_reference_node_starts_again_in_the_middle(mesh: Mesh) -> None:
    again = {MsgType.PROPOSE: mesh.restart_first, MsgType.ACCEPT: mesh.restart_first}
    await deal(lambda: mesh.ada, lambda: mesh.first, TALK, again)
