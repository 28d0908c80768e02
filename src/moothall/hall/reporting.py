"""Reports of spending on their way to the store, and what /metrics knows of the day.

The store has the truth: the last report of each key, and the sums. So a report is answered when it is saved, a hall
that is killed forgets nothing, and a worker may go on at another hall on the same store. Reports that arrive while
the store works on others are handed in together: a crowd of workers costs a few commits.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from moothall.errors import BudgetExceeded
from moothall.hall.outside import Store
from moothall.hall.session import Agent, Session
from moothall.hall.spending import Caps, Report, SpendingBooks, Sums, day_of, settle
from moothall.wire.agentchat.server import Ack

if TYPE_CHECKING:
    from moothall.hall.hall import Hall

MAX_REPORTS: Final = 256  # in one unit of work
LOOK_SECONDS: Final = 5.0  # how old the sums of /metrics may be, if other halls may have changed them

# What became of a report: counted; only shown, because the agent has no key; counted, and refused for a cap.
OUTCOMES: Final = ("counted", "shown", "over_key", "over_total")

Settled = Callable[[Sums], None]
Failed = Callable[[BaseException], None]


class Filed(NamedTuple):
    key: bytes
    report: Report
    settled: Settled
    failed: Failed


class Spending:
    """The reports and caps of one hall."""

    def __init__(self, store: Store[SpendingBooks], caps: Caps) -> None:
        self.store = store
        self.caps = caps
        self.outcomes: Counter[str] = Counter(dict.fromkeys(OUTCOMES, 0))
        self._waiting: list[Filed] = []
        self._is_asking = False
        self._known = Sums(0, {}, 0)  # as the store said last: the total, and keys with a cap
        self._looked_at: float | None = None

    # -- reports -----------------------------------------------------------------------------------

    def file(self, hall: "Hall", key: bytes, report: Report, settled: Settled, failed: Failed) -> None:
        """Count a report. Ends with one of two calls."""
        self._waiting.append(Filed(key, report, settled, failed))
        if not self._is_asking:
            self._ask(hall)

    def _ask(self, hall: "Hall") -> None:
        asked, self._waiting = self._waiting[:MAX_REPORTS], self._waiting[MAX_REPORTS:]
        filed = [(each.key, each.report) for each in asked]
        day = day_of(hall.timestamp())
        self._is_asking = True

        def settled(sums: Sums) -> None:
            self._learn(sums)
            self._go_on(hall)
            for each in asked:
                each.settled(sums)

        def failed(error: BaseException) -> None:
            self._go_on(hall)
            for each in asked:
                each.failed(error)

        pool = self.caps.pool(key for key, _ in filed)
        self.store.submit(lambda books: settle(books, filed, day, pool), settled, failed)

    def _go_on(self, hall: "Hall") -> None:
        self._is_asking = False
        if self._waiting:
            self._ask(hall)

    # -- what is known -----------------------------------------------------------------------------

    def known(self, day: int) -> Sums:
        """The total of the day, and the sums of keys with a cap, as they were a moment ago."""
        return self._known if day == self._known.day else Sums(day, {}, 0)

    def look(self, hall: "Hall") -> None:
        """Ask the store for the sums of today, unless that was done a moment ago."""
        now = hall.now()
        if self._looked_at is not None and now < self._looked_at + LOOK_SECONDS:
            return
        self._looked_at = now
        day, keys = day_of(hall.timestamp()), self.caps.keys

        def failed(error: BaseException) -> None:
            hall.log.warning("spending_not_read", error=repr(error))

        self.store.submit(lambda books: books.spent(day, keys), self._learn, failed)

    def _learn(self, sums: Sums) -> None:
        """Sums only rise, so of two answers for one day the higher is the later one."""
        if sums.day < self._known.day:
            return
        known = self.known(sums.day)
        by_key = {
            key: max(known.by_key.get(key, 0), sums.by_key.get(key, 0))
            for key in self.caps.keys
            if key in known.by_key or key in sums.by_key
        }
        self._known = Sums(sums.day, by_key, max(known.total, sums.total))


def report(hall: "Hall", session: Session, agent: Agent, said: Report) -> None:
    """Count what the agent says that it has spent, and refuse it if it is over a cap; it is counted all the same.

    An agent without a key could come back as another one, so its reports are only shown.
    """
    spending = hall.spending
    if agent.key is None:
        spending.outcomes["shown"] += 1
        return
    key = agent.key.raw

    def settled(sums: Sums) -> None:
        excess = spending.caps.excess(key, sums)
        if excess is not None:
            spending.outcomes["over_total" if excess.is_total else "over_key"] += 1
            raise BudgetExceeded(excess.message)
        spending.outcomes["counted"] += 1
        if session.ref is not None:
            hall.reply(session, Ack(ts=hall.timestamp()))

    hall.durable.wait_for(session, partial(spending.file, hall, key, said), settled)
