"""Where agents and the court meet: one handler per command (agentchat wire 5.5).

A handler hands a unit of work to the store and tells everybody concerned once it is committed; signatures are
checked on the store's thread. Whoever is not connected is not told: it finds its cases with LIST_CASES and
GET_CASE, and an arbiter that comes back is reminded of what it has yet to do. Nothing here decides; see `filing`,
`hearing`, `judging` and `clerk`.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, Protocol, TypeVar

from moothall.court import clerk
from moothall.court.books import Books
from moothall.court.outcome import Notice, Outcome
from moothall.court.panel import Candidate
from moothall.court.records import CourtChange, Dispute
from moothall.court.rules import CourtRules
from moothall.hall.agenda import Appointment
from moothall.hall.commands import Command
from moothall.hall.hall import Hall
from moothall.hall.session import Agent, Session, Tier
from moothall.identity import PublicKey
from moothall.market.desk import Desk
from moothall.market.records import Proposal
from moothall.wire.agentchat import client
from moothall.wire.agentchat.server import Ack, ServerMessage

CASES_AT_ONCE: Final = 100
RECOUNT_SECONDS: Final = 1.0  # how old the numbers in /metrics may be
RETRY_SECONDS: Final = 5.0  # after the store failed to tell what is due

Result = TypeVar("Result")
Failed = Callable[[BaseException], None]
Step = client.ArbiterAccept | client.Evidence | client.ArbiterVote
Draw = client.DisputeReveal | client.ArbiterDecline

STEPS: Final[Mapping[type[Step], Callable[..., Outcome]]] = {
    client.ArbiterAccept: clerk.accept,
    client.Evidence: clerk.submit_evidence,
    client.ArbiterVote: clerk.vote,
}
DRAWS: Final[Mapping[type[Draw], Callable[..., Outcome]]] = {
    client.DisputeReveal: clerk.reveal,
    client.ArbiterDecline: clerk.decline,
}


class Store(Protocol):
    """See `moothall.store.units.Store`."""

    def submit(
        self,
        work: Callable[[Books], Result],
        done: Callable[[Result], None],
        failed: Callable[[BaseException], None],
    ) -> None: ...


class CourtDesk:
    def __init__(self, store: Store, rules: CourtRules, market: Desk) -> None:
        """`market` minds the deadlines of deals, also of those that a case gives back."""
        self._store = store
        self._rules = rules
        self._market = market
        self._next_deadline: Appointment | None = None
        self._recount: Appointment | None = None
        # Who has a live slot in which open cases: whoever is not in here comes and goes without a query.
        self._seats: dict[bytes, set[str]] = {}
        self.counts: dict[str, int] = {}  # cases by phase, as of a moment ago

    def commands(self) -> tuple[Command, ...]:
        return (
            Command(client.DisputeIntent, self.file_intent, Tier.VERIFIED),
            Command(client.DisputeReveal, self.take_step_that_draws, Tier.VERIFIED),
            Command(client.Evidence, self.take_step, Tier.VERIFIED),
            Command(client.ArbiterAccept, self.take_step, Tier.VERIFIED),
            Command(client.ArbiterDecline, self.take_step_that_draws, Tier.VERIFIED),
            Command(client.ArbiterVote, self.take_step, Tier.VERIFIED),
            Command(client.ListCases, self.list_cases, Tier.VERIFIED),
            Command(client.GetCase, self.get_case, Tier.VERIFIED),
        )

    def open(self, hall: Hall) -> None:
        """Begin with what is due: deadlines that passed while the hall was closed are acted upon now."""
        hall.arrivals.append(lambda agent: self._remind(hall, agent))
        self._load_seats(hall)
        self._act_upon_deadlines(hall)
        self._count(hall)

    # -- filing ------------------------------------------------------------------------------------

    def file_intent(self, hall: Hall, session: Session, message: client.DisputeIntent) -> None:
        key = _key(hall, session)
        now, rules = hall.timestamp(), self._rules
        dispute_id, server_nonce = hall.ids.stamped("disp", now), hall.ids.nonce()
        self._carry_out(
            hall,
            session,
            lambda books: clerk.file_intent(
                books, message, key, dispute_id=dispute_id, server_nonce=server_nonce, now=now, rules=rules
            ),
        )

    # -- every other step --------------------------------------------------------------------------

    def take_step(self, hall: Hall, session: Session, message: Step) -> None:
        """ARBITER_ACCEPT, EVIDENCE, ARBITER_VOTE: they differ in the decision alone."""
        key, now, rules = _key(hall, session), hall.timestamp(), self._rules
        decide = STEPS[type(message)]
        self._carry_out(hall, session, lambda books: decide(books, message, key, now=now, rules=rules))

    def take_step_that_draws(self, hall: Hall, session: Session, message: Draw) -> None:
        """DISPUTE_REVEAL and ARBITER_DECLINE: the lot falls among those who are here now."""
        key, now, rules = _key(hall, session), hall.timestamp(), self._rules
        candidates = self._candidates(hall)
        decide = DRAWS[type(message)]
        self._carry_out(
            hall, session, lambda books: decide(books, message, key, candidates, now=now, rules=rules)
        )

    def _candidates(self, hall: Hall) -> list[Candidate]:
        """Everybody here who could be asked (seed 000, reveal 7): a proven key, and not away."""
        absent = self._rules.absent
        return [
            Candidate(agent.key.raw, agent.address)
            for agent in hall.agents.values()
            if agent.key is not None and agent.presence not in absent
        ]

    # -- looking things up -------------------------------------------------------------------------

    def list_cases(self, hall: Hall, session: Session, message: client.ListCases) -> None:
        key, now = _key(hall, session), hall.timestamp()
        self._look_up(hall, session, lambda books: clerk.list_cases(books, message, key, now=now))

    def get_case(self, hall: Hall, session: Session, message: client.GetCase) -> None:
        key, now = _key(hall, session), hall.timestamp()
        self._look_up(hall, session, lambda books: clerk.get_case(books, message, key, now=now))

    # -- to the store and back ---------------------------------------------------------------------

    def _carry_out(self, hall: Hall, session: Session, work: Callable[[Books], Outcome]) -> None:
        def submit(done: Callable[[Outcome], None], failed: Failed) -> None:
            self._store.submit(work, done, failed)

        def carried_out(outcome: Outcome) -> None:
            self._tell(hall, outcome)
            if outcome.answer is not None:
                hall.reply(session, outcome.answer)
            elif session.ref is not None:
                hall.reply(session, Ack(ts=hall.timestamp()))

        hall.wait_for(session, submit, carried_out)

    def _look_up(self, hall: Hall, session: Session, work: Callable[[Books], ServerMessage]) -> None:
        def submit(done: Callable[[ServerMessage], None], failed: Failed) -> None:
            self._store.submit(work, done, failed)

        hall.wait_for(session, submit, lambda message: hall.reply(session, message))

    def _tell(self, hall: Hall, outcome: Outcome) -> None:
        """Everybody concerned, wherever they are now."""
        for notice in outcome.notices:
            _deliver(hall, notice)
        for case in _cases(outcome.changes):
            self._seat(case)
            if case.deadline is not None:
                self._plan(hall, case.deadline)
        # A deal that was given back may be overdue, and one that was judged is counted elsewhere now.
        self._market.mind(hall, [change for change in outcome.changes if isinstance(change, Proposal)])
        if self._recount is None:
            self._recount = hall.agenda.at(hall.now() + RECOUNT_SECONDS, lambda: self._count(hall))

    # -- arbiters that come back -------------------------------------------------------------------

    def _load_seats(self, hall: Hall) -> None:
        def loaded(seats: list[tuple[bytes, str]]) -> None:
            for key, dispute_id in seats:
                self._seats.setdefault(key, set()).add(dispute_id)
            for agent in list(hall.agents.values()):  # who came before this was known
                self._remind(hall, agent)

        def failed(error: BaseException) -> None:
            hall.log.warning("seats_not_loaded", error=repr(error))
            hall.agenda.at(hall.now() + RETRY_SECONDS, lambda: self._load_seats(hall))

        self._store.submit(lambda books: books.seats(), loaded, failed)

    def _seat(self, case: Dispute) -> None:
        for slot in case.slots:
            seats = self._seats.setdefault(slot.arbiter, set())
            if case.is_open and slot.status != "declined":
                seats.add(case.id)
            else:
                seats.discard(case.id)
            if not seats:
                del self._seats[slot.arbiter]

    def _remind(self, hall: Hall, agent: Agent) -> None:
        if agent.key is None or agent.key.raw not in self._seats:
            return
        key, now = agent.key.raw, hall.timestamp()
        dispute_ids = sorted(self._seats[key])

        def found(notices: list[Notice]) -> None:
            for notice in notices:
                _deliver(hall, notice)

        def failed(error: BaseException) -> None:
            hall.log.warning("reminder_failed", error=repr(error))

        self._store.submit(lambda books: clerk.reminders(books, dispute_ids, key, now=now), found, failed)

    # -- the clock ---------------------------------------------------------------------------------

    def _plan(self, hall: Hall, deadline: int) -> None:
        due = hall.now() + max(0, deadline - hall.timestamp()) / 1000
        planned = self._next_deadline
        if planned is not None and not planned.cancelled:
            if planned.due <= due:
                return
            hall.agenda.cancel(planned)
        self._next_deadline = hall.agenda.at(due, lambda: self._act_upon_deadlines(hall))

    def _act_upon_deadlines(self, hall: Hall) -> None:
        now = hall.timestamp()

        def find(books: Books) -> tuple[list[str], int | None]:
            return books.due_cases(now, CASES_AT_ONCE), books.next_case_deadline()

        def found(answer: tuple[list[str], int | None]) -> None:
            due, deadline = answer
            if due:
                self._lapse(hall, due, now)
            elif deadline is not None:
                self._plan(hall, deadline)

        self._store.submit(find, found, lambda error: self._try_again(hall, error))

    def _lapse(self, hall: Hall, due: list[str], now: int) -> None:
        """What comes next is known only after the last of them; one that failed is not tried again at once."""
        waiting = len(due)
        failures: list[BaseException] = []

        def one_less() -> None:
            nonlocal waiting
            waiting -= 1
            if waiting:
                return
            if failures:
                self._try_again(hall, failures[0])
            else:
                self._act_upon_deadlines(hall)

        def done(outcome: Outcome | None) -> None:
            if outcome is not None:
                self._tell(hall, outcome)
            one_less()

        def failed(error: BaseException) -> None:
            failures.append(error)
            one_less()

        for dispute_id in due:
            work = partial(clerk.lapse, dispute_id=dispute_id, now=now, rules=self._rules)
            self._store.submit(work, done, failed)

    def _try_again(self, hall: Hall, error: BaseException) -> None:
        hall.log.warning("court_deadline_failed", error=repr(error))
        hall.agenda.at(hall.now() + RETRY_SECONDS, lambda: self._act_upon_deadlines(hall))

    def _count(self, hall: Hall) -> None:
        self._recount = None

        def counted(counts: dict[str, int]) -> None:
            self.counts = counts

        def failed(error: BaseException) -> None:
            hall.log.warning("count_failed", error=repr(error))

        self._store.submit(lambda books: books.cases_by_phase(), counted, failed)


def _key(hall: Hall, session: Session) -> PublicKey:
    key = hall.agent_of(session).key
    assert key is not None  # noqa: S101  # the tier of the command says so
    return key


def _deliver(hall: Hall, notice: Notice) -> None:
    """Encoded once, however many it is for."""
    here = [agent for key in notice.to if (agent := hall.by_key.get(key)) is not None]
    if here:
        hall.tell_all(here, notice.message)


def _cases(changes: Iterable[CourtChange]) -> list[Dispute]:
    return [change for change in changes if isinstance(change, Dispute)]
