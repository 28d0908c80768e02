"""Carries events from the outbox to their listeners (agentchat wire 12.10; see `hooks`).

An event is committed with the change it tells of, one row per listener, so no crash comes between the two. The
courier claims rows for a while, hands them over, and takes a row out when its listener has it. A hall that dies
on the way leaves a claim that runs out: the event is told again, under the same id. So every listener hears of
every event at least once, and a listener that wants it exactly once looks at the id.

Each listener has its own rows, its own pace and its own retries: one that is slow or gone delays no other. An
event waits while an earlier one of the same deal is still on its way to the same listener.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

from moothall.hall.agenda import Appointment
from moothall.hall.counts import Counts
from moothall.hall.outside import Store
from moothall.hall.services import Timekeeper
from moothall.market.hooks import Subscription
from moothall.market.records import HookEvent

FIRST_RETRY: Final = 1.0  # seconds; each further one waits twice as long
LONGEST_RETRY: Final = 600.0  # a receiver that is back after a night hears of it within ten minutes
GIVE_UP_AFTER: Final = 3 * 86_400.0  # seconds from the event: a long weekend
CLAIM_MARGIN: Final = 5.0  # seconds that a claim outlives the delivery
LOOK_SECONDS: Final = 60.0  # how often to look for what another hall on the same database left behind
STORE_RETRY: Final = 5.0  # seconds after the store failed

Result = TypeVar("Result")
Told = Callable[[str | None], None]  # None: delivered; otherwise why not


class Delivery(NamedTuple):
    event: HookEvent
    attempts: int  # before this one


class Waiting(NamedTuple):
    events: int = 0
    oldest: int | None = None  # when it happened


class Outbox(Protocol):
    def claim_events(self, listener: str, now: int, until: int, limit: int) -> list[Delivery]:
        """Events to deliver now. The hall that claims them has time `until` then, after which they are due again: a
        hall that dies meanwhile loses none, and of several halls one has each. Of each deal only the first."""

    def postpone_event(self, listener: str, event_id: str, until: int) -> None: ...

    def remove_event(self, listener: str, event_id: str) -> None:
        """Remove an event that was delivered, or is given up."""

    def next_event(self, listener: str) -> int | None:
        """The time at which the next event can be claimed."""

    def waiting_events(self, listeners: Sequence[str]) -> Waiting: ...


class Listener(Protocol):
    @property
    def subscription(self) -> Subscription: ...

    @property
    def shown_as(self) -> str:
        """The listener's name in logs, without secret parts of its address."""

    @property
    def hands(self) -> int:
        """The number of events that it takes at a time."""

    @property
    def patience(self) -> float:
        """Seconds within which `told` is called for a delivery, whatever happens."""

    def deliver(self, event: HookEvent, attempt: int, told: Told) -> None:
        """Returns at once; `told` is called once, later, on the hall's loop."""


def retry_delay(attempts: int) -> float:
    """Seconds from the failure of this attempt, counted from 1, to the next."""
    doublings = min(attempts - 1, 20)  # more would be above the longest anyway
    return min(FIRST_RETRY * 2.0**doublings, LONGEST_RETRY)


class Courier:
    """All listeners of a hall, and how they are doing. Nothing happens before `open`."""

    def __init__(self, store: Store[Outbox], listeners: Iterable[Listener]) -> None:
        self._store = store
        self._rounds = [_Round(self, store, listener) for listener in listeners]
        names = [each.name for each in self._rounds]
        self._waiting: Counts[Outbox, Waiting] = Counts(
            store, lambda outbox: outbox.waiting_events(names), Waiting()
        )
        self._hall: Timekeeper | None = None
        self.delivered = 0
        self.failures = 0  # attempts that failed
        self.given_up = 0

    @property
    def waiting(self) -> Waiting:
        """The latest count of waiting events. It may be a moment old."""
        return self._waiting.latest

    def open(self, hall: Timekeeper) -> None:
        self._hall = hall
        for each in self._rounds:
            each.open(hall)
        self.recount()

    def wake(self) -> None:
        """There are new events."""
        for each in self._rounds:
            each.look()
        self.recount()

    def stop(self) -> None:
        """Claim nothing more. What is on its way may still arrive."""
        self._hall = None
        for each in self._rounds:
            each.is_open = False

    def close(self) -> None:
        """The store is about to close: what is still on its way will be told again by the next hall."""
        for each in self._rounds:
            each.is_over = True

    def recount(self) -> None:
        if self._hall is not None and self._rounds:
            self._waiting.changed(self._hall)


