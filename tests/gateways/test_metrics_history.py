"""What the hall remembers of its metrics: an hour, in a ring."""

from hypothesis import given
from hypothesis import strategies as st

from moothall.gateways.metrics_history import KEPT, PERIOD, Gauges, MetricsHistory, Totals

NOON = 1_760_000_000_000
QUIET = Gauges(connections=3, agents=2, watchers=1, outbox_bytes=0, slow_readers=0, lag=0.001)


def test_counts_are_those_since_the_sample_before() -> None:
    history = MetricsHistory(NOON, Totals(messages=10, frames_sent=100, refusals={"RATE_LIMITED": 1}))
    busy = QUIET._replace(outbox_bytes=4096, slow_readers=1, lag=0.2)
    history.add(NOON + 5000, busy, Totals(14, 130, 2, 1, {"RATE_LIMITED": 4, "INVALID_MSG": 1}))
    history.add(NOON + 11_000, QUIET, Totals(14, 130, 2, 1, {"RATE_LIMITED": 4, "INVALID_MSG": 1}))
    first, second = history
    assert (first.at, first.seconds, first.lag, first.slow_readers) == (NOON + 5000, 5.0, 0.2, 1)
    assert (first.messages, first.frames_sent, first.throttled, first.overflows) == (4, 30, 2, 1)
    assert first.refusals == {"INVALID_MSG": 1, "RATE_LIMITED": 3}
    assert (second.seconds, second.messages, second.refusals) == (6.0, 0, {})
    assert (second.connections, second.agents, second.watchers) == (3, 2, 1)


def test_an_hour_is_kept() -> None:
    history = MetricsHistory(NOON, Totals())
    step = int(PERIOD * 1000)
    for number in range(1, KEPT + 11):
        history.add(NOON + number * step, QUIET, Totals(messages=number))
    assert len(history) == KEPT
    samples = list(history)
    assert samples[-1].at - samples[0].at == 3_600_000 - step
    assert samples[0].at == NOON + 11 * step


def test_those_after_a_moment() -> None:
    history = MetricsHistory(NOON, Totals())
    for number in range(1, 6):
        history.add(NOON + number, QUIET, Totals())
    assert [sample.at - NOON for sample in history.since(NOON + 3)] == [4, 5]
    assert len(history.since(0)) == 5
    assert history.since(NOON + 5) == []


@given(st.lists(st.integers(0, 10**13), max_size=30))
def test_time_goes_forward_in_it_whatever_the_clock_does(moments: list[int]) -> None:
    history = MetricsHistory(NOON, Totals())
    for moment in moments:
        history.add(moment, QUIET, Totals())
    seen = [sample.at for sample in history]
    assert seen == sorted(set(seen))
    assert seen[-1:] == moments[-1:]
    assert all(sample.seconds >= 0 for sample in history)
