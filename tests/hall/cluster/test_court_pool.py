"""Who may judge in a hall of several nodes: the agents in its roster, each of them once."""

from moothall.hall.cluster.nodes import SILENCE_SECONDS
from moothall.hall.elsewhere import EXPIRY_SECONDS, Connected
from moothall.identity import PrivateKey
from tests.court.support import rated
from tests.hall.cluster.test_letters import HallsOnOneStore
from tests.hall.test_other_halls import propose
from tests.identity.vectors import ALICE, BOB
from tests.support.cases import ARBITERS, COMMITMENT, signed_step
from tests.support.deals import signed
from tests.support.world import Guest, assert_sent


class Court:
    """Alice and Bob are at `a`, and two arbiters at each node."""

    def __init__(self) -> None:
        self.halls = HallsOnOneStore("a", "b", "c")
        self.alice = self.halls.agent("a", "alice", key=ALICE)
        self.bob = self.halls.agent("a", "bob", key=BOB)
        self.arbiters: dict[PrivateKey, Guest] = {}
        for key, node in zip(ARBITERS, "aabbcc", strict=False):
            self.arrive(node, key)
        self.halls.advance(1)

    def arrive(self, node: str, key: PrivateKey) -> None:
        rated(self.halls.shared, key)
        self.arbiters[key] = self.halls.agent(node, "arbiter", key=key)

    def pool(self) -> list[PrivateKey]:
        """Of a new case at `a`, in the order of `ARBITERS`."""
        deal = propose(self.halls["a"], self.alice, ALICE, BOB)
        self.halls.send(self.bob, "ACCEPT", **signed(BOB, "ACCEPT", proposal_id=deal))
        self.halls.hush()
        step = signed_step(
            ALICE, "DISPUTE_INTENT", proposal_id=deal, reason="nothing came", commitment=COMMITMENT
        )
        self.halls.send(self.alice, "DISPUTE_INTENT", **step)
        dispute = assert_sent(self.alice, "DISPUTE_INTENT_ACK")["dispute_id"]
        self.halls.hush()
        case = self.halls.shared.case(dispute)
        assert case is not None
        addresses = {f"@{key.public.agent_id()}": key for key in ARBITERS}
        return sorted((addresses[address] for address in case.pool), key=ARBITERS.index)


def test_the_pool_has_the_agents_of_all_nodes_once() -> None:
    court = Court()
    assert court.pool() == list(ARBITERS[:6])
    for number in (2, 4):
        court.halls.send(court.arbiters[ARBITERS[number]], "SET_PRESENCE", status="away")
    court.halls.advance(1)
    assert court.pool() == [ARBITERS[number] for number in (0, 1, 3, 5)]


def test_agents_of_a_node_that_was_given_up_are_in_no_pool() -> None:
    """The store takes longer to forget them. They are in again when they come to another node."""
    assert SILENCE_SECONDS + 1 < EXPIRY_SECONDS
    court = Court()
    court.halls.kill("c")
    court.halls.advance(SILENCE_SECONDS + 1)
    assert len(court.halls.shared.halls["c"]) == 2
    assert court.pool() == list(ARBITERS[:4])
    court.arrive("b", ARBITERS[4])
    assert court.pool() == list(ARBITERS[:5])


def test_the_pool_has_the_agents_of_other_halls_on_the_store() -> None:
    """They are on no bus, or on another one."""
    court = Court()
    rated(court.halls.shared, ARBITERS[6])
    court.halls.shared.halls["another"] = {ARBITERS[6].public.raw: Connected("online")}
    court.halls.kill("c")
    court.halls.advance(SILENCE_SECONDS + 1)
    assert court.pool() == [*ARBITERS[:4], ARBITERS[6]]
    court.halls.shared.halls["another"][ARBITERS[4].public.raw] = Connected("online")
    court.halls.advance(EXPIRY_SECONDS)
    del court.halls.shared.halls["c"]
    assert court.pool() == [*ARBITERS[:5], ARBITERS[6]]
