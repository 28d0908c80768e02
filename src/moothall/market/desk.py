"""Where agents and the market meet: one handler per command (agentchat wire 5.4).

A handler checks what the hall knows, hands a unit of work to the store, and tells the parties once it is
committed. Signatures are checked on the store's thread: libsodium works outside the interpreter's lock, so a
deal being verified does not keep anybody's chat waiting. Nothing here decides; see `proposals` and `clerk`.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

from msgspec import structs

from moothall.errors import AgentNotFound, ProposalNotFound
from moothall.hall.commands import Command
from moothall.hall.costs import LOOKUP, OFFER, REGISTRATION, SEARCH, STEP
from moothall.hall.counts import Counts
from moothall.hall.deadlines import AT_ONCE, RETRY_SECONDS, Deadlines
from moothall.hall.hall import Hall
from moothall.hall.outside import Store
from moothall.hall.session import Agent, Session, Tier
from moothall.hall.voice import Line
from moothall.identity import PublicKey
from moothall.identity.seals import Seal
from moothall.market import bounds, clerk, notices
from moothall.market.books import Books
from moothall.market.letterboxes import Letterboxes
from moothall.market.outcome import Outcome, ServiceLine
from moothall.market.quotas import Disk, require_room
from moothall.market.records import Change, Proposal, Standing
from moothall.market.rules import MarketRules
from moothall.market.signed import check_signature
from moothall.wire.agentchat import client
from moothall.wire.agentchat.names import bare_id
from moothall.wire.agentchat.server import ServerMessage

Step = client.Accept | client.Reject | client.Complete | client.Dispute


class DealCounts(NamedTuple):
    by_status: dict[str, int]
    parties: int


def count_deals(books: Books) -> DealCounts:
    return DealCounts(books.counts(), books.parties())


class MarketDesk:
    def __init__(self, store: Store[Books], rules: MarketRules, seal: Seal) -> None:
        """`seal` signs receipts."""
        self._store = store
        self._steps: Mapping[type[Step], Callable[..., Outcome]] = {
            client.Accept: clerk.accept,
            client.Reject: clerk.reject,
            client.Complete: partial(clerk.complete, seal=seal),
            client.Dispute: clerk.dispute,
        }
        self._rules = rules
        self._letterboxes = Letterboxes()
        self.disk: Final = Disk(rules.quotas)
        # Fingerprints that the reference server knew and no key has shown yet; None: they were not read yet.
        self._missed: set[str] | None = None
        self._counts: Counts[Books, DealCounts] = Counts(store, count_deals, DealCounts({}, 0))
        self._expiries: Deadlines[Books, Outcome] = Deadlines(
            store,
            find=lambda books, now: ([deal.id for deal in books.due(now, AT_ONCE)], books.next_deadline()),
            lapse=lambda books, proposal_id, now: clerk.expire(books, proposal_id, now=now),
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

    def commands(self) -> tuple[Command, ...]:
        signed = partial(Command, cost=STEP, tier=Tier.VERIFIED, lurkers=False)
        return (
            signed(client.Proposal, self.propose, cost=OFFER, check=bounds.check_proposal),
            signed(client.Accept, self.take_step, check=bounds.check_accept),
            signed(client.Reject, self.take_step, check=bounds.check_reject),
            signed(client.Complete, self.take_step, check=bounds.check_complete),
            signed(client.Dispute, self.take_step, check=bounds.check_dispute),
            signed(client.RegisterSkills, self.register_skills, cost=REGISTRATION, check=bounds.check_skills),
            Command(client.SearchSkills, self.search_skills, SEARCH, check=bounds.check_search),
            Command(client.ListProposals, self.list_proposals, LOOKUP, Tier.VERIFIED),
            Command(client.ListReceipts, self.list_receipts, LOOKUP, Tier.VERIFIED),
            Command(client.GetRating, self.get_rating, LOOKUP),
            Command(client.GetLeaderboard, self.get_leaderboard, LOOKUP),
        )

    def open(self, hall: Hall) -> None:
        """Begin with what is due: deadlines that passed while the hall was closed are acted upon now."""
        self._rules = structs.replace(self._rules, ratings=self._rules.ratings.in_hall(hall.is_local))
        self._expiries.act(hall)
        self._counts.count(hall)
        self._look_out(hall)

    # -- deals -------------------------------------------------------------------------------------

    def propose(self, hall: Hall, session: Session, message: client.Proposal) -> None:
        agent, key = _party(hall, session)
        target = hall.agents.get(bare_id(message.to))
        if target is not None and target.key is None and target.claimed_key is None:
            raise AgentNotFound(f"{target.address} has no key, and nobody can deal with it")
        # Who only claims a key counts as absent: else somebody's old packet, sent again, would keep deals from it.
        recipient = target.key.raw if target is not None and target.key is not None else None
        task = hall.redacted(message.task, agent)
        now = hall.timestamp()
        proposal_id = hall.ids.stamped("prop", now)
        rules = self._rules

        def work(books: Books) -> Outcome:
            to = clerk.find_recipient(books, message.to, recipient, hall.revoked)
            if to is not None:
                require_room(books, key.raw, to, now, rules.quotas)
            return clerk.propose(
                books,
                check_signature(message, key, rules),
                proposal_id=proposal_id,
                address=agent.address,
                recipient=to,
                task=task,
                now=now,
            )

        store = self._store
        if target is not None and recipient is not None:
            store = self._letterboxes.admit(hall, target, message, store)
        self._carry_out(hall, session, work, store)

    def take_step(self, hall: Hall, session: Session, message: Step) -> None:
        """ACCEPT, REJECT, COMPLETE, DISPUTE: they differ in the decision alone."""
        _, key = _party(hall, session)
        now, rules = hall.timestamp(), self._rules
        decide = self._steps[type(message)]
        self._carry_out(
            hall,
            session,
            lambda books: decide(books, check_signature(message, key, rules), now=now, rules=rules),
        )

    # -- skills ------------------------------------------------------------------------------------

    def register_skills(self, hall: Hall, session: Session, message: client.RegisterSkills) -> None:
        agent, key = _party(hall, session)
        now, rules = hall.timestamp(), self._rules
        self._carry_out(
            hall,
            session,
            lambda books: clerk.register_skills(
                books, check_signature(message, key, rules), agent_id=agent.id, now=now
            ),
        )

    def search_skills(self, hall: Hall, session: Session, message: client.SearchSkills) -> None:
        now, id_length = hall.timestamp(), hall.settings.id_length

        def work(books: Books) -> ServerMessage:
            return clerk.search_skills(books, message, online=_Present(hall), now=now, id_length=id_length)

        self._look_up(hall, session, work)

    # -- what was imported -------------------------------------------------------------------------

    def _look_out(self, hall: Hall) -> None:
        """For those who have a rating or skills from before: both count from when their keys appear."""

        def found(missed: set[str]) -> None:
            self._missed = missed
            if not missed:
                hall.arrivals.remove(recognise)

        def failed(error: BaseException) -> None:
            hall.log.warning("imports_not_read", error=repr(error))
            hall.agenda.at(hall.now() + RETRY_SECONDS, ask)

        def ask() -> None:
            self._store.submit(lambda books: books.missed(), found, failed)

        def recognise(agent: Agent) -> None:
            self._recognise(hall, agent)

        hall.arrivals.append(recognise)
        ask()

    def _recognise(self, hall: Hall, agent: Agent) -> None:
        key = agent.key
        if key is None or (self._missed is not None and key.fingerprint not in self._missed):
            return

        def bound(_: Standing) -> None:
            if self._missed is not None:
                self._missed.discard(key.fingerprint)

        def failed(error: BaseException) -> None:
            """The next time, then."""
            hall.log.warning("import_not_bound", agent=agent.address, error=repr(error))

        self._store.submit(lambda books: books.standing(key.raw), bound, failed)

    # -- looking things up -------------------------------------------------------------------------

    def list_proposals(self, hall: Hall, session: Session, message: client.ListProposals) -> None:
        _, key = _party(hall, session)
        now = hall.timestamp()

        def work(books: Books) -> ServerMessage:
            before = None if message.before is None else _own(books, message.before, key.raw)
            page = books.proposals_of(
                key.raw,
                limit=message.limit,
                open_only=message.open_only,
                before=before,
                most=notices.MAX_ANSWER,
            )
            return notices.deal_list(page, now)

        self._look_up(hall, session, work)

    def list_receipts(self, hall: Hall, session: Session, message: client.ListReceipts) -> None:
        _, key = _party(hall, session)
        now = hall.timestamp()

        def work(books: Books) -> ServerMessage:
            page = books.receipts(
                key.raw, limit=message.limit, before=message.before, most=notices.MAX_ANSWER
            )
            return notices.receipt_list(page, now)

        self._look_up(hall, session, work)

    def get_rating(self, hall: Hall, session: Session, message: client.GetRating) -> None:
        agent = hall.agent_of(session)
        address = message.agent or agent.address
        known = hall.agents.get(bare_id(address))
        own = None if known is None else known.key or known.claimed_key
        raw = None if own is None else own.raw
        now = hall.timestamp()

        def work(books: Books) -> ServerMessage:
            key = raw or books.find_key(bare_id(address))
            if key is None:
                raise AgentNotFound(f"{address[:64]} is not known here")
            return notices.ratings(address, books.standing(key), books.history(key, message.limit), now)

        self._look_up(hall, session, work)

    def get_leaderboard(self, hall: Hall, session: Session, message: client.GetLeaderboard) -> None:
        now, id_length = hall.timestamp(), hall.settings.id_length
        self._look_up(
            hall,
            session,
            lambda books: notices.leaderboard(books.leaders(message.limit), id_length, now),
        )

    # -- to the store and back ---------------------------------------------------------------------

    def _carry_out(
        self,
        hall: Hall,
        session: Session,
        work: Callable[[Books], Outcome],
        store: Store[Books] | None = None,
    ) -> None:
        self.disk.transact(
            hall, session, store or self._store, work, lambda outcome: self._tell(hall, outcome, session)
        )

    def _look_up(self, hall: Hall, session: Session, work: Callable[[Books], ServerMessage]) -> None:
        hall.transact(session, self._store, work, lambda message: hall.reply(session, message))

    def _tell(self, hall: Hall, outcome: Outcome, actor: Session | None) -> None:
        """Both parties, wherever they are now; whoever acted gets it as the answer to its command."""
        for notice in outcome.notices:
            hall.tell_keys(notice.to, notice.message, actor)
        for line in outcome.lines:
            _say(hall, line)
        self.mind(hall, _deals(outcome.changes))

    def mind(self, hall: Hall, deals: Iterable[Proposal]) -> None:
        """These have changed, here or in court: their deadlines count, and so do they."""
        for deal in deals:
            if deal.expires is not None and deal.frozen_by is None:
                self._expiries.plan(hall, deal.expires)
        self._counts.changed(hall)


def _say(hall: Hall, line: ServiceLine) -> None:
    spoken = Line(
        bare_id(line.about), line.channel, line.content, line.buffered, line.spacing, is_moderated=True
    )
    hall.voice.offer(spoken, hall.now())


def _party(hall: Hall, session: Session) -> tuple[Agent, PublicKey]:
    agent = hall.agent_of(session)
    assert agent.key is not None  # noqa: S101  # the tier of the command says so
    return agent, agent.key


def _own(books: Books, proposal_id: str, key: bytes) -> Proposal:
    deal = books.proposal(proposal_id, hold=False)
    if deal is None or key not in (deal.proposer, deal.recipient):
        raise ProposalNotFound("You have no deal with this id")
    return deal


class _Present:
    """The keys of everybody who is here: proven ones, and those that agents of other wires sign with."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall

    def __contains__(self, key: object) -> bool:
        hall = self._hall
        if key in hall.by_key:
            return True
        if not isinstance(key, bytes):
            return False
        public = PublicKey(key)
        agent = hall.agents.get(public.agent_id(hall.settings.id_length))
        return agent is not None and agent.claimed_key == public


def _deals(changes: Iterable[Change]) -> list[Proposal]:
    return [change for change in changes if isinstance(change, Proposal)]
