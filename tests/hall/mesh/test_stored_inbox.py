"""When inboxes in the store are tidied up, and what the room hears of them."""

from collections.abc import Callable
from typing import Any

from moothall.hall.mesh.frames import MAX_PAGE_BYTES
from moothall.hall.mesh.inbox import Page
from moothall.hall.mesh.stored_inbox import MAX_AGE, MAX_TOTAL, TIDY_SECONDS, InboxBooks, StoredInboxes
from moothall.hall.outside import Result
from tests.support.world import World

AGENT = b"a" * 32


class Books(InboxBooks):
    """Notes what is asked of it."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.oldest: int | None = None

    def put_envelope(self, recipient: bytes, raw: bytes, at: int) -> int:
        self.asked.append(("put", recipient, raw, at))
        return 7

    def take_out(self, recipient: bytes, cursor: int) -> None:
        self.asked.append(("take out", recipient, cursor))

    def inbox(self, recipient: bytes, after: int | None, limit: int, most: int) -> Page:
        self.asked.append(("read", recipient, after, limit, most))
        return Page((), more=False, lost=0)

    def newest_envelope(self, recipient: bytes) -> int:
        return 7

    def tidy_inboxes(self, before: int, most: int) -> int | None:
        self.asked.append(("tidy", before, most))
        return self.oldest


class Store:
    def __init__(self) -> None:
        self.books = Books()
        self.fails = False

    def submit(
        self,
        work: Callable[[Books], Result],
        done: Callable[[Result], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        if self.fails:
            failed(OSError("the disk is full"))
        else:
            done(work(self.books))


def fail(error: BaseException) -> None:
    raise error


def test_envelopes_are_kept_and_read() -> None:
    world, store = World(), Store()
    inboxes = StoredInboxes(store, world.hall)
    told: list[object] = []
    inboxes.put(AGENT, b"one", told.append, fail)
    inboxes.read(AGENT, 3, 10, told.append, fail)
    inboxes.newest(AGENT, told.append, fail)
    assert told == [True, Page((), more=False, lost=0), 7]
    assert store.books.asked == [
        ("put", AGENT, b"one", world.hall.timestamp()),
        ("read", AGENT, 3, 10, MAX_PAGE_BYTES),
    ]


def test_inboxes_are_tidied_at_the_start_and_a_minute_after_a_new_envelope() -> None:
    world, store = World(), Store()
    inboxes = StoredInboxes(store, world.hall)
    inboxes.open()
    assert store.books.asked == [("tidy", world.hall.timestamp() - MAX_AGE, MAX_TOTAL)]
    world.advance(10 * TIDY_SECONDS)
    assert len(store.books.asked) == 1  # nothing has changed
    inboxes.changed()
    world.advance(TIDY_SECONDS / 2)
    inboxes.changed()
    world.advance(TIDY_SECONDS / 2)
    assert len(store.books.asked) == 2


def test_it_goes_on_while_there_is_more_and_after_a_failure() -> None:
    world, store = World(), Store()
    inboxes = StoredInboxes(store, world.hall)
    store.books.oldest = 0
    inboxes.open()
    store.fails = True
    world.advance(TIDY_SECONDS)
    assert len(world.log.find("mesh_inbox_not_tidied")) == 1
    store.fails = False
    store.books.oldest = None
    world.advance(TIDY_SECONDS)
    assert len(store.books.asked) == 2
    world.advance(10 * TIDY_SECONDS)
    assert len(store.books.asked) == 2


def test_they_are_tidied_when_the_oldest_envelope_is_too_old() -> None:
    world, store = World(), Store()
    store.books.oldest = world.hall.timestamp()
    StoredInboxes(store, world.hall).open()
    world.advance(MAX_AGE / 1000 - 1)
    assert len(store.books.asked) == 1
    world.advance(2)
    assert len(store.books.asked) == 2


def test_what_was_delivered_elsewhere_is_taken_out() -> None:
    world, store = World(), Store()
    inboxes = StoredInboxes(store, world.hall)
    inboxes.delivered(b"bob", 7)
    assert store.books.asked == [("take out", b"bob", 7)]
    store.fails = True
    inboxes.delivered(b"bob", 8)
    assert world.log.find("mesh_inbox_not_taken_out")
