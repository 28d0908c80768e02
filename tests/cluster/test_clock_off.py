"""A node whose clock is ten minutes ahead: proofs, deals and deadlines are as ever."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.identity.vectors import ALICE, BOB
from tests.store.server import Server
from tests.support.deals import signed
from tests.support.nats_server import NatsServer
from tests.support.notes import Record
from tests.support.real_cluster import Clocks, RealCluster
from tests.support.witness import Witness, enter

pytestmark = pytest.mark.slow

TEN_MINUTES = 605  # and a little: more than a proof may differ


@pytest.fixture
def pair(tmp_path: Path, server: Server, nats: NatsServer) -> Iterator[RealCluster]:
    ahead = {1: Clocks(tmp_path).off_by(TEN_MINUTES)}
    cluster = RealCluster(tmp_path, server.new_database(), nats.url, nodes=2, environments=ahead)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()


async def test_deals_of_a_node_whose_clock_is_ahead(pair: RealCluster, record: Record) -> None:
    right, ahead = pair.nodes
    assert round((await ahead.logged("clock_off"))["seconds"]) == TEN_MINUTES
    alice = await Witness.enter(record, right.url, ALICE)
    bob = await Witness.enter(record, ahead.url, BOB)
    offer = signed(ALICE, "PROPOSAL", to=bob.agent_id, task="review", expires=300)
    deal = (await alice.do("PROPOSAL", **offer))["id"]
    await bob.sees("PROPOSAL", id=deal)
    short = signed(BOB, "PROPOSAL", to=alice.agent_id, task="soon", expires=1)
    expired = (await bob.do("PROPOSAL", **short))["id"]
    for agent in (alice, bob):
        assert (await agent.sees("EXPIRED"))["proposal_id"] == expired  # and not the other one before it
    await bob.do("ACCEPT", **signed(BOB, "ACCEPT", proposal_id=deal, elo_stake=0))
    for agent in (alice, bob):
        await agent.close()


async def test_agents_of_a_node_whose_clock_is_ahead(pair: RealCluster, record: Record) -> None:
    """A channel, its floor, direct messages and takeovers; and the node is not given up."""
    right, ahead = pair.nodes
    await pair.together()
    alice = await enter(record, right, ALICE, "#work")
    bob = await enter(record, ahead, BOB, "#work")
    question = await alice.tell("#work")
    await bob.hears(question)
    await alice.hears(await bob.tell("#work"))
    await alice.hears(await bob.tell(alice.agent_id))
    await bob.hears(await alice.tell(bob.agent_id))
    await alice.claim("#work", question, 1000)
    await alice.acked()
    await bob.claim("#work", question, 2000)
    await bob.sees("YIELD", winner=alice.agent_id)
    for node in (right, ahead):
        again = await Witness.enter(record, node.url, BOB)
        assert await bob.closed() == (1000, "Identity claimed by verified connection")
        await alice.hears(await again.tell(alice.agent_id))
        bob = again
    for node in pair.nodes:
        assert not [line for line in node.stderr.lines if "node_silent" in line or "node_given_up" in line]
    for agent in (alice, bob):
        await agent.close()
    record.check()
