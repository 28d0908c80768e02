"""Inboxes in memory: cursors, what a reader confirms, and the bounds."""

from hypothesis import given
from hypothesis import strategies as st

from moothall.hall.mesh.frames import MAX_PAGE_BYTES
from moothall.hall.mesh.inbox import (
    MAX_AGE,
    MAX_BYTES,
    MAX_ENVELOPES,
    PER_ENVELOPE,
    MemoryInboxes,
    Page,
)
from tests.support.world import Clock

A, B = b"a" * 32, b"b" * 32


class Boxes:
    """Inboxes that answer at once."""

    def __init__(self, **limits: int) -> None:
        self.clock = Clock()
        self.inboxes = MemoryInboxes(self.clock, **limits)

    def put(self, recipient: bytes, raw: bytes) -> bool:
        answers: list[bool] = []
        self.inboxes.put(recipient, raw, answers.append, self._fail)
        return answers[0]

    def read(self, recipient: bytes, after: int | None = None, limit: int = 100) -> Page:
        answers: list[Page] = []
        self.inboxes.read(recipient, after, limit, answers.append, self._fail)
        return answers[0]

    def newest(self, recipient: bytes) -> int:
        answers: list[int] = []
        self.inboxes.newest(recipient, answers.append, self._fail)
        return answers[0]

    @staticmethod
    def _fail(error: BaseException) -> None:
        raise error


def test_an_inbox_is_read_in_order_and_confirmed_by_the_next_read() -> None:
    boxes = Boxes()
    for raw in (b"one", b"two", b"three"):
        assert boxes.put(A, raw)
    page = boxes.read(A, limit=2)
    assert [raw for _, raw in page.envelopes] == [b"one", b"two"]
    assert page.more
    assert boxes.read(A, limit=2) == page  # nothing was confirmed
    page = boxes.read(A, after=page.envelopes[-1][0])
    assert [raw for _, raw in page.envelopes] == [b"three"]
    assert boxes.newest(A) == page.envelopes[-1][0]
    assert boxes.read(A, after=page.envelopes[-1][0]) == Page((), more=False, lost=0)
    assert boxes.newest(A) == 0
    assert boxes.inboxes.statistics() == (0, 0, 0)


def test_a_cursor_of_an_earlier_process_misses_nothing() -> None:
    old = Boxes()
    old.put(A, b"old")
    cursor = old.read(A).envelopes[-1][0]
    new = Boxes()
    new.clock.move_to(1)
    new.put(A, b"new")
    assert [raw for _, raw in new.read(A, after=cursor).envelopes] == [b"new"]


def test_a_cursor_that_was_never_given_out_confirms_nothing() -> None:
    boxes = Boxes()
    boxes.put(A, b"one")
    assert [raw for _, raw in boxes.read(A, after=2**62).envelopes] == [b"one"]
    assert len(boxes.read(A).envelopes) == 1


def test_the_oldest_make_way_and_the_reader_is_told_how_many() -> None:
    boxes = Boxes()
    for number in range(MAX_ENVELOPES + 3):
        boxes.put(A, str(number).encode())
    page = boxes.read(A, limit=1)
    assert (page.envelopes[0][1], page.lost) == (b"3", 3)
    assert boxes.read(A, after=page.envelopes[0][0]).lost == 3
    assert boxes.read(A).lost == 0


def test_an_inbox_is_bounded_in_bytes_and_so_is_a_page() -> None:
    boxes = Boxes()
    for _ in range(40):
        boxes.put(A, bytes(60_000))
    _, envelopes, size = boxes.inboxes.statistics()
    assert size <= MAX_BYTES
    assert envelopes == MAX_BYTES // (60_000 + PER_ENVELOPE)
    page = boxes.read(A)
    assert sum(len(raw) for _, raw in page.envelopes) <= MAX_PAGE_BYTES
    assert page.more


