"""The claims themselves (seed 003, state and invariants; agentchat wire 10)."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from moothall.hall.floor import Floor
from tests.identity.vectors import VECTORS

TTL = 45.0


def test_claims_are_decided_as_in_the_vectors() -> None:
    floor = Floor(TTL)
    for claim in VECTORS["floor_control"]["claims"]:
        standing = floor.holder("#c", "m", 0)
        decision = floor.claim("#c", "m", claim["agent"], claim["started_at"], 0)
        assert decision.granted is claim["granted"]
        if not claim["granted"]:
            assert (claim["agent"], decision.claim.holder) == (claim["yield_to"], claim["winner"])
            assert decision.displaced is None
        elif claim["yield_to"] is None:
            assert standing is None
            assert decision.displaced is None
        else:
            assert (decision.displaced, decision.claim.holder) == (claim["yield_to"], claim["winner"])


def test_one_claim_per_channel_and_message() -> None:
    floor = Floor(TTL)
    assert floor.claim("#a", "m", "x", 1, 0).granted
    assert floor.claim("#b", "m", "y", 2, 0).granted
    assert floor.claim("#a", "n", "z", 3, 0).granted
    assert len(floor) == 3


def test_an_agent_holds_claims_on_different_messages_at_once() -> None:
    floor = Floor(TTL)
    for message in ("m", "n"):
        assert floor.claim("#a", message, "x", 1, 0).granted
    floor.release("x", "#a")
    assert len(floor) == 0


def test_saying_it_again_is_no_reason_to_yield_and_changes_nothing() -> None:
    floor = Floor(TTL)
    first = floor.claim("#a", "m", "x", 100, 0)
    again = floor.claim("#a", "m", "x", 200, 1)
    assert again.granted
    assert again.claim is first.claim
    assert again.displaced is None


def test_ones_own_earlier_time_counts() -> None:
    floor = Floor(TTL)
    floor.claim("#a", "m", "x", 200, 0)
    assert floor.claim("#a", "m", "x", 100, 1).granted
    assert not floor.claim("#a", "m", "y", 150, 1).granted


def test_a_human_always_gets_the_floor() -> None:
    """Seed 003, invariants."""
    floor = Floor(TTL)
    floor.claim("#a", "m", "agent", 100, 0)
    decision = floor.claim("#a", "m", "person", 999, 0, is_human=True)
    assert decision.granted
    assert decision.displaced == "agent"
    assert not floor.claim("#a", "m", "agent", 1, 0).granted


def test_a_claim_expires_after_its_time_to_live() -> None:
    floor = Floor(TTL)
    floor.claim("#a", "m", "x", 100, 0)
    assert not floor.claim("#a", "m", "y", 200, 44.9).granted
    decision = floor.claim("#a", "m", "y", 200, 45)
    assert decision.granted
    assert decision.displaced is None
    assert not floor.holds_any("x")


def test_expiry_follows_the_clock_even_when_claims_change_hands() -> None:
    floor = Floor(TTL)
    floor.claim("#a", "m", "x", 100, 0)
    floor.claim("#a", "n", "y", 100, 10)
    floor.claim("#a", "m", "z", 50, 20)
    assert floor.holder("#a", "n", 54.9)
    assert floor.holder("#a", "n", 55) is None
    assert floor.holder("#a", "m", 64.9)
    assert floor.holder("#a", "m", 65) is None


def test_speaking_in_one_channel_leaves_the_claims_in_others() -> None:
    floor = Floor(TTL)
    floor.claim("#a", "m", "x", 1, 0)
    floor.claim("#b", "m", "x", 1, 0)
    floor.release("x", "#a")
    assert floor.holder("#a", "m", 0) is None
    assert floor.holder("#b", "m", 0)
    floor.drop("x")
    assert len(floor) == 0
    assert not floor.holds_any("x")


CLAIMS = st.lists(
    st.tuples(
        st.sampled_from(["#a", "#b"]),
        st.sampled_from(["m", "n"]),
        st.sampled_from("wxyz"),
        st.one_of(st.integers(1, 5), st.floats(1, 5)),
        st.booleans(),
    ),
    max_size=40,
)


@given(CLAIMS)
def test_the_earliest_holds_whatever_the_order_of_arrival(
    claims: list[tuple[str, str, str, float, bool]],
) -> None:
    floor = Floor(TTL)
    best: dict[tuple[str, str], tuple[Any, ...]] = {}
    for channel, message, agent, started_at, human in claims:
        decision = floor.claim(channel, message, agent, started_at, 0, is_human=human)
        rank = (not human, started_at, agent)
        key = (channel, message)
        best[key] = min(best.get(key, rank), rank)
        assert decision.claim.rank == best[key]
        assert decision.granted is (best[key][2] == agent)
        assert decision.displaced != agent
    assert len(floor) == len(best)
    for (channel, message), rank in best.items():
        claim = floor.holder(channel, message, 0)
        assert claim is not None
        assert claim.rank == rank
    assert all(floor.holder(channel, message, TTL) is None for channel, message in best)
