"""A node that does nothing for a while: others are not hurt, what waits for it is bounded, and it comes back."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.identity.vectors import ALICE, BOB, CAROL, DAVE
from tests.support.history import Fault, Healed
from tests.support.nats_server import NatsServer
from tests.support.notes import Record
from tests.support.real_cluster import RealCluster
from tests.support.witness import come_back, enter

MAX_PENDING = 256 * 1024  # bytes that NATS keeps for a node that does not read
LINES = 150
FILLING = "x" * 4000


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[NatsServer]:
    nats = NatsServer(tmp_path / "nats", f"max_payload: {MAX_PENDING}\nmax_pending: {MAX_PENDING}")
    nats.start()
    yield nats
    nats.kill()


async def test_a_node_stands_still(cluster: RealCluster, record: Record) -> None:
    """It is given up, and reads what its agents said meanwhile when it goes on."""
    first, slow, third = cluster.nodes
    alice = await enter(record, first, ALICE, "#work")
    bob, dave = await enter(record, slow, BOB), await enter(record, slow, DAVE, "#work")
    carol = await enter(record, third, CAROL)
    await alice.finds(bob, carol, dave)
    await bob.hears(await alice.tell(bob.agent_id))
    record.events.append(Fault())
    slow.freeze()
    try:
        for _ in range(LINES):
            await alice.tell(bob.agent_id, FILLING)  # more than NATS keeps for a node
            text = await alice.tell(carol.agent_id, FILLING)
        await carol.hears(text)
        again = await come_back(record, third, BOB)
        await bob.tell(alice.agent_id)  # refused: the id is another connection's
        await bob.tell(dave.agent_id)  # at the same node, which does not know yet
    finally:
        slow.thaw()
    await bob.closed()
    await cluster.together()
    record.events.append(Healed())
    await alice.hears(await again.tell(alice.agent_id))
    await again.finds(dave)
    await dave.hears(await again.tell(dave.agent_id))
    await dave.hears(await alice.tell("#work"))  # it is still a member
    await alice.hears(await dave.tell("#work"))
    back = await come_back(record, slow, BOB)
    await alice.hears(await back.tell(alice.agent_id))
    for agent in (alice, carol, dave, back):
        await agent.close()
    record.check()
