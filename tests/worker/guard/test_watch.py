"""The decisions of the guard, over a made-up clock."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.worker.guard.limits import WARN_AT, WINDOW, Limits
from moothall.worker.guard.watch import Decision, Kill, Nudge, Reason, Warn, Watch

BEGAN = 5000.0
TOOL = b"Using tool Bash"
SEND = b"Using tool agentchat_send"
SILENT = Limits(stall_timeout=0, startup_timeout=0, dead_air_timeout=0)


def watching(limits: Limits = SILENT) -> Watch:
    return Watch(limits, BEGAN)


def tokens(count: int) -> bytes:
    return b"Input tokens: %d" % count


def decided(watch: Watch, now: float) -> list[Decision]:
    return list(watch.decide(now))


def kills(decisions: list[Decision]) -> list[Reason]:
    return [each.reason for each in decisions if isinstance(each, Kill)]


def live(watch: Watch, until: float, ticks: int | None = None) -> tuple[float, list[Decision]]:
    """Let time pass, waking only when the watch wants it. `ticks` grow by that much with each look."""
    now, used, everything = BEGAN, 0, list[Decision]()
    while now < until:
        now = min(watch.wake_at(), until)
        look = watch.look_at()
        if look is not None and now >= look:
            used += ticks or 0
            watch.used(now, used)
        decisions = decided(watch, now)
        everything += decisions
        if kills(decisions):
            return now, everything
    return now, everything


# -- counts


@given(st.integers(1, 10**9), st.integers(0, 2 * 10**9))
def test_a_budget_is_exceeded_when_more_was_used(budget: int, used: int) -> None:
    watch = watching(SILENT._replace(budget=budget))
    watch.lines.read(BEGAN, tokens(used))
    decisions = decided(watch, BEGAN)
    assert (kills(decisions) == [Reason.BUDGET]) == (used > budget)
    assert any(isinstance(each, Warn) for each in decisions) == (WARN_AT * budget <= used <= budget)


def test_tokens_in_and_out_count_together() -> None:
    watch = watching(SILENT._replace(budget=100))
    watch.lines.read(BEGAN, b"Input tokens: 60, Output tokens: 41")
    (kill,) = decided(watch, BEGAN)
    assert kill == Kill(Reason.BUDGET, "tokens: 101 of 100")


def test_of_two_sources_the_higher_number_counts() -> None:
    watch = watching()
    watch.lines.read(BEGAN, tokens(70))
    event = {"type": "assistant", "message": {"id": "a", "usage": {"input_tokens": 50, "output_tokens": 9}}}
    watch.events.read(BEGAN, json.dumps(event).encode())
    assert (watch.tokens_in, watch.tokens_out) == (70, 9)


@pytest.mark.parametrize(
    ("line", "limits", "reason"),
    [
        (TOOL, SILENT._replace(max_tool_calls=7), Reason.RATE_TOOLS),
        (SEND, SILENT._replace(max_sends=7), Reason.RATE_SENDS),
    ],
)
@given(waits=st.lists(st.floats(0, 30), min_size=1, max_size=60))
def test_rates_look_back_a_minute(line: bytes, limits: Limits, reason: Reason, waits: list[float]) -> None:
    watch, now, moments = watching(limits), BEGAN, list[float]()
    for wait in waits:
        now += wait
        watch.lines.read(now, line)
        moments.append(now)
        recent = [moment for moment in moments if moment > now - WINDOW]
        is_over = len(recent) > 7
        assert (kills(decided(watch, now)) == [reason]) == is_over
        if is_over:
            return
        assert max(watch.tools_this_minute(now) if line == TOOL else watch.sends_this_minute(now), 0) == len(
            recent
        )
    assert watch.tool_calls == len(moments)


def test_a_send_is_a_tool_call_too() -> None:
    watch = watching()
    watch.lines.read(BEGAN, SEND)
    assert (watch.tool_calls, watch.send_calls) == (1, 1)


def test_a_rate_that_rises_again_is_warned_of_again() -> None:
    watch = watching(SILENT._replace(max_tool_calls=5))
    warnings = 0
    for minute in range(3):
        for _ in range(5):
            watch.lines.read(BEGAN + 100 * minute, TOOL)
            warnings += len(decided(watch, BEGAN + 100 * minute))
        assert decided(watch, BEGAN + 100 * minute + 90) == []
    assert warnings == 3


# -- time


def test_warns_at_80_percent_of_the_time_and_kills_at_its_end() -> None:
    now, (warning, kill) = live(watching(SILENT._replace(timeout=3600)), BEGAN + 9999)
    assert warning == Warn("80% of a limit: seconds: 2,880 of 3,600")
    assert isinstance(kill, Kill)
    assert kill.reason is Reason.TIMEOUT
    assert now == BEGAN + 3600


def test_without_limits_of_silence_time_wakes_the_guard_twice() -> None:
    watch, wakes, now = watching(), 0, BEGAN
    while not kills(decided(watch, now)):
        now = watch.wake_at()
        wakes += 1
    assert wakes == 2


# -- silence

STALL = SILENT._replace(stall_timeout=60, startup_timeout=30, max_nudges=0, timeout=10**6)


def test_the_first_output_has_a_timeout_of_its_own() -> None:
    now, decisions = live(watching(STALL), BEGAN + 9999)
    assert kills(decisions) == [Reason.STALL]
    assert BEGAN + 30 <= now <= BEGAN + 40


def test_after_the_first_output_the_other_timeout_holds() -> None:
    watch = watching(STALL)
    watch.output(BEGAN)
    now, decisions = live(watch, BEGAN + 9999)
    assert kills(decisions) == [Reason.STALL]
    assert BEGAN + 60 <= now <= BEGAN + 80
    assert watch.stalls == 1


def test_a_stalled_command_is_nudged_first() -> None:
    watch = watching(STALL._replace(max_nudges=3))
    _, decisions = live(watch, BEGAN + 9999)
    assert [type(each) for each in decisions] == [Nudge, Nudge, Nudge, Kill]
    assert watch.nudges == 3


def test_output_gives_all_nudges_back() -> None:
    watch = watching(STALL._replace(max_nudges=1))
    now, _ = live(watch, BEGAN + 45)
    assert watch.nudges == 1
    watch.output(now)
    _, decisions = live(watch, now + 9999)
    assert [type(each) for each in decisions] == [Nudge, Kill]


@pytest.mark.parametrize("limits", [STALL, SILENT._replace(dead_air_timeout=300)])
def test_a_busy_command_may_be_silent(limits: Limits) -> None:
    watch = watching(limits._replace(timeout=3000))
    now, decisions = live(watch, BEGAN + 9999, ticks=1)
    assert kills(decisions) == [Reason.TIMEOUT]
    assert now == BEGAN + 3000


@given(st.floats(6, 100_000))
def test_dead_air_kills_in_time(limit: float) -> None:
    watch = watching(SILENT._replace(dead_air_timeout=limit, timeout=10**6))
    now, decisions = live(watch, BEGAN + 10**6)
    assert kills(decisions) == [Reason.DEAD_AIR]
    every = watch.look_every
    assert every is not None
    assert 2 <= every <= max(30, limit / 48)
    assert BEGAN + limit <= now <= BEGAN + limit + 2 * every + 1
    assert watch.dead_air_checks >= 3


def test_no_look_while_there_is_output() -> None:
    watch = watching(SILENT._replace(dead_air_timeout=300))
    for second in range(1, 1000):
        watch.output(BEGAN + second)
        assert (watch.look_at() or 0) > BEGAN + second


@given(
    st.builds(
        Limits,
        budget=st.integers(1, 1000),
        timeout=st.floats(1, 1000),
        max_sends=st.integers(0, 5),
        max_tool_calls=st.integers(0, 5),
        stall_timeout=st.just(0) | st.floats(1, 100),
        startup_timeout=st.just(0) | st.floats(1, 100),
        dead_air_timeout=st.just(0) | st.floats(1, 100),
        max_nudges=st.integers(0, 3),
    ),
    st.lists(
        st.tuples(st.sampled_from(["output", "tool", "send", "tokens", "look", "wait"]), st.floats(0, 20)),
        max_size=50,
    ),
)
def test_any_life_ends_in_time_and_is_warned_once(limits: Limits, life: list[tuple[str, float]]) -> None:
    watch, now = watching(limits), BEGAN
    for event, wait in life:
        now += wait
        if event == "output":
            watch.output(now)
        elif event in ("tool", "send"):
            watch.lines.read(now, TOOL if event == "tool" else SEND)
        elif event == "tokens":
            watch.lines.read(now, tokens(int(wait * 60)))
        elif event == "look":
            watch.used(now, int(wait))
        decisions = decided(watch, now)
        assert len(kills(decisions)) <= 1
        if kills(decisions):
            assert isinstance(decisions[-1], Kill)
            return
        assert now < BEGAN + limits.timeout
        again = [each for each in decided(watch, now) if isinstance(each, Warn)]
        assert again == []
        assert watch.wake_at() <= BEGAN + limits.timeout
