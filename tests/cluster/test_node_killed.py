"""A node is killed: its agents are announced as gone and come back elsewhere, and nothing acknowledged is lost."""

from tests.identity.vectors import ALICE, BOB, CAROL, DAVE
from tests.support.deals import signed
from tests.support.notes import Record
from tests.support.real_cluster import RealCluster
from tests.support.witness import come_back, enter


async def test_a_node_is_killed(cluster: RealCluster, record: Record) -> None:
    """Bob's node is also the home of the channel, which he entered first. His deals and their deadlines stay."""
    home, second, third = cluster.nodes
    bob = await enter(record, home, BOB, "#work")
    alice = await enter(record, second, ALICE, "#work")
    carol = await enter(record, third, CAROL, "#work")
    for agent in (alice, bob, carol):
        for _ in range(5):
            await agent.tell("#work")
    for agent in (alice, bob, carol):
        await agent.acked()
    offer = signed(BOB, "PROPOSAL", to=alice.agent_id, task="review", elo_stake=5)
    deal = (await bob.do("PROPOSAL", **offer))["id"]
    short = signed(BOB, "PROPOSAL", to=carol.agent_id, task="soon", expires=1)
    expiring = (await bob.do("PROPOSAL", **short))["id"]
    last = await bob.tell("#work")
    await bob.acked()

    home.kill()
    for agent in (alice, carol):
        await agent.sees("AGENT_LEFT", channel="#work", agent=bob.agent_id)
        await agent.hears(last)
    await carol.sees("EXPIRED", proposal_id=expiring)
    await alice.hears(await carol.tell("#work"))
    await carol.hears(await alice.tell("#work"))

    again = await come_back(record, third, BOB)
    await again.join_channel("#work")
    (listed,) = [
        each for each in (await again.do("LIST_PROPOSALS", limit=50))["list"] if each["proposal_id"] == deal
    ]
    assert listed["status"] == "pending"
    await alice.do("ACCEPT", **signed(ALICE, "ACCEPT", proposal_id=deal, elo_stake=5))
    await again.sees("ACCEPT", proposal_id=deal)
    home.start()
    dave = await enter(record, home, DAVE, "#work")
    text = await dave.tell("#work")
    for agent in (alice, again, carol):
        await agent.hears(text)
    for agent in (alice, again, carol, dave):
        await agent.close()
    record.check()
