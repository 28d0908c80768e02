"""Whatever keep clients and WebSocket agents do, in whatever order: the roster, the registry and the list agree."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from moothall.identity import PrivateKey
from moothall.settings.limits import Rate
from tests.hall.keep.town import FakePeer, Town
from tests.support.keep import ALICE, BOB, VECTORS
from tests.support.world import ADMIN_KEY, Guest, assert_consistent

SIGNERS = (ALICE, BOB)
KEYS = tuple(PrivateKey(bytes.fromhex(VECTORS["keys"][name]["seed_hex"])) for name in ("alice", "bob"))
IDENTITIES = ("bot:a", "bot:b", "human:a", "server", "swarm:a")
DESTINATIONS = ("server", "bot:a", "swarm:a", "nearest:a", "#general", "#keep", "#new", "discover:agents")

steps = st.one_of(
    st.tuples(
        st.just("packet"),
        st.integers(0, 3),
        st.sampled_from(IDENTITIES),
        st.integers(0, 1),
        st.sampled_from(DESTINATIONS),
    ),
    st.tuples(st.just("hang up"), st.integers(0, 3)),
    st.tuples(st.just("free")),
    st.tuples(st.just("prove"), st.integers(0, 1)),
    st.tuples(st.just("go"), st.integers(0, 1)),
    st.tuples(st.just("kick"), st.integers(0, 5)),
    st.tuples(st.just("say"), st.integers(0, 1)),
)


class Life:
    """Two keys, four connections, two sessions."""

    def __init__(self) -> None:
        self.town = Town(
            admin_key=ADMIN_KEY, rate_message=Rate(0, 1), rate_post_auth=Rate(0, 1), rate_admin=Rate(0, 1)
        )
        self.admin = self.town.agent("admin")
        self.peers = [FakePeer() for _ in range(4)]
        self.sessions: dict[int, Guest] = {}

    def take(self, step: tuple[Any, ...]) -> None:
        town = self.town
        match step:
            case "packet", number, identity, signer, dst:
                if not self.peers[number].closed:
                    town.post(self.peers[number], identity, dst, "hello", SIGNERS[signer])
            case "hang up", number:
                self._hang_up(number)
            case ("free",):
                town.room.free_some()
            case "prove", number:
                self.sessions[number] = town.agent("ws", key=KEYS[number], join=["#keep", "#general"])
            case "go", number if number in self.sessions:
                town.disconnect(self.sessions.pop(number))
            case "kick", number:
                agents = sorted(town.hall.roster.agents)
                if (chosen := agents[number % len(agents)]) != self.admin.id[1:]:
                    town.send(self.admin, "ADMIN_KICK", admin_key=ADMIN_KEY, agent_id=chosen)
            case "say", number if number in self.sessions and not self.sessions[number].session.closed:
                town.send(self.sessions[number], "MSG", to="#keep", content="hi")
        for number, peer in enumerate(self.peers):
            if peer.closed:  # the connection ends in the same turn of the loop
                self._hang_up(number)

    def _hang_up(self, number: int) -> None:
        self.town.room.leave(self.peers[number])
        self.peers[number] = FakePeer()

    def check(self) -> None:
        town = self.town
        residents = town.bridge.residents
        assert len(residents) == len(town.room.registry)
        # Those of connections that have ended are freed a few at a time, and some may have been put out before.
        agents = {resident.agent.id for resident in residents.values() if resident.peer in self.peers}
        leaving = {resident.agent.id for resident in residents.values() if resident.peer not in self.peers}
        assert agents <= town.hall.roster.agents.keys()
        assert agents <= town.hall.makes_way.keys() <= agents | leaving
        keep_agents = {agent.id for agent in town.hall.roster.agents.values() if agent.relay is not None}
        assert agents <= keep_agents <= agents | leaving
        others = {f"agent:{agent}" for agent in town.hall.roster.agents.keys() - keep_agents}
        assert list(town.room.listing) == sorted(others | residents.keys())
        assert all(peer.held == 0 for peer in self.peers)
        for identity, resident in residents.items():
            is_here = resident.peer in self.peers
            assert (identity in town.room.registry) == is_here
            assert (town.hall.roster.find(resident.agent.id) is resident.agent) == is_here
        assert town.bridge._parties.keys() <= set(self.peers)
        assert town.room._per_address["192.0.2.7"] == len(residents)
        for agent in town.hall.roster.by_key.values():
            assert agent.id not in agents
        assert_consistent(town)


@settings(max_examples=150, deadline=None)
@given(st.lists(steps, max_size=25))
def test_the_roster_and_the_registry_agree(history: list[tuple[Any, ...]]) -> None:
    life = Life()
    for step in history:
        life.take(step)
        life.check()
    for number in range(4):
        life._hang_up(number)
    life.check()
    assert not life.town.room.free_some()
    life.check()
    assert len(life.town.room.registry) == 0
