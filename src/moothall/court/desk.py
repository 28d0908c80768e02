"""Where agents and the court meet: one handler per command (agentchat wire 5.5).

A handler hands a unit of work to the store and tells the agents concerned once it is committed. Signatures are
checked on the store's thread, before any row is read. Agents that are not connected are not told: they find their
cases with LIST_CASES and GET_CASE, and an arbiter that comes back is reminded of what it has yet to do. Messages
become commands, and news become messages, in `agentchat`. Nothing here decides; see `filing`, `hearing`, `judging`
and `clerk`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol, TypeVar

from msgspec import structs

from moothall.court import agentchat, bounds, clerk
from moothall.court.books import Books
from moothall.court.commands import SubmitEvidence
from moothall.court.news import CourtOutcome
from moothall.court.panel import Candidate
from moothall.court.records import CourtChange, Dispute
from moothall.court.rules import CourtRules
from moothall.hall.commands import Command, Row
from moothall.hall.costs import CASE, DRAW, EVIDENCE, STEP, Cost
from moothall.hall.counts import Counts
from moothall.hall.deadlines import AT_ONCE, RETRY_SECONDS, Deadlines
from moothall.hall.elsewhere import EXPIRY_SECONDS, NOWHERE, ON_THE_MESH, Addressed, Elsewhere
from moothall.hall.outside import Store
from moothall.hall.roster import Present
from moothall.hall.services import Services
from moothall.hall.session import Session, Tier
from moothall.identity import PublicKey
from moothall.identity.seals import Seal
from moothall.market.agentchat import Message, check, sent
from moothall.market.conversations import Conversation
from moothall.market.desk import MarketDesk
from moothall.market.outcome import Notice
from moothall.market.records import Proposal
from moothall.market.signed import AnyCommand, Sent, Signed, SignedCommand, check_signature
from moothall.wire.agentchat import client
from moothall.wire.agentchat.server import Ack, ServerMessage

ARRIVAL_SECONDS: Final = 0.25  # agents that come within it are looked up together
PAUSE_SECONDS: Final = 1.0  # for an arbiter to read what it was reminded of

Given = TypeVar("Given", bound=SignedCommand, contravariant=True)


class Decide(Protocol[Given]):
    """A unit of work of `clerk`."""

    def __call__(
        self, books: Books, order: Signed[Given], /, *, now: int, rules: CourtRules, seal: Seal
    ) -> CourtOutcome: ...


class Draw(Protocol[Given]):
    """One in which seats go to agents of the pool that are connected now."""

    def __call__(
        self,
        books: Books,
        order: Signed[Given],
        candidates: Sequence[Candidate],
        /,
        *,
        now: int,
        rules: CourtRules,
        seal: Seal,
    ) -> CourtOutcome: ...


class Conversations(Protocol):
    """The desk of the mesh."""

    def notify_of_court(self, books: Books, conversation: Conversation) -> None:
        """A case about this conversation is filed or ends: in its unit of work."""

    def court_changed(self, conversation: Conversation) -> None:
        """The same, after the commit."""


class CourtDesk:
    def __init__(
        self,
        store: Store[Books],
        rules: CourtRules,
        market: MarketDesk,
        seal: Seal,
        elsewhere: Elsewhere = NOWHERE,
        *,
        is_shared: bool = False,
    ) -> None:
        """`market` minds the deadlines of deals, also of those that a case gives back; `seal` signs cases.
        Agents that are connected to other halls are told `elsewhere`. Those halls seat arbiters too in a store that
        `is_shared`."""
        self._store = store
        self._rules = rules
        self._seal = seal
        self._elsewhere = elsewhere
        self._market = market
        self._counts: Counts[Books, dict[str, int]] = Counts(store, lambda books: books.cases_by_phase(), {})
        self._deadlines: Deadlines[Books, CourtOutcome] = Deadlines(
            store,
            find=lambda books, now: (books.due_cases(now, AT_ONCE), books.next_case_deadline()),
            lapse=self._lapse,
            tell=self._tell,
        )
        # Arbiters with a live slot, and the open cases. All other agents come and go without a query. In a shared
        # store other halls fill slots too, so agents that come are looked up there, a few at a time.
        self._seats: dict[bytes, set[str]] = {}
        self._is_shared = is_shared
        self._arrived: dict[bytes, Present] = {}
        # Agents that left another node, and when, the latest last. The store may list those of a node that ended
        # without a word until it takes its hall for gone. The roster knows better.
        self._departed: dict[bytes, float] = {}
        self.mesh: Conversations | None = None  # where the parties of conversations are told

    @property
    def counts(self) -> dict[str, int]:
        """Cases by phase, as of a moment ago."""
        return self._counts.latest

    def commands(self) -> tuple[Row, ...]:
        return (
            Command(
                client.DisputeIntent,
                self.file_intent,
                DRAW,
                Tier.VERIFIED,
                check=check(agentchat.file_intent, bounds.check_intent),
            ),
            self._draw(client.DisputeReveal, agentchat.reveal, clerk.reveal),
            self._step(client.Evidence, _read_evidence, clerk.submit_evidence, EVIDENCE),
            self._step(client.ArbiterAccept, agentchat.accept, clerk.accept),
            self._draw(client.ArbiterDecline, agentchat.decline, clerk.decline, bounds.check_decline),
            self._step(client.ArbiterVote, agentchat.vote, clerk.vote, STEP, bounds.check_vote),
            Command(client.ListCases, self.list_cases, CASE, Tier.VERIFIED),
            Command(client.GetCase, self.get_case, CASE, Tier.VERIFIED),
        )

    def open(self, hall: Services) -> None:
        """Begin with what is due: deadlines that passed while the hall was closed are acted upon now."""
        self._rules = structs.replace(self._rules, ratings=self._rules.ratings.in_hall(hall.roster.is_local))
        hall.roster.on_arrival(lambda agent: self._remind(hall, agent))
        if self._is_shared:
            hall.roster.on_departure_elsewhere(lambda agent: self._note_departure(hall, agent))
        else:
            self._load_seats(hall)
        self._deadlines.act(hall)
        self._counts.count(hall)

    # -- filing ------------------------------------------------------------------------------------

    def file_intent(self, hall: Services, session: Session, message: client.DisputeIntent) -> None:
        key = _key(hall, session)
        now, rules = hall.timestamp(), self._rules
        dispute_id, server_nonce = hall.ids.ordered("disp", now), hall.ids.nonce()
        here = self._candidates(hall)
        self._carry_out(
            hall,
            session,
            lambda: sent(message, agentchat.file_intent(message), key),
            lambda books, order: clerk.file_intent(
                books,
                order,
                self._everywhere(hall, books, here),
                dispute_id=dispute_id,
                server_nonce=server_nonce,
                now=now,
                rules=rules,
                seal=self._seal,
                id_length=hall.settings.id_length,
            ),
        )

    # -- every other step --------------------------------------------------------------------------

    def _step(
        self,
        message_type: type[Message],
        read: Callable[[Message], AnyCommand],
        decide: Decide[AnyCommand],
        cost: Cost = STEP,
        bound: Callable[[AnyCommand], None] | None = None,
    ) -> Row:
        """The row of ARBITER_ACCEPT, EVIDENCE or ARBITER_VOTE: they differ in what is read and decided alone."""

        def take_step(hall: Services, session: Session, message: Message) -> None:
            key, now, rules = _key(hall, session), hall.timestamp(), self._rules
            self._carry_out(
                hall,
                session,
                lambda: sent(message, read(message), key),
                lambda books, order: decide(books, order, now=now, rules=rules, seal=self._seal),
            )

        checked = None if bound is None else check(read, bound)
        return Command(message_type, take_step, cost, Tier.VERIFIED, check=checked)

    def _draw(
        self,
        message_type: type[Message],
        read: Callable[[Message], AnyCommand],
        draw: Draw[AnyCommand],
        bound: Callable[[AnyCommand], None] | None = None,
    ) -> Row:
        """The row of DISPUTE_REVEAL or ARBITER_DECLINE."""

        def take_step(hall: Services, session: Session, message: Message) -> None:
            key, now, rules = _key(hall, session), hall.timestamp(), self._rules
            here = self._candidates(hall)

            def work(books: Books, order: Signed[AnyCommand]) -> CourtOutcome:
                candidates = self._everywhere(hall, books, here)
                return draw(books, order, candidates, now=now, rules=rules, seal=self._seal)

            self._carry_out(hall, session, lambda: sent(message, read(message), key), work)

        checked = None if bound is None else check(read, bound)
        return Command(message_type, take_step, DRAW, Tier.VERIFIED, check=checked)

    def _candidates(self, hall: Services) -> list[Candidate]:
        """The agents here that could be asked (seed 000, reveal 7): a proven key, and not away."""
        absent, approved_only = self._rules.absent, self._rules.approved_only
        self._forget_departed(hall.now())
        return [
            Candidate(agent.key.raw, agent.address)
            for agent in hall.roster.everyone()
            if agent.key is not None
            and agent.presence not in absent
            and (not approved_only or agent.key in hall.allowlist)
        ]

    def _everywhere(self, hall: Services, books: Books, here: list[Candidate]) -> list[Candidate]:
        """With those that are connected to other halls. In a unit of work, on a thread of the store."""
        elsewhere = books.elsewhere()
        if not elsewhere:
            return here
        absent, approved_only = self._rules.absent | {ON_THE_MESH}, self._rules.approved_only
        known = {candidate.key for candidate in here}
        allowlist, length = hall.allowlist, hall.settings.id_length
        everywhere = list(here)
        for raw, presence in elsewhere:
            key = PublicKey(raw)
            if raw in known or raw in self._departed or presence in absent:
                continue
            if not approved_only or key in allowlist:
                known.add(raw)
                everywhere.append(Candidate(raw, f"@{key.agent_id(length)}"))
        return everywhere

    def _note_departure(self, hall: Services, agent: Present) -> None:
        if agent.key is not None:
            now = hall.now()
            self._departed.pop(agent.key.raw, None)
            self._departed[agent.key.raw] = now
            self._forget_departed(now)

    def _forget_departed(self, now: float) -> None:
        while self._departed:
            first, at = next(iter(self._departed.items()))
            if at + EXPIRY_SECONDS > now:
                return
            del self._departed[first]

    # -- looking things up -------------------------------------------------------------------------

    def list_cases(self, hall: Services, session: Session, message: client.ListCases) -> None:
        key, now = _key(hall, session), hall.timestamp()

        def work(books: Books) -> ServerMessage:
            page = books.cases_of(key.raw, limit=message.limit, open_only=message.open_only)
            return agentchat.case_list(page.cases, key.raw, now, truncated=page.truncated)

        self._look_up(hall, session, work)

    def get_case(self, hall: Services, session: Session, message: client.GetCase) -> None:
        key, now = _key(hall, session), hall.timestamp()

        def work(books: Books) -> ServerMessage:
            body = clerk.get_case(books, message.dispute_id, message.proposal_id, key.raw)
            return agentchat.case_file(body, now)

        self._look_up(hall, session, work)

    # -- to the store and back ---------------------------------------------------------------------

    def _carry_out(
        self,
        hall: Services,
        session: Session,
        read: Callable[[], Sent[AnyCommand]],
        work: Callable[[Books, Signed[AnyCommand]], CourtOutcome],
    ) -> None:
        code = self._rules.signature_code

        def carried_out(outcome: CourtOutcome) -> None:
            self._tell(hall, outcome)
            if outcome.answer is not None:
                hall.reply(session, agentchat.message_of(outcome.answer))
            elif session.ref is not None:
                hall.reply(session, Ack(ts=hall.timestamp()))

        self._market.disk.transact(
            hall,
            session,
            self._store,
            lambda: check_signature(read(), code),
            lambda books, order: self._posted(books, work(books, order)),
            carried_out,
        )

    def _posted(self, books: Books, outcome: CourtOutcome) -> CourtOutcome:
        self._elsewhere.tell(
            books, (Addressed(each.to, agentchat.message_of(each.news)) for each in outcome.notices)
        )
        for change in outcome.changes:
            if isinstance(change, Conversation) and self.mesh is not None:
                self.mesh.notify_of_court(books, change)
        return outcome

    def _lapse(self, books: Books, dispute_id: str, now: int) -> CourtOutcome | None:
        outcome = clerk.lapse(books, dispute_id, now=now, rules=self._rules, seal=self._seal)
        return None if outcome is None else self._posted(books, outcome)

    def _look_up(self, hall: Services, session: Session, work: Callable[[Books], ServerMessage]) -> None:
        hall.durable.transact(session, self._store, work, lambda message: hall.reply(session, message))

    def _tell(self, hall: Services, outcome: CourtOutcome) -> None:
        """The agents concerned, wherever they are now."""
        for notice in outcome.notices:
            hall.delivery.tell_keys(notice.to, agentchat.message_of(notice.news))
        for case in _cases(outcome.changes):
            if not self._is_shared:
                self._seat(case)
            if case.deadline is not None:
                self._deadlines.plan(hall, case.deadline)
        for change in outcome.changes:
            if isinstance(change, Conversation) and self.mesh is not None:
                self.mesh.court_changed(change)
        # A deal that was given back may be overdue, and one that was judged is counted elsewhere now.
        self._market.mind(hall, [change for change in outcome.changes if isinstance(change, Proposal)])
        self.recount(hall)

    # -- arbiters that come back -------------------------------------------------------------------

    def _load_seats(self, hall: Services) -> None:
        def loaded(seats: list[tuple[bytes, str]]) -> None:
            for key, dispute_id in seats:
                self._seats.setdefault(key, set()).add(dispute_id)
            for agent in list(hall.roster.everyone()):  # who came before this was known
                if agent.key is not None and hall.roster.is_here(agent.key.raw):
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

    def recount(self, hall: Services) -> None:
        """Cases have changed, here or at another hall."""
        self._counts.changed(hall)

    def plan(self, hall: Services, deadline: int) -> None:
        """There is an open case with this deadline; another hall may have opened it."""
        self._deadlines.plan(hall, deadline)

    def _remind(self, hall: Services, agent: Present) -> None:
        if self._is_shared and agent.key is not None:
            if not self._arrived:
                hall.agenda.at(hall.now() + ARRIVAL_SECONDS, lambda: self._remind_arrived(hall))
            self._arrived[agent.key.raw] = agent
        elif agent.key is not None and agent.key.raw in self._seats:
            self._remind_of(hall, agent, agent.key.raw, sorted(self._seats[agent.key.raw]))

    def _remind_arrived(self, hall: Services) -> None:
        arrived, self._arrived = self._arrived, {}

        def found(seats: list[tuple[bytes, str]]) -> None:
            cases: dict[bytes, list[str]] = {}
            for key, dispute_id in sorted(seats):
                cases.setdefault(key, []).append(dispute_id)
            for key, dispute_ids in cases.items():
                if hall.roster.holder(key) is arrived[key]:
                    self._remind_of(hall, arrived[key], key, dispute_ids)

        def failed(error: BaseException) -> None:
            hall.log.warning("reminder_failed", error=repr(error))

        self._store.submit(lambda books: books.seats_of(list(arrived)), found, failed)

    def _remind_of(self, hall: Services, agent: Present, key: bytes, dispute_ids: Sequence[str]) -> None:
        """Send a little at a time: evidence is large, and all of it at once could overflow the outbox."""
        now = hall.timestamp()

        def found(answer: tuple[list[Notice], Sequence[str]]) -> None:
            notices, others = answer
            if hall.roster.holder(key) is not agent:
                return
            for notice in notices:
                hall.delivery.tell_keys(notice.to, agentchat.message_of(notice.news))
            if others:
                hall.agenda.at(hall.now() + PAUSE_SECONDS, lambda: go_on(others))

        def go_on(others: Sequence[str]) -> None:
            if hall.roster.holder(key) is agent:
                self._remind_of(hall, agent, key, others)

        def failed(error: BaseException) -> None:
            hall.log.warning("reminder_failed", error=repr(error))

        self._store.submit(
            lambda books: clerk.reminders(books, dispute_ids, key, now=now, size=agentchat.size_of),
            found,
            failed,
        )


def _read_evidence(message: client.Evidence) -> SubmitEvidence:
    """Its bounds are checked on the store's thread: to look through a whole frame takes a while."""
    command = agentchat.submit_evidence(message)
    bounds.check_evidence(command)
    return command


def _key(hall: Services, session: Session) -> PublicKey:
    key = hall.agent_of(session).key
    assert key is not None  # noqa: S101  # the tier of the command says so
    return key


def _cases(changes: Iterable[CourtChange]) -> list[Dispute]:
    return [change for change in changes if isinstance(change, Dispute)]
