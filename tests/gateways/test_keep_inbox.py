"""Packets of a keep client that are not looked at yet."""

from hypothesis import given
from hypothesis import strategies as st

from moothall.gateways.keep_backlog import PER_PACKET
from moothall.gateways.keep_inbox import Inbox
from moothall.settings.limits import Rate

payloads = st.lists(st.binary(max_size=8))


@given(runs=st.lists(payloads), taken=st.integers(0, 20))
def test_what_waits_is_counted_with_what_it_costs_to_keep(runs: list[list[bytes]], taken: int) -> None:
    inbox = Inbox()
    for now, run in enumerate(runs):
        inbox.extend(run, float(now))
    inbox.end(99.0)
    expected = [*((payload, float(now)) for now, run in enumerate(runs) for payload in run), (None, 99.0)]
    assert inbox.size_of(taken) == sum(len(payload or b"") for payload, _ in expected[:taken])
    assert inbox.take(taken) == expected[:taken]
    left = [payload for payload, _ in expected[taken:] if payload is not None]
    assert inbox.bytes == sum(len(payload) + PER_PACKET for payload in left)
    inbox.clear()
    assert (len(inbox), inbox.bytes) == (0, 0)


@given(asked=st.lists(st.tuples(st.integers(0, 9), st.floats(0, 5)), max_size=30))
def test_no_period_has_more_packets_than_the_rate(asked: list[tuple[int, float]]) -> None:
    inbox, rate, now = Inbox(), Rate(10, 3), 100.0
    let_through: list[tuple[float, int]] = []
    began = 0.0
    for wanted, later in asked:
        now += later
        if now - began >= rate.seconds:
            began, let_through = now, []
        allowed, seconds = inbox.allow(wanted, rate, now)
        let_through.append((now, allowed))
        assert allowed <= wanted
        assert sum(count for _, count in let_through) <= rate.limit
        if allowed < wanted:
            assert sum(count for _, count in let_through) == rate.limit
            assert inbox.allow(0, rate, now)[1] == seconds > 0


def test_without_a_limit_all_are_let_through() -> None:
    assert Inbox().allow(1000, Rate(0, 1), 0.0) == (1000, 0.0)
