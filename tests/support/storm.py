"""Many agents that talk, move, take over, claim and deal at random, while nodes and networks fail under them.

Afterwards `check` holds the history against what a hall promises, and the books against what dealers were told.
"""

import asyncio
import os
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final

from websockets.exceptions import WebSocketException

from moothall.identity import PrivateKey
from moothall.store.files import DataDirectory
from tests.store.server import Server
from tests.store.support import Place
from tests.support import deal_checks
from tests.support.agentchat import Closed, Refused
from tests.support.dealers import Ring
from tests.support.history import Fault, Healed
from tests.support.namespaces import Machine
from tests.support.nats_server import NatsServer
from tests.support.notes import Record
from tests.support.real_cluster import RealCluster
from tests.support.witness import Witness

PAUSE: Final = 0.05  # seconds, at most, between two operations of an agent
RETRY: Final = 0.1
CONNECTING: Final = 60.0
A_MOMENT: Final = 1.5  # shorter than it takes to be given up
LONG_ENOUGH_TO_BE_GIVEN_UP: Final = 6.0

FAILURES: Final = (Closed, Refused, OSError, TimeoutError, WebSocketException)  # at a node that fails

Wound = Callable[[], Awaitable[None]]  # hurts the cluster, and heals it


class Storm:
    """`operations` counts what agents did so far."""

    def __init__(
        self,
        cluster: RealCluster,
        dice: random.Random,
        *,
        agents: int = 10,
        channels: int = 3,
        dealers: int = 4,
    ) -> None:
        self.record = Record()
        self.operations = 0
        self._cluster = cluster
        self.dice = dice
        self._channels = [f"#storm-{number}" for number in range(channels)]
        self._keys = [PrivateKey(os.urandom(32)) for _ in range(agents)]
        self._witnesses: list[Witness | None] = [None] * agents
        self._ring = Ring([PrivateKey(os.urandom(32)) for _ in range(dealers)])
        self._over = False

    async def run(self, wounds: Sequence[Wound], operations: int) -> None:
        """Wounds one after the other, while agents act; until there were so many operations, and all is healed."""
        actors = [asyncio.create_task(self._act(number)) for number in range(len(self._keys))]
        dealing = asyncio.create_task(self._deal())
        try:
            for wound in wounds:
                await self._acted(max(1, operations // (len(wounds) + 1)))
                await wound()
            await self._acted(operations - self.operations)
        finally:
            self._over = True
            self._ring.stop()
            await asyncio.gather(*actors, dealing)
        await self._settle()

    def begin_fault(self) -> None:
        self.record.events.append(Fault())

    def end_fault(self) -> None:
        self.record.events.append(Healed())

    def check(self, folder: Path) -> None:
        self.record.check()
        deal_checks.check(Place(DataDirectory(folder), self._cluster.store), self._ring.diary)

    @property
    def deals(self) -> int:
        return len(self._ring.diary.told)

    async def go(self) -> None:
        for witness in self._witnesses:
            if witness is not None:
                await witness.close()

    async def _acted(self, operations: int) -> None:
        end = self.operations + operations
        while self.operations < end:  # noqa: ASYNC110  # of many tasks
            await asyncio.sleep(PAUSE)

    # -- agents ----------------------------------------------------------------------------------------

    async def _act(self, number: int) -> None:
        while not self._over:
            witness = self._witnesses[number]
            try:
                if witness is None or not witness.is_open:
                    await self._come(number)
                else:
                    await self._do_something(number, witness)
            except FAILURES:
                await asyncio.sleep(RETRY)
            self.operations += 1
            await asyncio.sleep(self.dice.uniform(0, PAUSE))

    async def _come(self, number: int) -> None:
        """To a random node. An earlier connection is displaced, or gone."""
        running = [node for node in self._cluster.nodes if node.is_running]
        url = self.dice.choice(running).url
        witness = await Witness.enter(self.record, url, self._keys[number], f"agent-{number}")
        old, self._witnesses[number] = self._witnesses[number], witness
        if old is not None and old.is_open:
            with suppress(*FAILURES):
                await old.tell(witness.agent_id)  # nobody may hear it
        for channel in self.dice.sample(self._channels, min(2, len(self._channels))):
            await witness.join_channel(channel)
        if old is not None:
            await old.close()

    async def _do_something(self, number: int, witness: Witness) -> None:
        dice = self.dice
        chance = dice.random()
        joined = sorted(witness.channels)
        if chance < 0.6 and joined:
            await witness.tell(dice.choice(joined))
        elif chance < 0.8:
            other = dice.choice(self._witnesses)
            if other is not None and other is not witness and other.agent_id:
                await witness.tell(other.agent_id)
        elif chance < 0.84 and len(joined) > 1:
            await witness.do("LEAVE", channel=dice.choice(joined))
        elif chance < 0.88 and self._channels:
            await witness.join_channel(dice.choice(self._channels))
        elif chance < 0.96 and witness.latest is not None:
            channel, text = witness.latest
            if channel in witness.channels:
                await witness.claim(channel, text, dice.randrange(1000))
        elif chance < 0.98:
            await self._come(number)
        else:
            await witness.close()

    # -- dealers ---------------------------------------------------------------------------------------

    async def _deal(self) -> None:
        """Dealers whose node is gone come back at others."""
        while not self._over:
            urls = [node.url for node in self._cluster.nodes if node.is_running]
            try:
                await self._ring.come_in(*urls)
                await self._ring.deal()
            except FAILURES:
                await asyncio.sleep(RETRY)
            await self._ring.go()

    # -- the end ---------------------------------------------------------------------------------------

    async def _settle(self) -> None:
        """All agents are connected, and a last text of each channel has come to all of its members."""
        async with asyncio.timeout(CONNECTING):
            for number, witness in enumerate(self._witnesses):
                while witness is None or not witness.is_open:
                    try:
                        await self._come(number)
                    except FAILURES:
                        await asyncio.sleep(RETRY)
                    witness = self._witnesses[number]
        witnesses = [witness for witness in self._witnesses if witness is not None]
        for witness in witnesses:
            await witness.acked()
        for channel in self._channels:
            members = [witness for witness in witnesses if channel in witness.channels]
            if len(members) > 1:
                text = await members[0].tell(channel)
                for member in members[1:]:
                    await member.hears(text)
        for one, other in pairwise(witnesses):
            text = await one.tell(other.agent_id)
            await other.hears(text)
        for witness in witnesses:
            await witness.acked()


def wounds_of(storm: Storm, cluster: RealCluster, nats: NatsServer, server: Server) -> list[Wound]:
    """Each kind of fault. Cables are cut only of nodes that have machines of their own."""
    dice = storm.dice

    async def kill_a_node() -> None:
        node = dice.choice(cluster.nodes)
        await asyncio.to_thread(node.kill)
        await asyncio.sleep(dice.uniform(0, LONG_ENOUGH_TO_BE_GIVEN_UP))
        await asyncio.to_thread(node.start)
        await cluster.together()

    async def kill_nats() -> None:
        storm.begin_fault()
        await asyncio.to_thread(nats.kill)
        await asyncio.sleep(dice.uniform(0, LONG_ENOUGH_TO_BE_GIVEN_UP))
        await asyncio.to_thread(nats.start)
        await cluster.together()
        storm.end_fault()

    async def kill_the_database() -> None:
        await asyncio.to_thread(server.kill)
        await asyncio.sleep(dice.uniform(0, 2))
        await asyncio.to_thread(server.start)

    async def freeze_a_node(seconds: float) -> None:
        node = dice.choice(cluster.nodes)
        storm.begin_fault()
        node.freeze()
        await asyncio.sleep(seconds)
        node.thaw()
        await cluster.together()
        storm.end_fault()

    async def cut_a_node(machine: Machine) -> None:
        storm.begin_fault()
        machine.cut()
        await asyncio.sleep(dice.uniform(0, 2 * LONG_ENOUGH_TO_BE_GIVEN_UP))
        machine.heal()
        await cluster.together()
        storm.end_fault()

    machines = [node.machine for node in cluster.nodes if node.machine is not None]
    return [
        kill_a_node,
        kill_nats,
        partial(freeze_a_node, A_MOMENT),
        kill_the_database,
        partial(freeze_a_node, LONG_ENOUGH_TO_BE_GIVEN_UP),
        *(partial(cut_a_node, machine) for machine in machines),
    ]
