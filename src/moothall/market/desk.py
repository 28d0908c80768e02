"""Where agents and the market meet: one handler per command (agentchat wire 5.4).

A handler checks what the hall knows, hands a unit of work to the store, and tells the parties once it is
committed. Signatures are checked on the store's thread, before any row is read: libsodium works outside the
interpreter's lock, so chat does not wait for a deal that is being verified. Messages become commands, and news
become messages, in `agentchat`. Nothing here decides; see `proposals` and `clerk`.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, Protocol, TypeVar

from msgspec import structs

from moothall.errors import AgentNotFound, ProposalNotFound
from moothall.hall.commands import Command, Row
from moothall.hall.costs import LOOKUP, OFFER, REGISTRATION, SEARCH, STEP, Cost
from moothall.hall.counts import Counts
from moothall.hall.deadlines import AT_ONCE, RETRY_SECONDS, Deadlines
from moothall.hall.elsewhere import NOWHERE, Addressed, Elsewhere
from moothall.hall.outside import Store
from moothall.hall.roster import Present
from moothall.hall.services import Services
from moothall.hall.session import Agent, Session, Tier
from moothall.hall.voice import Line
from moothall.identity import PublicKey
from moothall.identity.seals import Seal
from moothall.market import agentchat, bounds, clerk
from moothall.market.agentchat import Message
from moothall.market.announcements import CHANNELS, line_about
from moothall.market.books import MAX_ANSWER, Books
from moothall.market.commands import Complete, Propose
from moothall.market.letterboxes import Letterboxes
from moothall.market.outcome import MarketOutcome, News
from moothall.market.quotas import Disk
from moothall.market.records import Change, Proposal, Standing
from moothall.market.rules import MarketRules
from moothall.market.signed import AnyCommand, Sent, Signed, SignedCommand, check_signature
from moothall.market.storable import kept_json
from moothall.wire.agentchat import client
from moothall.wire.agentchat.names import bare_id
from moothall.wire.agentchat.server import ServerMessage

Given = TypeVar("Given", bound=SignedCommand, contravariant=True)


class Decide(Protocol[Given]):
    """A unit of work of `clerk`."""

    def __call__(
        self, books: Books, order: Signed[Given], /, *, now: int, rules: MarketRules
    ) -> MarketOutcome: ...


class DealCounts(NamedTuple):
    by_status: dict[str, int]
    parties: int


def count_deals(books: Books) -> DealCounts:
    return DealCounts(books.counts(), books.parties())


class MarketDesk:
    def __init__(
        self, store: Store[Books], rules: MarketRules, seal: Seal, elsewhere: Elsewhere = NOWHERE
    ) -> None:
        """`seal` signs receipts. Parties that are connected to other halls are told `elsewhere`."""
        self._store = store
        self._elsewhere = elsewhere
        self._rules = rules
        self._seal = seal
        self._letterboxes = Letterboxes()
        self.disk: Final = Disk(rules.quotas)
        # Fingerprints that the reference server knew and no key has shown yet; None: they were not read yet.
        self._missed: set[str] | None = None
        self._counts: Counts[Books, DealCounts] = Counts(store, count_deals, DealCounts({}, 0))
        self._expiries: Deadlines[Books, MarketOutcome] = Deadlines(
            store,
            find=lambda books, now: ([deal.id for deal in books.due(now, AT_ONCE)], books.next_deadline()),
            lapse=self._expire,
            tell=lambda hall, outcome: self._tell(hall, outcome, None),
        )

    @property
    def counts(self) -> dict[str, int]:
        """Proposals by status, as of a moment ago."""
        return self._counts.latest.by_status

    @property
    def parties(self) -> int:
        """Agents that are a party of a proposal, as of a moment ago."""
        return self._counts.latest.parties

    def commands(self) -> tuple[Row, ...]:
        return (
            _signed(client.Proposal, agentchat.propose, bounds.check_propose, self.propose, OFFER),
            self._step(client.Accept, agentchat.accept, bounds.check_accept, clerk.accept),
            self._step(client.Reject, agentchat.reject, bounds.check_reject, clerk.reject),
            self._step(client.Complete, agentchat.complete, bounds.check_complete, self._complete),
            self._step(client.Dispute, agentchat.dispute, bounds.check_dispute, clerk.dispute),
            _signed(
                client.RegisterSkills,
                agentchat.register_skills,
                bounds.check_skills,
                self.register_skills,
                REGISTRATION,
            ),
            Command(client.SearchSkills, self.search_skills, SEARCH, check=agentchat.check_search),
            Command(client.ListProposals, self.list_proposals, LOOKUP, Tier.VERIFIED),
            Command(client.ListReceipts, self.list_receipts, LOOKUP, Tier.VERIFIED),
            Command(client.GetRating, self.get_rating, LOOKUP),
            Command(client.GetLeaderboard, self.get_leaderboard, LOOKUP),
        )

    def open(self, hall: Services) -> None:
        """Begin with what is due: deadlines that passed while the hall was closed are acted upon now."""
        self._rules = structs.replace(self._rules, ratings=self._rules.ratings.in_hall(hall.roster.is_local))
        self._expiries.act(hall)
        self._counts.count(hall)
        self._look_out(hall)

    # -- deals -------------------------------------------------------------------------------------

    def propose(self, hall: Services, session: Session, message: client.Proposal) -> None:
        agent, key = _party(hall, session)
        target = hall.roster.get(bare_id(message.to))
        if target is not None and target.key is None and target.claimed_key is None:
            raise AgentNotFound(f"{target.address} has no key, so it cannot make deals")
        # An agent that only claims a key counts as absent: a replayed packet must not keep deals from its owner.
        recipient = target.key.raw if target is not None and target.key is not None else None
        now, rules = hall.timestamp(), self._rules
        proposal_id = hall.ids.ordered("prop", now)
        offer = structs.replace(message, task=hall.redacted(message.task, agent))

        def work(books: Books, order: Signed[Propose]) -> MarketOutcome:
            return clerk.propose(
                books,
                order,
                proposal_id=proposal_id,
                address=agent.address,
                connected=recipient,
                now=now,
                rules=rules,
                revoked=hall.revoked,
            )

        store = self._store
        if target is not None and recipient is not None:
            store = self._letterboxes.admit(hall, target, len(kept_json(message)), store)
        # The agent signed what it sent; what is kept, and told, has no secrets in it.
        self._carry_out(
            hall,
            session,
            lambda: agentchat.sent(message, agentchat.propose(offer), key, kept=offer),
            work,
            store,
        )

    def _step(
        self,
        message_type: type[Message],
        read: Callable[[Message], AnyCommand],
        bound: Callable[[AnyCommand], None],
        decide: Decide[AnyCommand],
    ) -> Row:
        """The row of ACCEPT, REJECT, COMPLETE or DISPUTE: they differ in what is read and decided alone."""

        def take_step(hall: Services, session: Session, message: Message) -> None:
            _, key = _party(hall, session)
            now, rules = hall.timestamp(), self._rules
            self._carry_out(
                hall,
                session,
                lambda: agentchat.sent(message, read(message), key),
                lambda books, order: decide(books, order, now=now, rules=rules),
            )

        return _signed(message_type, read, bound, take_step)

    def _complete(
        self, books: Books, order: Signed[Complete], /, *, now: int, rules: MarketRules
    ) -> MarketOutcome:
        return clerk.complete(books, order, now=now, rules=rules, seal=self._seal)

    # -- skills ------------------------------------------------------------------------------------

    def register_skills(self, hall: Services, session: Session, message: client.RegisterSkills) -> None:
        agent, key = _party(hall, session)
        now = hall.timestamp()
        self._carry_out(
            hall,
            session,
            lambda: agentchat.sent(message, agentchat.register_skills(message), key),
            lambda books, order: clerk.register_skills(books, order, agent_id=agent.id, now=now),
        )

    def search_skills(self, hall: Services, session: Session, message: client.SearchSkills) -> None:
        now, id_length = hall.timestamp(), hall.settings.id_length

        def work(books: Books) -> ServerMessage:
            found = clerk.search_skills(books, agentchat.read_query(message), online=Online(hall))
            return agentchat.search_results(message, found, id_length, now)

        self._look_up(hall, session, work)

    # -- what was imported -------------------------------------------------------------------------

    def _look_out(self, hall: Services) -> None:
        """Watch for agents whose ratings or skills were imported without a key: they count once the key arrives."""

        def found(missed: set[str]) -> None:
            self._missed = missed
            if not missed:
                hall.roster.off_arrival(recognise)

        def failed(error: BaseException) -> None:
            hall.log.warning("imports_not_read", error=repr(error))
            hall.agenda.at(hall.now() + RETRY_SECONDS, ask)

        def ask() -> None:
            self._store.submit(lambda books: books.missed(), found, failed)

        def recognise(agent: Present) -> None:
            self._recognise(hall, agent)

        hall.roster.on_arrival(recognise)
        ask()

    def _recognise(self, hall: Services, agent: Present) -> None:
        key = agent.key
        if key is None or (self._missed is not None and key.fingerprint not in self._missed):
            return

        def bound(_: Standing) -> None:
            if self._missed is not None:
                self._missed.discard(key.fingerprint)

        def failed(error: BaseException) -> None:
            """The next attempt will do it."""
            hall.log.warning("import_not_bound", agent=agent.address, error=repr(error))

        self._store.submit(lambda books: books.standing(key.raw), bound, failed)

    # -- looking things up -------------------------------------------------------------------------

    def list_proposals(self, hall: Services, session: Session, message: client.ListProposals) -> None:
        _, key = _party(hall, session)
        now = hall.timestamp()

        def work(books: Books) -> ServerMessage:
            before = None if message.before is None else _own(books, message.before, key.raw)
            page = books.proposals_of(
                key.raw,
                limit=message.limit,
                open_only=message.open_only,
                before=before,
                most=MAX_ANSWER,
            )
            return agentchat.deal_list(page, now)

        self._look_up(hall, session, work)

    def list_receipts(self, hall: Services, session: Session, message: client.ListReceipts) -> None:
        _, key = _party(hall, session)
        now = hall.timestamp()

        def work(books: Books) -> ServerMessage:
            page = books.receipts(key.raw, limit=message.limit, before=message.before, most=MAX_ANSWER)
            return agentchat.receipt_list(page, now)

        self._look_up(hall, session, work)

    def get_rating(self, hall: Services, session: Session, message: client.GetRating) -> None:
        agent = hall.agent_of(session)
        address = message.agent or agent.address
        known = hall.roster.get(bare_id(address))
        own = None if known is None else known.key or known.claimed_key
        raw = None if own is None else own.raw
        now = hall.timestamp()

        def work(books: Books) -> ServerMessage:
            key = raw or books.find_key(bare_id(address))
            if key is None:
                raise AgentNotFound(f"{address[:64]} is not known here")
            return agentchat.ratings(address, books.standing(key), books.history(key, message.limit), now)

        self._look_up(hall, session, work)

    def get_leaderboard(self, hall: Services, session: Session, message: client.GetLeaderboard) -> None:
        now, id_length = hall.timestamp(), hall.settings.id_length

        def work(books: Books) -> ServerMessage:
            leaders = books.leaders(message.limit)
            standings = books.standings_of([leader.key for leader in leaders])
            return agentchat.leaderboard(leaders, standings, id_length, now)

        self._look_up(hall, session, work)

    # -- to the store and back ---------------------------------------------------------------------

    def _carry_out(
        self,
        hall: Services,
        session: Session,
        read: Callable[[], Sent[AnyCommand]],
        work: Callable[[Books, Signed[AnyCommand]], MarketOutcome],
        store: Store[Books] | None = None,
    ) -> None:
        code = self._rules.signature_code
        self.disk.transact(
            hall,
            session,
            store or self._store,
            lambda: check_signature(read(), code),
            lambda books, order: self._posted(books, work(books, order)),
            lambda outcome: self._tell(hall, outcome, session),
        )

    def _posted(self, books: Books, outcome: MarketOutcome) -> MarketOutcome:
        self._elsewhere.tell(books, _addressed(outcome))
        return outcome

    def _expire(self, books: Books, proposal_id: str, now: int) -> MarketOutcome | None:
        outcome = clerk.expire(books, proposal_id, now=now)
        return None if outcome is None else self._posted(books, outcome)

    def _look_up(self, hall: Services, session: Session, work: Callable[[Books], ServerMessage]) -> None:
        hall.durable.transact(session, self._store, work, lambda message: hall.reply(session, message))

    def _tell(self, hall: Services, outcome: MarketOutcome, actor: Session | None) -> None:
        """Both parties, wherever they are now. The agent that acted gets it as the answer to its command."""
        for notice in outcome.notices:
            hall.delivery.tell_keys(notice.to, agentchat.message_of(notice.news), actor)
            _announce(hall, notice.news)
        self.mind(hall, _deals(outcome.changes))

    def plan(self, hall: Services, deadline: int) -> None:
        """There is an open deal with this deadline; another hall may have made it."""
        self._expiries.plan(hall, deadline)

    def mind(self, hall: Services, deals: Iterable[Proposal]) -> None:
        """Reschedule the expiry and refresh the counters of these deals, which changed here or in court."""
        for deal in deals:
            if deal.expires is not None and deal.frozen_by is None:
                self._expiries.plan(hall, deal.expires)
        self.recount(hall)

    def recount(self, hall: Services) -> None:
        """Deals have changed, here or at another hall."""
        self._counts.changed(hall)


def _signed(
    message_type: type[Message],
    read: Callable[[Message], AnyCommand],
    bound: Callable[[AnyCommand], None],
    handler: Callable[[Services, Session, Message], None],
    cost: Cost = STEP,
) -> Row:
    check = agentchat.check(read, bound)
    return Command(message_type, handler, cost, Tier.VERIFIED, check=check, lurkers=False)


def _announce(hall: Services, news: News) -> None:
    """A line of @server. Most halls do not have its channel: there the line is not even made."""
    channel = CHANNELS.get(type(news))
    line = line_about(news) if channel is not None and hall.has_channel(channel) else None
    if line is not None:
        spoken = Line(
            bare_id(line.about), line.channel, line.content, line.buffered, line.spacing, is_moderated=True
        )
        hall.voice.offer(spoken, hall.now())


def _party(hall: Services, session: Session) -> tuple[Agent, PublicKey]:
    agent = hall.agent_of(session)
    assert agent.key is not None  # noqa: S101  # the tier of the command says so
    return agent, agent.key


def _own(books: Books, proposal_id: str, key: bytes) -> Proposal:
    deal = books.proposal(proposal_id, hold=False)
    if deal is None or key not in (deal.proposer, deal.recipient):
        raise ProposalNotFound("You have no deal with this id")
    return deal


class Online:
    """The keys of all agents that are here: proven ones, and those that agents of other wires sign with."""

    def __init__(self, hall: Services) -> None:
        self._hall = hall

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, bytes):
            return False
        roster = self._hall.roster
        return roster.holder(key) is not None or bool(roster.bearers(key))


def _addressed(outcome: MarketOutcome) -> Iterator[Addressed]:
    """Lazy, also when it is compiled: a generator expression would make all messages at once."""
    for notice in outcome.notices:
        yield Addressed(notice.to, agentchat.message_of(notice.news))


def _deals(changes: Iterable[Change]) -> list[Proposal]:
    # isinstance() asks the metaclass of a struct, which takes several times as long.
    return [change for change in changes if type(change) is Proposal]
