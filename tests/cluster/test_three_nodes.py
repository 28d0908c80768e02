"""Three real nodes are one hall: an agent cannot tell on which of them the others are."""

import asyncio

import pytest

from tests.identity.vectors import ALICE, BOB, CAROL
from tests.support.agentchat import Refused
from tests.support.notes import Record
from tests.support.real_cluster import RealCluster
from tests.support.server import ADMIN_KEY
from tests.support.witness import Witness, enter


async def test_one_room(cluster: RealCluster, record: Record) -> None:
    """Roster, channels, direct messages, order, takeover and bans, as agents of three nodes see them."""
    alice, bob, carol = [
        await enter(record, node, key, "#general")
        for node, key in zip(cluster.nodes, (ALICE, BOB, CAROL), strict=True)
    ]
    everybody = {agent.agent_id for agent in (alice, bob, carol)}
    for agent in (alice, bob, carol):
        listed = (await agent.do("LIST_AGENTS"))["list"]
        assert everybody <= {entry["id"] for entry in listed}
    await asyncio.gather(*(agent.tell("#general") for agent in (alice, bob, carol) for _ in range(20)))
    for one in (alice, bob, carol):
        for other in (alice, bob, carol):
            if one is not other:
                await other.hears(await one.tell(other.agent_id))
    await settle(alice, bob, carol)

    again = await Witness.enter(record, cluster[2].url, BOB)
    assert await bob.closed() == (1000, "Identity claimed by verified connection")
    assert bob.displaced
    await alice.hears(await again.tell(alice.agent_id))
    await again.join_channel("#general")
    await settle(alice, again, carol)

    banned = {"agent_id": carol.agent_id, "reason": "spam", "admin_key": ADMIN_KEY}
    assert (await alice.do("ADMIN_BAN", **banned))["success"]
    assert await carol.closed() == (1000, "Banned by admin")
    with pytest.raises(Refused, match="BANNED"):
        await Witness.enter(record, cluster[0].url, CAROL)
    await settle(alice, again)
    for agent in (alice, again):
        await agent.close()
    record.check()


async def settle(*members: Witness) -> None:
    """Each of them has heard what the others said in the channel so far."""
    for one in members:
        text = await one.tell("#general")
        for other in members:
            if one is not other:
                await other.hears(text)
        await one.acked()
