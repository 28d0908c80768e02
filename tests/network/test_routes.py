"""Which peer an envelope goes to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from moothall.network.routes import Recent, Routes
from moothall.wire.mesh.envelope import NO_CONVERSATION


def key(number: int) -> bytes:
    return number.to_bytes(32, "big")


AGENT, OTHER, HALL, RIVAL, RELAY, PEER = map(key, range(1, 7))
TALK = b"t" * 16


def routes(*peers: bytes, most: int = 10_000) -> Routes:
    built = Routes(most)
    for peer in peers:
        built.met(peer)
    return built


def test_an_agent_that_is_not_known_has_no_route() -> None:
    assert routes(PEER).find(AGENT) is None


def test_the_order_of_the_ways() -> None:
    found = routes(AGENT, HALL, PEER, RELAY)
    found.beacon(AGENT, RELAY, RELAY)
    found.talked(TALK, AGENT, PEER)
    found.claimed(HALL, [AGENT])
    assert found.find(AGENT, TALK) == AGENT
    found.lost(AGENT)
    assert found.find(AGENT, TALK) == HALL
    found.claimed(HALL, [], [AGENT])
    assert found.find(AGENT, TALK) == PEER
    assert found.find(AGENT) == RELAY
    assert found.find(AGENT, b"u" * 16) == RELAY
    found.lost(RELAY)
    assert found.find(AGENT) is None
    assert found.find(AGENT, TALK) == PEER


def test_a_peer_that_comes_back_is_a_route_again() -> None:
    found = routes(HALL)
    found.claimed(HALL, [AGENT])
    found.lost(HALL)
    assert found.find(AGENT) is None
    found.met(HALL)
    assert found.find(AGENT) == HALL


def test_the_peer_that_an_envelope_came_from_does_not_get_it_back() -> None:
    found = routes(HALL, RELAY)
    found.claimed(HALL, [AGENT])
    found.beacon(AGENT, RELAY, RELAY)
    assert found.find(AGENT, but=HALL) == RELAY
    found.lost(RELAY)
    assert found.find(AGENT, but=HALL) is None
    assert found.find(HALL, but=HALL) is None


def test_a_hall_behind_another_one_is_reached_through_it() -> None:
    found = routes(RELAY)
    found.announced(HALL, RELAY)
    found.claimed(HALL, [AGENT])
    assert found.find(AGENT) is None  # a node has passed it on
    found.announced(RELAY, RELAY)
    assert found.find(AGENT) == RELAY
    assert found.find(AGENT, but=RELAY) is None
    found.met(HALL)
    assert found.find(AGENT) == HALL


def test_a_node_that_passes_a_beacon_on_does_not_get_the_envelopes_of_its_agent() -> None:
    found = routes(RELAY, PEER)
    found.beacon(AGENT, PEER, author=AGENT)
    assert found.find(AGENT) is None
    found.announced(RELAY, RELAY)
    found.beacon(AGENT, RELAY, author=AGENT)
    assert found.find(AGENT) == RELAY
    found.beacon(AGENT, PEER, author=AGENT)  # the node was faster this time
    assert found.find(AGENT) == RELAY
    found.lost(RELAY)
    assert found.find(AGENT) is None
    found.beacon(AGENT, PEER, author=None)
    found.met(RELAY)
    assert found.find(AGENT) is None


def test_the_peer_that_publishes_the_beacons_of_an_agent_gets_its_envelopes() -> None:
    """Also if another peer brought the BEACON first."""
    found = routes(RELAY, PEER)
    found.beacon(AGENT, RELAY, author=PEER)
    assert found.find(AGENT) == PEER
    assert found.find(AGENT, but=PEER) is None
    found.announced(RELAY, RELAY)
    assert found.find(AGENT, but=PEER) == RELAY
    assert found.find(AGENT) == PEER


def test_a_later_claim_does_not_take_an_agent_away() -> None:
    found = routes(HALL, RIVAL)
    found.claimed(HALL, [AGENT])
    found.claimed(RIVAL, [AGENT])
    found.claimed(HALL, [AGENT, OTHER])
    assert found.find(AGENT) == HALL
    found.lost(HALL)
    assert found.find(AGENT) == RIVAL
    found.met(HALL)
    found.claimed(HALL, [], [AGENT])
    assert found.find(AGENT) == RIVAL


def test_the_hall_that_publishes_the_beacons_of_an_agent_comes_before_the_others() -> None:
    found = routes(HALL, RIVAL, RELAY)
    found.claimed(RIVAL, [AGENT])
    found.claimed(HALL, [AGENT])
    assert found.find(AGENT) == RIVAL
    found.beacon(AGENT, RELAY, author=HALL)
    assert found.find(AGENT) == HALL
    found.beacon(AGENT, RELAY, author=PEER)  # a node that claims nothing
    assert found.find(AGENT) == HALL


def test_what_belongs_to_no_conversation_is_no_route() -> None:
    found = routes(PEER)
    found.talked(NO_CONVERSATION, AGENT, PEER)
    assert found.find(AGENT) is None
    found.talked(TALK, AGENT, PEER)
    assert found.find(AGENT) is None
    assert found.find(AGENT, TALK) == PEER


def test_halls_that_claim_first_do_not_keep_the_hall_that_publishes_the_beacons_out() -> None:
    """Keys of halls are free: any number of them can claim an agent that is not here yet."""
    liars = [key(1000 + each) for each in range(100)]
    found = routes(HALL, *liars)
    for liar in liars:
        found.claimed(liar, [AGENT])
    found.claimed(HALL, [AGENT])
    found.beacon(AGENT, RELAY, author=HALL)
    assert found.find(AGENT) == HALL
    found.claimed(HALL, [], [AGENT])
    found.claimed(HALL, [AGENT])
    found.beacon(AGENT, RELAY, author=HALL)
    assert found.find(AGENT) == HALL


def test_the_entry_that_was_used_least_recently_goes_first() -> None:
    recent: Recent[str, int] = Recent(2)
    assert recent.put("a", 1) is None
    assert recent.put("b", 2) is None
    assert recent.get("a") == 1
    assert recent.put("c", 3) == ("b", 2)
    assert "a" in recent
    assert recent.get("b") is None
    assert recent.pop("a") == 1
    assert len(recent) == 1


@given(st.lists(st.tuples(st.sampled_from("bt"), st.integers(0, 50), st.integers(0, 5)), max_size=200))
def test_the_tables_are_bounded_and_the_last_entries_are_there(steps: list[tuple[str, int, int]]) -> None:
    found = routes(*map(key, range(100, 106)), most=10)
    last: dict[tuple[str, int], int] = {}
    for way, agent, peer in steps:
        if way == "b":
            found.beacon(key(agent), key(100 + peer), None)
        else:
            found.talked(TALK, key(agent), key(100 + peer))
        last.pop((way, agent), None)
        last[way, agent] = peer
    for way in "bt":
        newest = [agent for each, agent in last if each == way][-10:]
        kept = found._relays if way == "b" else found._conversations
        assert len(kept) == len(newest)
    talked = {agent: peer for (way, agent), peer in list(last.items()) if way == "t"}
    for agent in list(talked)[-10:]:
        assert found.find(key(agent), TALK) == key(100 + talked[agent])


class Announcements(RuleBasedStateMachine):
    """Halls and agents come and go. The tables of both sides agree, and a route leads to a hall that claims
    the agent, or has published its BEACON."""

    def __init__(self) -> None:
        super().__init__()
        self.routes = Routes(12)
        self.connected: set[bytes] = set()
        self.said: dict[bytes, set[bytes]] = {}
        self.authors: dict[bytes, bytes] = {}

    @rule(hall=st.integers(50, 54), agents=st.lists(st.integers(0, 20), max_size=6))
    def announces(self, hall: int, agents: list[int]) -> None:
        before, now = self.said.get(key(hall), set()), {key(each) for each in agents}
        self.routes.announced(key(hall), key(99))
        self.routes.claimed(key(hall), now - before, before - now)
        self.said[key(hall)] = now

    @rule(hall=st.integers(50, 54))
    def connects(self, hall: int) -> None:
        self.routes.met(key(hall))
        self.connected.add(key(hall))

    @rule(hall=st.integers(50, 54))
    def leaves(self, hall: int) -> None:
        self.routes.lost(key(hall))
        self.connected.discard(key(hall))

    @rule(agent=st.integers(0, 20), author=st.integers(50, 54))
    def beacons(self, agent: int, author: int) -> None:
        self.routes.beacon(key(agent), key(99), key(author))
        self.authors[key(agent)] = key(author)

    @invariant()
    def routes_lead_to_halls_that_claim_or_publish(self) -> None:
        for number in range(21):
            found = self.routes.find(key(number))
            if found is not None:
                assert found in self.connected
                assert found == self.authors.get(key(number)) or key(number) in self.said[found]

    @invariant()
    def the_claims_are_those_that_were_announced(self) -> None:
        claims = {(hall, agent) for agent, halls in self.routes._claims.items() for hall in halls}
        assert claims == {(hall, agent) for hall, agents in self.said.items() for agent in agents}
        assert all(self.routes._claims.values())


TestAnnouncements = Announcements.TestCase


@pytest.mark.parametrize("most", [1, 2, 3])
def test_small_tables_work_too(most: int) -> None:
    found = routes(HALL, most=most)
    found.claimed(HALL, [AGENT, OTHER])
    assert found.find(AGENT) == HALL
