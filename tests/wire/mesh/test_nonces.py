"""Replay windows and counters: what was seen is never taken again, and what overtakes is not lost."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from moothall.wire.mesh.envelope import MICROSECONDS, Envelope
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.nonces import TOLERANCE, WINDOW, NonceCounter, ReplayGuard, within_tolerance
from tests.support.mesh import vector_envelope

NOW = 1_767_225_600_000_000
PROPOSE = vector_envelope("PROPOSE")


def envelope(
    nonce: int, sender: int = 0, timestamp: int = NOW, msg_type: MsgType = MsgType.PROPOSE
) -> Envelope:
    return structs.replace(
        PROPOSE, nonce=nonce, sender=sender.to_bytes(32, "big"), timestamp=timestamp, msg_type=msg_type
    )


def taken(guard: ReplayGuard, one: Envelope, now: int = NOW) -> bool:
    if guard.is_replay(one, now):
        return False
    guard.add(one, now)
    return True


@given(st.lists(st.integers(0, 3000) | st.integers(0, (1 << 64) - 1), max_size=60))
def test_no_nonce_is_taken_twice(nonces: list[int]) -> None:
    guard = ReplayGuard()
    accepted = [nonce for nonce in nonces + nonces if taken(guard, envelope(nonce))]
    assert len(accepted) == len(set(accepted))
    assert 0 not in accepted


@given(st.lists(st.integers(1, 3000), max_size=60))
def test_the_window_is_what_a_set_would_say(nonces: list[int]) -> None:
    """A nonce is taken if it was not seen and is less than a window below the highest."""
    guard, seen = ReplayGuard(), set[int]()
    for nonce in nonces:
        expected = nonce not in seen and nonce > max(seen, default=0) - WINDOW
        assert taken(guard, envelope(nonce)) == expected
        if expected:
            seen.add(nonce)


@given(st.integers(1, 1 << 60), st.randoms(use_true_random=False))
def test_nothing_is_lost_that_overtakes_within_a_window(first: int, dice: random.Random) -> None:
    nonces = list(range(first, first + WINDOW))
    dice.shuffle(nonces)
    guard = ReplayGuard()
    assert all(taken(guard, envelope(nonce)) for nonce in nonces)
    assert not any(taken(guard, envelope(nonce)) for nonce in nonces)


def test_the_edge_of_the_window() -> None:
    guard = ReplayGuard()
    assert taken(guard, envelope(5000))
    assert not taken(guard, envelope(5000 - WINDOW))
    assert taken(guard, envelope(5001 - WINDOW))


def test_zero_is_never_valid() -> None:
    guard = ReplayGuard()
    assert guard.is_replay(envelope(0), NOW)
    assert taken(guard, envelope(1))
    assert guard.is_replay(envelope(0), NOW)


def test_senders_do_not_share_a_window() -> None:
    guard = ReplayGuard()
    assert taken(guard, envelope(5, sender=1))
    assert taken(guard, envelope(5, sender=2))
    assert not taken(guard, envelope(5, sender=1))


def test_beacons_have_a_lane_of_their_own() -> None:
    guard = ReplayGuard()
    assert taken(guard, envelope(5000))
    assert taken(guard, envelope(5, msg_type=MsgType.BEACON))
    assert not taken(guard, envelope(5, msg_type=MsgType.BEACON))
    assert not taken(guard, envelope(5))
    assert not taken(guard, envelope(5000, msg_type=MsgType.DELIVER))


# -- windows that make way -----------------------------------------------------------------------------


AHEAD = envelope(9000, timestamp=NOW + TOLERANCE * MICROSECONDS)
LAST_MOMENT = NOW + (2 * TOLERANCE + 1) * MICROSECONDS - 1  # in which time does not refuse it
AFTERWARDS = LAST_MOMENT + 1


def test_a_sender_that_lost_its_counter_is_heard_again_after_a_minute() -> None:
    guard = ReplayGuard()
    guard.add(AHEAD, NOW)
    assert within_tolerance(AHEAD.timestamp, LAST_MOMENT)
    assert guard.is_replay(AHEAD, LAST_MOMENT)
    assert guard.is_replay(envelope(1, timestamp=LAST_MOMENT), LAST_MOMENT)
    assert not within_tolerance(AHEAD.timestamp, AFTERWARDS)
    again = envelope(1, timestamp=AFTERWARDS)
    assert taken(guard, again, AFTERWARDS)
    assert guard.is_replay(again, AFTERWARDS)
    assert guard.is_replay(envelope(0, timestamp=AFTERWARDS), AFTERWARDS)


def test_windows_of_senders_that_are_gone_are_forgotten() -> None:
    guard = ReplayGuard()
    guard.add(AHEAD, NOW)
    guard.add(envelope(1, sender=1, timestamp=LAST_MOMENT), LAST_MOMENT)
    assert guard.windows == 2
    guard.add(envelope(1, sender=2, timestamp=AFTERWARDS), AFTERWARDS)
    assert guard.windows == 2
    assert not guard.is_replay(envelope(1, timestamp=AFTERWARDS), AFTERWARDS)


def test_a_floor_refuses_what_may_have_been_seen() -> None:
    guard = ReplayGuard(floor=NOW)
    assert guard.is_replay(envelope(7, timestamp=NOW), NOW)
    assert taken(guard, envelope(7, timestamp=NOW + 1))
    assert guard.is_replay(envelope(6, timestamp=NOW), NOW), "also when the sender has a window"
    assert taken(guard, envelope(6, timestamp=NOW + 1))


def test_a_full_guard_forgets_the_sender_that_was_silent_the_longest() -> None:
    guard = ReplayGuard(most=2)
    for sender in (1, 2, 1, 3):
        guard.add(envelope(NOW + sender, sender=sender, timestamp=NOW + sender), NOW)
    assert guard.windows == 2
    assert guard.is_replay(envelope(NOW + 2, sender=2, timestamp=NOW + 2), NOW)
    assert taken(guard, envelope(NOW + 9, sender=2, timestamp=NOW + 9))


steps = st.tuples(
    st.integers(0, 6),  # sender
    st.integers(1, 40),  # nonce
    st.integers(-TOLERANCE, TOLERANCE),  # seconds that its clock is wrong
    st.integers(0, 20),  # seconds since the step before
)


@given(st.lists(steps, max_size=80), st.integers(1, 4))
def test_no_envelope_is_taken_twice_however_few_windows_there_are(
    history: list[tuple[int, int, int, int]], most: int
) -> None:
    guard = ReplayGuard(most=most)
    now = NOW
    accepted: list[Envelope] = []
    for sender, nonce, skew, pause in history:
        now += pause * MICROSECONDS
        one = envelope(nonce, sender, now + skew * MICROSECONDS)
        if taken(guard, one, now):
            assert one not in accepted
            accepted.append(one)
        assert guard.windows <= most
        for former in accepted:
            assert guard.is_replay(former, now) or not within_tolerance(former.timestamp, now)


# -- time and counters ---------------------------------------------------------------------------------


@pytest.mark.parametrize("sign", [1, -1])
def test_clocks_may_differ_by_thirty_whole_seconds(sign: int) -> None:
    assert within_tolerance(NOW + sign * 30 * MICROSECONDS, NOW)
    assert not within_tolerance(NOW + sign * 31 * MICROSECONDS, NOW)
    assert within_tolerance(NOW + 30_999_999, NOW), "seconds are compared, not microseconds"
    assert not within_tolerance(NOW - 30_000_001, NOW)


def test_a_counter_starts_at_the_time_and_never_goes_back() -> None:
    counter = NonceCounter(last=0, now=NOW)
    assert [counter.next(), counter.next()] == [NOW + 1, NOW + 2]
    assert NonceCounter(last=counter.last, now=NOW - 5_000_000).next() == NOW + 3
    assert NonceCounter(last=counter.last, now=NOW + 5).next() == NOW + 6


def test_a_counter_ends_before_it_overflows() -> None:
    counter = NonceCounter(last=(1 << 64) - 2, now=NOW)
    assert counter.next() == (1 << 64) - 1
    with pytest.raises(ValueError, match="new key"):
        counter.next()


# -- relays ------------------------------------------------------------------------------------------------

RELAY, OTHER = b"r" * 32, b"o" * 32


def brought(guard: ReplayGuard, one: Envelope, relay: bytes, now: int = NOW) -> bool:
    if guard.is_replay(one, now) or not guard.has_room(one, now, relay):
        return False
    guard.add(one, now, relay)
    return True


def test_relays_with_many_senders_do_not_lock_others_out() -> None:
    """Their envelopes come from the future. As a floor, such a time would refuse all new senders for a minute."""
    guard = ReplayGuard(most=120)
    future = NOW + TOLERANCE * MICROSECONDS
    of_one = [brought(guard, envelope(1, sender, future), RELAY) for sender in range(1000)]
    assert of_one.count(True) == 40
    of_others = [
        brought(guard, envelope(1, sender, future), bytes((sender % 7,)) * 32) for sender in range(1000, 2000)
    ]
    assert of_others.count(True) == 50
    assert guard.windows == 90
    assert taken(guard, envelope(1, 5000))
    assert brought(guard, envelope(2, 0, future), RELAY)  # it has a window
    assert not brought(guard, envelope(1, 0, future), RELAY)


def test_a_relay_may_bring_others_when_its_senders_are_silent() -> None:
    guard = ReplayGuard(most=120)
    assert sum(brought(guard, envelope(1, sender), RELAY) for sender in range(100)) == 40
    later = NOW + (TOLERANCE + 1) * MICROSECONDS
    assert sum(brought(guard, envelope(1, sender, later), RELAY, later) for sender in range(200, 300)) == 40
    assert guard.windows == 40


@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.sampled_from((None, RELAY, OTHER)), st.integers(0, 40)), max_size=80
    )
)
def test_the_shares_of_relays_hold(steps: list[tuple[int, bytes | None, int]]) -> None:
    guard, now = ReplayGuard(most=12), NOW
    for nonce, (sender, relay, pause) in enumerate(steps, 1):
        now += pause * MICROSECONDS
        one = envelope(nonce, sender, now)
        if relay is None:
            taken(guard, one, now)
        else:
            brought(guard, one, relay, now)
        held = [window.relay for window in guard._windows.values()]
        assert len(held) <= 12
        assert held.count(RELAY) == guard._of_relays[RELAY] <= 4
        assert held.count(OTHER) == guard._of_relays[OTHER] <= 4
        assert guard._relayed == len(held) - held.count(None) <= 9


@given(st.lists(st.tuples(st.integers(1, 2000), st.booleans()), max_size=60))
def test_an_envelope_that_is_released_may_come_again(steps: list[tuple[int, bool]]) -> None:
    guard = ReplayGuard()
    for nonce, fails in steps:
        if taken(guard, envelope(nonce)) and fails:
            guard.release(envelope(nonce))
            assert taken(guard, envelope(nonce))
        assert not taken(guard, envelope(nonce))
    guard.release(envelope(1, sender=9))  # one that was forgotten
    assert taken(guard, envelope(1, sender=9))
