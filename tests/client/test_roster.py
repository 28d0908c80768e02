"""Who is in a hall. Channels and their members are tested with the other operations."""

from moothall import Agent
from tests.identity.vectors import ALICE


async def test_all_agents_of_the_hall(url: str) -> None:
    alice, bob = Agent("alice", identity=ALICE, channels=["#general"]), Agent("bob", human=True)
    async with alice.connected(url), bob.connected(url):
        listed = {member.id: member for member in await alice.agents()}
        assert listed.keys() == {alice.address, bob.address}
        assert (listed[bob.address].name, listed[bob.address].is_human) == ("bob", True)
        assert [member.id for member in await bob.agents([alice.id, "00000000"])] == [alice.address]
        assert await bob.agents([]) == []
