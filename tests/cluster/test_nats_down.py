"""NATS goes away and comes back: each node keeps its own agents talking, and afterwards all is one hall again."""

import pytest

from tests.identity.vectors import ALICE, BOB, CAROL, DAVE
from tests.support.agentchat import Refused
from tests.support.history import Fault, Healed
from tests.support.nats_server import NatsServer
from tests.support.notes import Record
from tests.support.real_cluster import RealCluster
from tests.support.witness import Witness, enter


async def test_nats_goes_away_and_comes_back(cluster: RealCluster, nats: NatsServer, record: Record) -> None:
    here, there = cluster[0], cluster[1]
    alice, bob = [await enter(record, here, key, "#work") for key in (ALICE, BOB)]
    carol = await enter(record, there, CAROL, "#work")
    question = await alice.tell("#work")
    for agent in (bob, carol):
        await agent.hears(question)
    await alice.acked()

    record.events.append(Fault())
    nats.kill()
    for node in cluster.nodes:
        await node.reports(bus="down")
    await bob.hears(await alice.tell("#work"))  # those of one node go on
    await carol.tell("#work")
    with pytest.raises(Refused, match="UNAVAILABLE"):
        await Witness.enter(record, here.url, DAVE)  # nobody can say whether another node has this key
    again = await Witness.enter(record, here.url, BOB)
    await again.join_channel("#work")
    await again.claim("#work", question, 2000)
    await carol.claim("#work", question, 1000)
    for agent in (again, carol):
        await agent.acked()

    nats.start()
    for node in cluster.nodes:
        await node.reports(bus="up")
    await cluster.together()
    assert (await again.sees("YIELD", channel="#work"))["winner"] == carol.agent_id
    for agent in (alice, again, carol):
        await agent.told_of_gap("#work")
    record.events.append(Healed())
    text = await carol.tell("#work")
    for agent in (alice, again):
        await agent.hears(text)
    text = await again.tell("#work")
    for agent in (alice, carol):
        await agent.hears(text)
    dave = await enter(record, there, DAVE, "#work")
    await alice.hears(await dave.tell("#work"))
    for agent in (alice, again, carol, dave):
        await agent.close()
    record.check()


async def test_nats_comes_back_without_what_it_had(
    cluster: RealCluster, nats: NatsServer, record: Record
) -> None:
    alice = await enter(record, cluster[0], ALICE, "#work")
    carol = await enter(record, cluster[1], CAROL, "#work")
    record.events.append(Fault())
    nats.kill()
    for node in cluster.nodes:
        await node.reports(bus="down")
    for agent in (alice, carol):
        await agent.tell("#work")
        await agent.acked()
    nats.forget()
    nats.start()
    for node in cluster.nodes:
        await node.reports(bus="up")
    await cluster.together()
    for agent in (alice, carol):
        await agent.told_of_gap("#work")
    record.events.append(Healed())
    await alice.hears(await carol.tell("#work"))
    await carol.hears(await alice.tell("#work"))
    for agent in (alice, carol):
        await agent.close()
    record.check()
