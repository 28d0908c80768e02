"""Units of one lane are done one after the other, and other lanes do not wait for them."""

from collections.abc import Callable

import pytest

from moothall.errors import RateLimited
from moothall.hall.outside import Result
from moothall.market.lanes import MAX_WAITING, Lanes


class SlowStore:
    """Answers when it is told to, in any order."""

    def __init__(self) -> None:
        self.begun: list[Callable[[], None]] = []

    def submit(
        self,
        work: Callable[[None], Result],
        done: Callable[[Result], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        def answer() -> None:
            try:
                result = work(None)
            except OSError as error:
                failed(error)
            else:
                done(result)

        self.begun.append(answer)

    def answer(self, number: int = 0) -> None:
        self.begun.pop(number)()


def fail(error: BaseException) -> None:
    raise error


def broken(_: None) -> str:
    raise OSError("the disk is full")


def test_a_lane_begins_one_unit_at_a_time() -> None:
    store, lanes = SlowStore(), Lanes()
    told: list[str] = []
    for word in ("one", "two", "three"):
        lanes.submit(b"a", store, lambda _, word=word: word, told.append, fail)  # type: ignore[misc]
    lanes.submit(b"b", store, lambda _: "other", told.append, fail)
    assert (len(store.begun), len(lanes)) == (2, 4)
    store.answer(1)
    assert told == ["other"]
    for _ in range(3):
        store.answer()
    assert told == ["other", "one", "two", "three"]
    assert len(lanes) == 0


def test_a_unit_that_fails_lets_the_next_one_begin() -> None:
    store, lanes = SlowStore(), Lanes()
    told: list[object] = []
    lanes.submit(b"a", store, broken, told.append, lambda error: told.append(str(error)))
    lanes.submit(b"a", store, lambda _: "two", told.append, fail)
    for _ in range(2):
        store.answer()
    assert told == ["the disk is full", "two"]


def test_a_bug_in_the_callback_does_not_stop_the_lane() -> None:
    store, lanes = SlowStore(), Lanes()
    told: list[str] = []
    lanes.submit(b"a", store, lambda _: 1, lambda _: [][0], fail)
    lanes.submit(b"a", store, lambda _: "two", told.append, fail)
    with pytest.raises(IndexError):
        store.answer()
    store.answer()
    assert told == ["two"]


def test_a_full_lane_refuses() -> None:
    store, lanes = SlowStore(), Lanes()
    refused: list[BaseException] = []
    for _ in range(MAX_WAITING + 2):
        lanes.submit(b"a", store, lambda _: None, lambda _: None, refused.append)
    [error] = refused
    assert isinstance(error, RateLimited)
