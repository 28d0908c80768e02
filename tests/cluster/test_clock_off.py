"""A node whose clock is ten minutes ahead: proofs, deals and deadlines are as ever."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.identity.vectors import ALICE, BOB
from tests.store.server import Server
from tests.support.deals import signed
from tests.support.notes import Record
from tests.support.real_cluster import Clocks, RealCluster
from tests.support.witness import Witness

pytestmark = pytest.mark.slow

TEN_MINUTES = 605  # and a little: more than a proof may differ


@pytest.fixture
def pair(tmp_path: Path, server: Server) -> Iterator[RealCluster]:
    ahead = {1: Clocks(tmp_path).off_by(TEN_MINUTES)}
    cluster = RealCluster(tmp_path, server.new_database(), "", nodes=2, environments=ahead)
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
