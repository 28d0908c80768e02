from hypothesis import given
from hypothesis import strategies as st

from moothall.client.pace import FRAMES, MAX_SPACING, MESSAGE_SPACING, WINDOW, FramePace, Spacing


@given(st.lists(st.floats(0, 5), min_size=1, max_size=300))
def test_no_window_ever_holds_more_frames_than_allowed(pauses: list[float]) -> None:
    pace = FramePace()
    now = 0.0
    sent: list[float] = []
    for pause in pauses:
        now += pause
        now += pace.reserve(now)
        sent.append(now)
    for first, after in zip(sent, sent[FRAMES:], strict=False):
        assert after - first >= WINDOW - 1e-6


def test_the_first_frames_do_not_wait() -> None:
    pace = FramePace(frames=3, window=10)
    assert [pace.reserve(100.0) for _ in range(4)] == [0, 0, 0, 10]


def test_frames_that_wait_at_the_same_time_do_not_take_the_same_place() -> None:
    pace = FramePace(frames=2, window=10)
    assert [pace.reserve(0.0) for _ in range(6)] == [0, 0, 10, 10, 20, 20]


def test_nothing_waits_in_a_hall_without_limits() -> None:
    spacing = Spacing(MESSAGE_SPACING)
    for now in (0.0, 0.0, 0.1):
        assert spacing.wait(now) == 0
        spacing.accepted(now)


def test_one_refusal_is_enough_to_learn_the_pace() -> None:
    spacing = Spacing(1.0)
    spacing.accepted(10.0)
    spacing.refused(10.2)
    assert spacing.wait(10.2) == 1.0
    spacing.accepted(11.2)
    assert spacing.wait(11.2) == 1.0
    assert spacing.wait(12.5) == 0


def test_who_is_refused_again_waits_longer_and_then_forgives() -> None:
    spacing = Spacing(1.0)
    waits = []
    for _ in range(20):
        spacing.refused(0.0)
        waits.append(spacing.wait(0.0))
    assert waits == sorted(waits)
    assert waits[1] == 1.5
    assert waits[-1] == MAX_SPACING
    spacing.accepted(0.0)
    assert spacing.wait(0.0) == 1.0
