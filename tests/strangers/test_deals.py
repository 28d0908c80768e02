"""Whole deals between reference nodes, nodes of ours and an agent in our hall. Each is started again on the way."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Final

import pytest

from moothall.identity import PrivateKey
from moothall.p2p.multiaddr import Multiaddr
from moothall.wire.mesh.envelope import NO_CONVERSATION
from moothall.wire.mesh.msg_types import MsgType
from tests.strangers.node_program import NodeProgram, free_port
from tests.strangers.our_node import StartOurs
from tests.strangers.parties import BEACON_PATIENCE, BEACONS, HallParty, NodeParty, Party, deal, in_hall
from tests.strangers.reference import Clock, StartReference
from tests.support.network import until
from tests.support.server import HallProcess, run_moothall

ADA: Final = PrivateKey(b"a" * 32)
TALK: Final = b"talk of the deal"
BEACON_PERIOD: Final = 31  # seconds, and one more
ESTABLISHED: Final = "01"  # in /proc/net/tcp
MESSAGES: Final = 15  # that a node may have sent in a deal


class Mesh:
    """A hall with an agent in it, between two reference nodes and two of ours.

    The nodes are not connected to each other. They send to the peer that brought a BEACON, so one that had come by
    another node would lead them there (mesh wire 6.3).
    """

    first: NodeParty
    second: NodeParty
    ours: NodeParty
    other: NodeParty
    ada: HallParty

    def __init__(self, folder: Path) -> None:
        self._clocks = Clock(folder / "first"), Clock(folder / "second")
        (folder / "hall").mkdir()
        self._port = free_port()
        self.hall = HallProcess(folder / "hall", "--no-limits", f"--mesh-port={self._port}")
        self._visit = AsyncExitStack()
        self._restarts = 0

    @property
    def references(self) -> tuple[NodeProgram, NodeProgram]:
        return self.first.node, self.second.node

    @property
    def nodes(self) -> tuple[NodeProgram, ...]:
        return *self.references, self.ours.node, self.other.node

    async def open(self, reference: StartReference, our_node: StartOurs) -> None:
        self.first = NodeParty(await reference("first", b"1" * 32, clock=self._clocks[0]))
        self.second = NodeParty(await reference("second", b"2" * 32, clock=self._clocks[1]))
        self.hall.use(*(f"--mesh-peer={node.address}" for node in self.references))
        await asyncio.to_thread(self.hall.start)
        words = ("ledger", "deposit", ADA.public.raw.hex(), "100", "--data-dir", "data")
        await asyncio.to_thread(run_moothall, self.hall.folder, *words)
        address = Multiaddr.of_socket("127.0.0.1", self._port, self.hall.key.raw)
        self.ours = NodeParty(await our_node("ours", b"3" * 32, address))
        for node in (*self.references, self.ours.node):  # else its BEACON may be too late for the last one
            await node.identifies(self.hall.key.raw)
        self.other = NodeParty(await our_node("other", b"4" * 32, address))
        await self.ours.node.knows(self.other.id)
        await self._acquaint()
        await self._enter()

    async def close(self) -> None:
        await self._visit.aclose()
        await asyncio.to_thread(self.hall.kill)

    async def restart_hall(self) -> None:
        """As after a power cut. The nodes forget who was behind the hall, so they need new BEACONs."""
        await asyncio.to_thread(self.hall.kill)
        await self._visit.aclose()
        for node in self.nodes:
            node.forget()
        await asyncio.to_thread(self.hall.restart)
        await asyncio.gather(*(node.identifies(self.hall.key.raw) for node in self.nodes))
        await self._enter()

    async def restart_first(self) -> None:
        """Peers drop what has an old nonce, and it starts with 1 again: it has to count up (mesh wire 3.2).

        It has forgotten which agents are where, so a BEACON from before its restart counts no more.
        """
        await self.first.node.stop()
        self.first.node.forget()
        await self.first.node.start()
        await self.first.node.identifies(self.hall.key.raw)
        await self.ada.introduce(self.first.node)
        self._restarts += 1
        for _ in range(MESSAGES * self._restarts):
            await self.first.say(MsgType.ADVERTISE, b"{}", b"", NO_CONVERSATION)

    async def restart_ours(self) -> None:
        await self.ours.node.stop()
        await self.ours.node.start()
        await self.ours.node.identifies(self.hall.key.raw)
        await self._acquaint()

    async def _acquaint(self) -> None:
        """A BEACON reaches only those that are in the hall's part of the topic already. Another one comes later.

        A reference node needs one of each that it answers. Ours needs one only to begin: answers go back the way
        that a message came.
        """
        for _ in range(BEACONS):
            for clock in self._clocks:
                clock.hurry(BEACON_PERIOD)
            with suppress(TimeoutError):
                async with asyncio.timeout(BEACON_PATIENCE):
                    for node in self.references:
                        for other in self.nodes:
                            if node is not other:
                                await node.knows(other.id)
                                await other.knows(node.id)
                    return
        raise AssertionError("the nodes do not know each other")

    async def _enter(self) -> None:
        self.ada = await self._visit.enter_async_context(in_hall(self.hall.url, ADA))
        await self.ada.introduce(*self.nodes)


@pytest.fixture
async def mesh(reference: StartReference, our_node: StartOurs, tmp_path: Path) -> AsyncIterator[Mesh]:
    mesh = Mesh(tmp_path)
    try:
        await mesh.open(reference, our_node)
        yield mesh
    finally:
        await mesh.close()


def constant(party: Party) -> Callable[[], Party]:
    return lambda: party


async def test_deals_in_all_pairings(mesh: Mesh) -> None:
    """The hall takes those between two nodes to the other side."""
    pairings: tuple[tuple[Party, Party], ...] = (
        (mesh.first, mesh.second),
        (mesh.ada, mesh.first),
        (mesh.second, mesh.ada),
        (mesh.ours, mesh.first),
        (mesh.second, mesh.ours),
        (mesh.ours, mesh.ada),
        (mesh.ada, mesh.ours),
        (mesh.ours, mesh.other),
    )
    for number, (requester, provider) in enumerate(pairings, 1):
        await deal(constant(requester), constant(provider), number.to_bytes(16))


async def test_the_hall_starts_again_in_the_middle(mesh: Mesh) -> None:
    again = {MsgType.PROPOSE: mesh.restart_hall, MsgType.DELIVER: mesh.restart_hall}
    await deal(lambda: mesh.ada, lambda: mesh.first, TALK, afterwards=again)


async def test_a_reference_node_starts_again_in_the_middle(mesh: Mesh) -> None:
    again = {MsgType.PROPOSE: mesh.restart_first, MsgType.ACCEPT: mesh.restart_first}
    await deal(lambda: mesh.ada, lambda: mesh.first, TALK, afterwards=again)


async def test_our_node_starts_again_in_the_middle(mesh: Mesh) -> None:
    again = {MsgType.PROPOSE: mesh.restart_ours, MsgType.ACCEPT: mesh.restart_ours}
    await deal(lambda: mesh.ours, lambda: mesh.second, TALK, on_the_way=again)
    await deal(lambda: mesh.ada, lambda: mesh.ours, TALK[::-1], afterwards=again)


async def test_a_reference_node_dials_a_busy_hall(reference: StartReference, tmp_path: Path) -> None:
    """It dials twice when it starts, and goes on with the second dial if the first one takes its time."""
    (tmp_path / "hall").mkdir()
    port = free_port()
    hall = HallProcess(tmp_path / "hall", "--no-limits", f"--mesh-port={port}")
    await asyncio.to_thread(hall.start)
    try:
        async with in_hall(hall.url, ADA) as ada:
            hall.process.send_signal(signal.SIGSTOP)
            address = Multiaddr.of_socket("127.0.0.1", port, hall.key.raw)
            node = NodeParty(await reference("first", b"1" * 32, address))
            await until(lambda: connections_to(port) == 2)
            hall.process.send_signal(signal.SIGCONT)
            await node.node.identifies(hall.key.raw)
            await ada.introduce(node.node)
            await deal(constant(node), constant(ada), TALK)
    finally:
        hall.kill()


def connections_to(port: int) -> int:
    """Those that the kernel has made in this network."""
    rows = [line.split() for line in Path("/proc/thread-self/net/tcp").read_text().splitlines()[1:]]
    return sum(row[2].endswith(f":{port:04X}") and row[3] == ESTABLISHED for row in rows)
