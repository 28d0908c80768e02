"""Events on their way, with a made-up clock: at least once, in order, at each listener's own pace."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.hall.counts import RECOUNT_SECONDS
from moothall.hall.outside import Result
from moothall.market.courier import (
    CLAIM_MARGIN,
    FIRST_RETRY,
    GIVE_UP_AFTER,
    LONGEST_RETRY,
    STORE_RETRY,
    Courier,
    Delivery,
    Outbox,
    Told,
    Waiting,
    retry_delay,
)
from moothall.market.hooks import Subscription
from moothall.market.records import HookEvent
from tests.support.world import World

PATIENCE = 10.0


@dataclass
class Row:
    event: HookEvent
    attempts: int
    due: int


class MemoryOutbox(Outbox):
    def __init__(self) -> None:
        self.rows: dict[str, list[Row]] = {}

    def put(self, listener: str, event: HookEvent) -> None:
        self.rows.setdefault(listener, []).append(Row(event, 0, event.at))

    def ids(self, listener: str) -> list[str]:
        return [row.event.id for row in self.rows.get(listener, ())]

    def claim_events(self, listener: str, now: int, until: int, limit: int) -> list[Delivery]:
        due = [row for row in self._first_of_deals(listener) if row.due <= now][:limit]
        claimed = [Delivery(row.event, row.attempts) for row in due]
        for row in due:
            row.attempts, row.due = row.attempts + 1, until
        return claimed

    def postpone_event(self, listener: str, event_id: str, until: int) -> None:
        for row in self.rows[listener]:
            if row.event.id == event_id:
                row.due = until

    def remove_event(self, listener: str, event_id: str) -> None:
        self.rows[listener] = [row for row in self.rows[listener] if row.event.id != event_id]

    def next_event(self, listener: str) -> int | None:
        return min((row.due for row in self._first_of_deals(listener)), default=None)

    def waiting_events(self, listeners: Sequence[str]) -> Waiting:
        rows = [row for listener in listeners for row in self.rows.get(listener, ())]
        return Waiting(len(rows), min((row.event.at for row in rows), default=None))

    def _first_of_deals(self, listener: str) -> list[Row]:
        first: dict[str, Row] = {}
        for row in self.rows.get(listener, ()):
            first.setdefault(row.event.deal, row)
        return list(first.values())


class PromptOutbox:
    """A store that does everything at once, or when the test wants it, or nothing."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._waiting: list[Callable[[], None]] = []
        self.down = False
        self.slow = False
        self.answers_late = False

    def catch_up(self) -> None:
        self.slow = False
        for work in self._waiting:
            work()

    def submit(
        self,
        work: Callable[[Outbox], Result],
        done: Callable[[Result], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        if self.slow:
            self._waiting.append(lambda: self.submit(work, done, failed))
        elif self.answers_late:
            result = work(self._outbox)
            self._waiting.append(lambda: done(result))
        elif self.down:
            failed(OSError("the disk is gone"))
        else:
            done(work(self._outbox))


class FakeListener:
    """Remembers what it was handed; the test says how each delivery went."""

    patience = PATIENCE

    def __init__(self, name: str, hands: int = 1) -> None:
        self.subscription = Subscription(name)
        self.shown_as = name
        self.hands = hands
        self.taken: list[tuple[str, int]] = []
        self.open: dict[str, Told] = {}

    def deliver(self, event: HookEvent, attempt: int, told: Told) -> None:
        assert event.id not in self.open, "the same event twice at a time"
        self.taken.append((event.id, attempt))
        self.open[event.id] = told
        assert len(self.open) <= self.hands

    def say(self, event_id: str, failure: str | None = None) -> None:
        self.open.pop(event_id)(failure)


class Post:
    """A courier, its listeners, and a hall whose clock it goes by."""

    def __init__(self, *listeners: FakeListener) -> None:
        self.world = World()
        self.outbox = MemoryOutbox()
        self.store = PromptOutbox(self.outbox)
        self.listeners = listeners
        self.courier = Courier(self.store, listeners)
        self.courier.open(self.world.hall)

    def happen(self, deal: str, name: str = "escrow:created") -> str:
        event = HookEvent(id=f"{deal}/{name}", name=name, deal=deal, at=self.world.now_ms, body=b"{}")
        for listener in self.listeners:
            self.outbox.put(listener.subscription.listener, event)
        self.courier.wake()
        return event.id


def test_an_event_is_handed_over_once_and_then_gone() -> None:
    books = FakeListener("books")
    post = Post(books)
    event = post.happen("prop_1")
    books.say(event)
    post.world.advance(3600)
    assert books.taken == [(event, 1)]
    assert post.outbox.ids("books") == []
    assert (post.courier.delivered, post.courier.failures) == (1, 0)


def test_a_failure_is_tried_again_twice_as_late_each_time() -> None:
    books = FakeListener("books")
    post = Post(books)
    event = post.happen("prop_1")
    for attempt, delay in ((1, 1), (2, 2), (3, 4)):
        books.say(event, "answered 500")
        post.world.advance(delay - 0.01)
        assert books.taken[-1] == (event, attempt)
        post.world.advance(0.01)
        assert books.taken[-1] == (event, attempt + 1)
    books.say(event)
    assert post.outbox.ids("books") == []
    assert (post.courier.delivered, post.courier.failures) == (1, 3)


@given(st.integers(1, 100_000))
def test_delays_grow_to_the_longest_and_no_further(attempt: int) -> None:
    assert FIRST_RETRY <= retry_delay(attempt) <= retry_delay(attempt + 1) <= LONGEST_RETRY


def test_after_three_days_it_is_given_up_and_the_operator_told() -> None:
    books = FakeListener("books")
    post = Post(books)
    event = post.happen("prop_1")
    while event in books.open:
        books.say(event, "answered 500")
        post.world.advance(LONGEST_RETRY)
    assert post.world.clock.monotonic() / 86_400 == pytest.approx(3, abs=0.02)
    assert post.outbox.ids("books") == []
    (given_up,) = post.world.log.find("hook_given_up")
    assert (given_up["hook"], given_up["why"]) == (event, "answered 500")
    assert len(post.world.log.find("hook_failed")) == 1
    assert post.courier.given_up == 1


def test_an_old_event_gets_one_attempt_at_least() -> None:
    """The hall was closed over a long holiday."""
    books = FakeListener("books")
    post = Post(books)
    event = HookEvent(
        id="a/b", name="b", deal="a", at=post.world.now_ms - round(GIVE_UP_AFTER * 2000), body=b"{}"
    )
    post.outbox.put("books", event)
    post.courier.wake()
    assert books.taken == [("a/b", 1)]
    books.say("a/b")
    assert post.courier.delivered == 1


def test_events_of_a_deal_wait_for_each_other_and_those_of_others_do_not() -> None:
    books = FakeListener("books", hands=4)
    post = Post(books)
    created = post.happen("prop_1")
    settled = post.happen("prop_1", "settlement:completion")
    other = post.happen("prop_2")
    assert list(books.open) == [created, other]
    books.say(created, "busy")
    assert list(books.open) == [other]
    post.world.advance(1)
    books.say(created)
    assert list(books.open) == [other, settled]


def test_a_listener_that_is_gone_delays_nobody_else() -> None:
    gone, well = FakeListener("gone"), FakeListener("well")
    post = Post(gone, well)
    events = [post.happen(f"prop_{number}") for number in range(5)]
    for event in events:
        well.say(event)
    assert list(gone.open) == events[:1]
    assert post.outbox.ids("gone") == events
    assert post.outbox.ids("well") == []


def test_a_listener_gets_as_much_as_it_has_hands_for() -> None:
    books = FakeListener("books", hands=3)
    post = Post(books)
    events = [post.happen(f"prop_{number}") for number in range(8)]
    assert list(books.open) == events[:3]
    for event in events:
        books.say(event)
    assert post.courier.delivered == 8


def test_a_hall_that_died_on_the_way_is_followed_by_one_that_tells_it_again() -> None:
    first = FakeListener("books")
    post = Post(first)
    event = post.happen("prop_1")
    post.courier.stop()
    post.courier.close()
    first.say(event)  # too late to be noted
    second = FakeListener("books")
    Courier(post.store, [second]).open(post.world.hall)
    post.world.advance(PATIENCE + CLAIM_MARGIN - 0.01)
    assert second.taken == []  # another hall may be at it
    post.world.advance(0.02)
    assert second.taken == [(event, 2)]


def test_a_store_that_fails_is_asked_again() -> None:
    books = FakeListener("books")
    post = Post(books)
    post.store.down = True
    event = post.happen("prop_1")
    assert books.taken == []
    post.store.down = False
    post.world.advance(STORE_RETRY)
    assert books.taken == [(event, 1)]
    post.store.down = True
    books.say(event)  # delivered, but nobody can note it
    post.store.down = False
    post.world.advance(PATIENCE + CLAIM_MARGIN)
    assert books.taken == [(event, 1), (event, 2)]
    assert {facts["hook"] for facts in post.world.log.find("hook_not_noted")} == {event}


def test_how_many_wait_is_known_a_moment_later() -> None:
    books = FakeListener("books")
    post = Post(books)
    happened = post.world.now_ms
    event = post.happen("prop_1")
    post.world.advance(RECOUNT_SECONDS)
    assert post.courier.waiting == Waiting(1, happened)
    books.say(event)
    post.world.advance(RECOUNT_SECONDS)
    assert post.courier.waiting == Waiting()


def test_what_was_claimed_too_late_is_there_for_the_next_hall_at_once() -> None:
    books = FakeListener("books")
    post = Post(books)
    post.store.slow = True
    event = post.happen("prop_1")
    post.courier.stop()
    post.store.catch_up()
    assert books.taken == []
    second = FakeListener("books")
    Courier(post.store, [second]).open(post.world.hall)
    assert second.taken == [(event, 2)]


def test_what_happens_while_the_outbox_is_looked_at_is_handed_over_at_once() -> None:
    """The look may have begun before the event was there, and the next is planned a minute later."""
    books = FakeListener("books")
    post = Post(books)
    post.store.answers_late = True
    post.courier.wake()
    event = post.happen("prop_1")
    post.store.answers_late = False
    post.store.catch_up()
    assert books.taken == [(event, 1)]


def test_after_closing_nothing_more_is_claimed() -> None:
    books = FakeListener("books")
    post = Post(books)
    post.courier.stop()
    post.happen("prop_1")
    post.world.advance(3600)
    assert books.taken == []


def test_without_listeners_the_store_is_left_alone() -> None:
    post = Post()
    post.store.down = True
    post.happen("prop_1")
    post.world.advance(3600)
    assert post.world.log.find("count_failed") == []
