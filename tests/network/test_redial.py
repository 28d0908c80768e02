"""When configured peers are dialled."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from moothall.network.redial import Redial
from moothall.network.rules import Rules
from moothall.p2p.multiaddr import Multiaddr

RULES = Rules()
ADDRESS = Multiaddr.parse("/ip4/127.0.0.1/tcp/9000")


@given(st.floats(0, 1))
def test_an_address_that_is_down_is_dialled_less_and_less_often(spread: float) -> None:
    redial = Redial(RULES, lambda: spread)
    redial.keep(ADDRESS)
    redial.keep(ADDRESS)
    dials = [now for now in range(0, 1_200_000, 1000) if redial.due(now, lambda _: None)]
    waits = [after - before for before, after in pairwise(dials)]
    assert dials[0] == 0
    assert waits == sorted(waits)
    assert waits[0] <= 2000
    most = RULES.redial_most
    assert 0.75 * most <= waits[-1] <= 1.25 * most + 1000


def test_a_connection_that_lasted_makes_the_next_dial_quick() -> None:
    redial = Redial(RULES, lambda: 0.5)
    redial.keep(ADDRESS)
    for now in range(0, 600_000, 1000):
        for kept in redial.due(now, lambda _: None):
            kept.agent_id = b"a" * 32
    assert kept.attempts > 5
    assert redial.due(600_000, lambda _: 599_000) == []
    assert kept.attempts > 5  # it may be lost again at once
    assert redial.due(700_000, lambda _: 599_000) == []
    assert redial.due(701_000, lambda _: None) == [kept]
    assert redial.due(701_500, lambda _: None) == []
    assert redial.due(702_000, lambda _: None) == [kept]


def test_an_address_is_not_dialled_twice_at_once() -> None:
    redial = Redial(RULES, lambda: 0.5)
    redial.keep(ADDRESS)
    (kept,) = redial.due(0, lambda _: None)
    kept.is_dialling = True
    assert redial.due(1_000_000, lambda _: None) == []
