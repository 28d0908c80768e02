"""When a server that ends is started again, with a made-up clock."""

from moothall.worker.runner.restarts import GOOD_LIFE, Restarts


def waits(restarts: Restarts, *lives: float) -> list[float]:
    found, now = [], 0.0
    for life in lives:
        restarts.started(now)
        again = restarts.ended(now + life)
        found.append(again - now - life)
        now = again
    return found


def test_each_wait_is_twice_as_long_up_to_30_seconds() -> None:
    assert waits(Restarts(), *[0.0] * 7) == [1, 2, 4, 8, 16, 30, 30]


def test_a_life_of_a_minute_begins_the_row_anew() -> None:
    assert waits(Restarts(), 0.0, 0.0, GOOD_LIFE, 0.0) == [1, 2, 1, 2]
