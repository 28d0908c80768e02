"""Where agents and the court meet: one handler per command (agentchat wire 5.5).

A handler hands a unit of work to the store and tells everybody concerned once it is committed; signatures are
checked on the store's thread. Whoever is not connected is not told: it finds its cases with LIST_CASES and
GET_CASE, and an arbiter that comes back is reminded of what it has yet to do. Nothing here decides; see `filing`,
`hearing`, `judging` and `clerk`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import structs

from moothall.court import clerk
from moothall.court.books import Books
from moothall.court.outcome import Notice, Outcome
from moothall.court.panel import Candidate
from moothall.court.records import CourtChange, Dispute
from moothall.court.rules import CourtRules
from moothall.hall.commands import Command
from moothall.hall.costs import CASE, DRAW, EVIDENCE, STEP
from moothall.hall.counts import Counts
from moothall.hall.deadlines import AT_ONCE, RETRY_SECONDS, Deadlines
from moothall.hall.hall import Hall
from moothall.hall.outside import Store
from moothall.hall.session import Agent, Session, Tier
from moothall.identity import PublicKey
from moothall.identity.seals import Seal
from moothall.market.desk import MarketDesk
from moothall.market.records import Proposal
from moothall.wire.agentchat import client
from moothall.wire.agentchat.server import Ack, ServerMessage

PAUSE_SECONDS: Final = 1.0  # for an arbiter to read what it was reminded of

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


class CourtDesk:
    def __init__(self, store: Store[Books], rules: CourtRules, market: MarketDesk, seal: Seal) -> None:
        """`market` minds the deadlines of deals, also of those that a case gives back; `seal` signs cases."""
        self._store = store
        self._rules = rules
        self._seal = seal
        self._market = market
        self._counts: Counts[Books, dict[str, int]] = Counts(store, lambda books: books.cases_by_phase(), {})
        self._deadlines: Deadlines[Books, Outcome] = Deadlines(
            store,
            find=lambda books, now: (books.due_cases(now, AT_ONCE), books.next_case_deadline()),
            lapse=lambda books, dispute_id, now: clerk.lapse(
                books, dispute_id, now=now, rules=self._rules, seal=seal
            ),
            tell=self._tell,
        )
        # Who has a live slot in which open cases: whoever is not in here comes and goes without a query.
        self._seats: dict[bytes, set[str]] = {}

    @property
    def counts(self) -> dict[str, int]:
        """Cases by phase, as of a moment ago."""
        return self._counts.latest

    def commands(self) -> tuple[Command, ...]:
        return (
            Command(client.DisputeIntent, self.file_intent, DRAW, Tier.VERIFIED),
            Command(client.DisputeReveal, self.take_step_that_draws, DRAW, Tier.VERIFIED),
            Command(client.Evidence, self.take_step, EVIDENCE, Tier.VERIFIED),
            Command(client.ArbiterAccept, self.take_step, STEP, Tier.VERIFIED),
            Command(client.ArbiterDecline, self.take_step_that_draws, DRAW, Tier.VERIFIED),
            Command(client.ArbiterVote, self.take_step, STEP, Tier.VERIFIED),
            Command(client.ListCases, self.list_cases, CASE, Tier.VERIFIED),
            Command(client.GetCase, self.get_case, CASE, Tier.VERIFIED),
        )

    def open(self, hall: Hall) -> None:
        """Begin with what is due: deadlines that passed while the hall was closed are acted upon now."""
        self._rules = structs.replace(self._rules, ratings=self._rules.ratings.in_hall(hall.is_local))
        hall.arrivals.append(lambda agent: self._remind(hall, agent))
        self._load_seats(hall)
        self._deadlines.act(hall)
        self._counts.count(hall)

    # -- filing ------------------------------------------------------------------------------------

    def file_intent(self, hall: Hall, session: Session, message: client.DisputeIntent) -> None:
        key = _key(hall, session)
        now, rules = hall.timestamp(), self._rules
        dispute_id, server_nonce = hall.ids.stamped("disp", now), hall.ids.nonce()
        candidates = self._candidates(hall)
        self._carry_out(
            hall,
            session,
            lambda books: clerk.file_intent(
                books,
                message,
                key,
                candidates,
                dispute_id=dispute_id,
                server_nonce=server_nonce,
                now=now,
                rules=rules,
                seal=self._seal,
            ),
        )

    # -- every other step --------------------------------------------------------------------------

    def take_step(self, hall: Hall, session: Session, message: Step) -> None:
        """ARBITER_ACCEPT, EVIDENCE, ARBITER_VOTE: they differ in the decision alone."""
        key, now, rules = _key(hall, session), hall.timestamp(), self._rules
        decide = STEPS[type(message)]
        self._carry_out(
            hall, session, lambda books: decide(books, message, key, now=now, rules=rules, seal=self._seal)
        )

    def take_step_that_draws(self, hall: Hall, session: Session, message: Draw) -> None:
        """DISPUTE_REVEAL and ARBITER_DECLINE: seats go to agents of the pool that are here now."""
        key, now, rules = _key(hall, session), hall.timestamp(), self._rules
        candidates = self._candidates(hall)
        decide = DRAWS[type(message)]
        self._carry_out(
            hall,
            session,
            lambda books: decide(books, message, key, candidates, now=now, rules=rules, seal=self._seal),
        )

    def _candidates(self, hall: Hall) -> list[Candidate]:
        """The agents here that could be asked (seed 000, reveal 7): a proven key, and not away."""
        absent, approved_only = self._rules.absent, self._rules.approved_only
        return [
            Candidate(agent.key.raw, agent.address)
            for agent in hall.agents.values()
            if agent.key is not None
            and agent.presence not in absent
            and (not approved_only or agent.key in hall.allowlist)
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
        def carried_out(outcome: Outcome) -> None:
            self._tell(hall, outcome)
            if outcome.answer is not None:
                hall.reply(session, outcome.answer)
            elif session.ref is not None:
                hall.reply(session, Ack(ts=hall.timestamp()))

        self._market.disk.transact(hall, session, self._store, work, carried_out)

    def _look_up(self, hall: Hall, session: Session, work: Callable[[Books], ServerMessage]) -> None:
        hall.transact(session, self._store, work, lambda message: hall.reply(session, message))

    def _tell(self, hall: Hall, outcome: Outcome) -> None:
        """Everybody concerned, wherever they are now."""
        for notice in outcome.notices:
            hall.tell_keys(notice.to, notice.message)
        for case in _cases(outcome.changes):
            self._seat(case)
            if case.deadline is not None:
                self._deadlines.plan(hall, case.deadline)
        # A deal that was given back may be overdue, and one that was judged is counted elsewhere now.
        self._market.mind(hall, [change for change in outcome.changes if isinstance(change, Proposal)])
        self._counts.changed(hall)

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
        if agent.key is not None and agent.key.raw in self._seats:
            self._remind_of(hall, agent, agent.key.raw, sorted(self._seats[agent.key.raw]))

    def _remind_of(self, hall: Hall, agent: Agent, key: bytes, dispute_ids: Sequence[str]) -> None:
        """A little at a time: evidence is large, and who is sent all of it at once may be closed as too slow."""
        now = hall.timestamp()

        def found(answer: tuple[list[Notice], Sequence[str]]) -> None:
            notices, others = answer
            if hall.by_key.get(key) is not agent:
                return
            for notice in notices:
                hall.tell_keys(notice.to, notice.message)
            if others:
                hall.agenda.at(hall.now() + PAUSE_SECONDS, lambda: go_on(others))

        def go_on(others: Sequence[str]) -> None:
            if hall.by_key.get(key) is agent:
                self._remind_of(hall, agent, key, others)

        def failed(error: BaseException) -> None:
            hall.log.warning("reminder_failed", error=repr(error))

        self._store.submit(lambda books: clerk.reminders(books, dispute_ids, key, now=now), found, failed)


def _key(hall: Hall, session: Session) -> PublicKey:
    key = hall.agent_of(session).key
    assert key is not None  # noqa: S101  # the tier of the command says so
    return key


def _cases(changes: Iterable[CourtChange]) -> list[Dispute]:
    return [change for change in changes if isinstance(change, Dispute)]