class _Round:
    """The way to one listener."""

    def __init__(self, courier: Courier, store: Store[Outbox], listener: Listener) -> None:
        self.name = listener.subscription.listener
        self._courier = courier
        self._store = store
        self._listener = listener
        self._hall: Timekeeper | None = None
        self.is_open = False
        self.is_over = False
        self._on_the_way = 0
        self._looking = False
        self._look_again = False
        self._next_look: Appointment | None = None

    def open(self, hall: Timekeeper) -> None:
        self._hall = hall
        self.is_open = True
        self.look()

    def look(self) -> None:
        """Claim as much as the listener has hands free for."""
        hall = self._hall
        free = self._listener.hands - self._on_the_way
        if hall is None or not self.is_open or free <= 0:
            return
        if self._looking:
            self._look_again = True  # what is being looked at may be older than what is new
            return
        self._looking = True
        self._look_again = False
        now = hall.timestamp()
        until = now + round((self._listener.patience + CLAIM_MARGIN) * 1000)

        def work(outbox: Outbox) -> tuple[list[Delivery], int | None]:
            return outbox.claim_events(self.name, now, until, free), outbox.next_event(self.name)

        def found(answer: tuple[list[Delivery], int | None]) -> None:
            deliveries, due = answer
            self._looking = False
            self._on_the_way += len(deliveries)
            for delivery in deliveries:
                if self.is_open:
                    self._hand_over(hall, delivery)
                else:  # too late: the next hall need not wait until the claim runs out
                    self._finish(hall, delivery.event, now)
            if self._look_again:
                self.look()
            else:
                self._plan(hall, LOOK_SECONDS if due is None else (due - hall.timestamp()) / 1000)

        def failed(error: BaseException) -> None:
            self._looking = False
            hall.log.warning("hooks_not_read", error=repr(error))
            self._plan(hall, STORE_RETRY)

        self._store.submit(work, found, failed)

    def _plan(self, hall: Timekeeper, seconds: float) -> None:
        """The next look, in place of the planned one. A listener that has no hand free looks when it has one."""
        if self._next_look is not None:
            hall.agenda.cancel(self._next_look)
        if self.is_open:
            due = hall.now() + min(max(seconds, 0.0), LOOK_SECONDS)
            self._next_look = hall.agenda.at(due, self.look)

    def _hand_over(self, hall: Timekeeper, delivery: Delivery) -> None:
        attempt = delivery.attempts + 1

        def told(failure: str | None) -> None:
            self._courier.recount()
            if failure is None:
                self._courier.delivered += 1
                self._finish(hall, delivery.event, None)
            else:
                self._courier.failures += 1
                self._finish(hall, delivery.event, self._retry_at(hall, delivery.event, attempt, failure))

        self._listener.deliver(delivery.event, attempt, told)

    def _retry_at(self, hall: Timekeeper, event: HookEvent, attempt: int, failure: str) -> int | None:
        again = hall.timestamp() + round(retry_delay(attempt) * 1000)
        facts = {"listener": self._listener.shown_as, "hook": event.id, "attempt": attempt, "why": failure}
        if again > event.at + GIVE_UP_AFTER * 1000:
            self._courier.given_up += 1
            hall.log.warning("hook_given_up", **facts)
            return None
        # A receiver that is down for a day is not worth a line for each of its events and hours.
        if attempt == 1:
            hall.log.warning("hook_failed", **facts)
        return again

    def _finish(self, hall: Timekeeper, event: HookEvent, again: int | None) -> None:
        if self.is_over:
            return

        def work(outbox: Outbox) -> None:
            if again is None:
                outbox.remove_event(self.name, event.id)
            else:
                outbox.postpone_event(self.name, event.id, again)

        def done(_: None) -> None:
            self._on_the_way -= 1
            self.look()

        def failed(error: BaseException) -> None:
            """The claim runs out by itself, and the event is told again."""
            self._on_the_way -= 1
            hall.log.warning("hook_not_noted", hook=event.id, error=repr(error))
            self._plan(hall, STORE_RETRY)

        self._store.submit(work, done, failed)