def test_old_envelopes_are_forgotten() -> None:
    boxes = Boxes()
    boxes.put(A, b"old")
    boxes.clock.move_to(MAX_AGE / 2)
    boxes.put(A, b"newer")
    boxes.put(B, b"other")
    boxes.clock.move_to(MAX_AGE)
    assert [raw for _, raw in boxes.read(A).envelopes] == [b"newer"]
    boxes.clock.move_to(2 * MAX_AGE)
    boxes.put(B, b"again")
    assert boxes.inboxes.statistics()[:2] == (1, 1)


def test_one_sender_does_not_push_out_what_others_have_sent() -> None:
    boxes = Boxes()
    head = b"\x8c\x01\x03\x58\x20"
    assert boxes.put(A, head + b"friend".ljust(32) + b"first")
    for number in range(2 * MAX_ENVELOPES):
        boxes.put(A, head + b"flood".ljust(32) + str(number).encode())
    kept = [raw[37:] for _, raw in boxes.read(A, limit=MAX_ENVELOPES).envelopes]
    assert kept[0] == b"first"
    assert kept[1:] == [str(number).encode() for number in range(MAX_ENVELOPES + 1, 2 * MAX_ENVELOPES)]


def test_long_envelopes_do_not_push_out_many_short_ones() -> None:
    boxes = Boxes()
    head = b"\x8c\x01\x07\x58\x20"
    for number in range(50):
        boxes.put(A, head + b"friend".ljust(32) + str(number).encode())
    for _ in range(40):
        boxes.put(A, head + b"flood".ljust(32) + bytes(60_000))
    kept = [raw for _, raw in boxes.read(A, limit=MAX_ENVELOPES).envelopes]
    assert sum(b"friend" in raw for raw in kept) == 50


def test_offers_of_many_strangers_do_not_push_out_what_belongs_to_a_deal() -> None:
    boxes = Boxes()
    friend = b"\x8c\x01\x07\x58\x20" + b"friend".ljust(32)
    assert boxes.put(A, friend + b"DELIVER")
    for number in range(2 * MAX_ENVELOPES):
        boxes.put(A, b"\x8c\x01\x03\x58\x20" + str(number).encode().ljust(32))
    page = boxes.read(A, limit=MAX_ENVELOPES)
    assert page.envelopes[0][1] == friend + b"DELIVER"
    assert (len(page.envelopes), page.lost) == (MAX_ENVELOPES, MAX_ENVELOPES + 1)


def test_when_memory_is_full_the_fullest_make_way() -> None:
    boxes = Boxes(limit=100_000)
    boxes.put(B, b"modest")
    for _ in range(300):
        boxes.put(A, bytes(1000))
    assert [raw for _, raw in boxes.read(B).envelopes] == [b"modest"]
    assert boxes.inboxes.statistics()[2] <= 100_000
    assert boxes.read(A).lost


@given(
    st.lists(
        st.tuples(st.sampled_from("pr"), st.sampled_from([A, B]), st.integers(0, 400), st.integers(1, 5)),
        max_size=60,
    )
)
def test_nothing_is_lost_or_given_twice_without_being_told(
    steps: list[tuple[str, bytes, int, int]],
) -> None:
    boxes = Boxes(limit=3000)
    put: dict[bytes, int] = {A: 0, B: 0}
    seen: dict[bytes, list[int]] = {A: [], B: []}
    lost: dict[bytes, int] = {A: 0, B: 0}
    for step, key, size, limit in steps:
        if step == "p":
            boxes.put(key, bytes(size))
            put[key] += 1
        else:
            page = boxes.read(key, seen[key][-1] if seen[key] else None, limit)
            fresh = [cursor for cursor, _ in page.envelopes]
            assert fresh == sorted(fresh)
            assert not seen[key] or not fresh or fresh[0] > seen[key][-1]
            lost[key] += page.lost if seen[key] else 0
            seen[key] += fresh
        assert boxes.inboxes.statistics()[2] <= 3000
    for key in (A, B):
        assert len(seen[key]) <= put[key]
