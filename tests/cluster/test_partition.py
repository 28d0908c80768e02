"""A node whose cable is cut: it cannot take over ids, and others can take over those of its agents."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.identity.vectors import ALICE, BOB, CAROL, DAVE
from tests.store.server import Server
from tests.support.agentchat import Refused
from tests.support.history import Fault, Healed
from tests.support.namespaces import BACK, Networks
from tests.support.nats_server import NatsServer
from tests.support.notes import Record
from tests.support.real_cluster import RealCluster
from tests.support.witness import Witness, come_back, enter


@pytest.fixture
def networks() -> Iterator[Networks]:
    with Networks(3) as networks:
        yield networks


@pytest.fixture
async def cluster(tmp_path: Path, networks: Networks) -> AsyncIterator[RealCluster]:
    server, nats = Server(BACK), NatsServer(tmp_path / "nats", address=BACK)
    nats.start()
    cluster = RealCluster(tmp_path, server.new_database(), nats.url, machines=networks.machines)
    try:
        cluster.start()
        await cluster.together()
        yield cluster
    finally:
        cluster.kill()
        nats.kill()
        server.stop()


async def test_a_node_that_is_cut_off_takes_over_no_ids(
    networks: Networks, cluster: RealCluster, record: Record
) -> None:
    most, also_most, few = cluster.nodes
    alice = await enter(record, most, ALICE)
    bob = await enter(record, also_most, BOB)
    carol, dave = await enter(record, few, CAROL), await enter(record, few, DAVE)
    await alice.finds(bob, carol, dave)
    await dave.hears(await alice.tell(dave.agent_id))
    record.events.append(Fault())
    networks.machines[2].cut()
    await few.reports(bus="down")
    with pytest.raises(Refused, match="UNAVAILABLE"):
        await Witness.enter(record, few.url, BOB)
    await alice.hears(await bob.tell(alice.agent_id))
    await dave.hears(await carol.tell(dave.agent_id))  # those of one node go on

    again = await come_back(record, most, CAROL)
    await carol.tell(alice.agent_id)  # refused: the id is another connection's
    await carol.acked()
    await again.finds(bob)
    await bob.hears(await again.tell(bob.agent_id))
    networks.machines[2].heal()
    await few.reports(bus="up")
    await carol.closed()
    await cluster.together()
    record.events.append(Healed())
    await again.finds(dave)
    await dave.hears(await again.tell(dave.agent_id))
    here = await come_back(record, few, BOB)
    assert await bob.closed() == (1000, "Identity claimed by verified connection")
    await alice.hears(await here.tell(alice.agent_id))
    for agent in (alice, again, dave, here):
        await agent.close()
    record.check()
