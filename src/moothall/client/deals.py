"""Deals: offers made and received, what became of them, and the signatures under every step.

The agent keeps a book of its deals. Whatever the hall says about one is written there, so a `Proposal` always
shows the latest that is known. After a reconnect the book is compared with the hall's own (LIST_PROPOSALS): what
happened meanwhile is told to the handlers as if it had just been heard. The reference has no such list; there an
open deal stays as it was last heard of.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from moothall.client import drafts, incoming
from moothall.client.book import MAX_OPEN, Book
from moothall.client.court import Court
from moothall.client.dispute import Dispute
from moothall.client.handlers import Handlers
from moothall.client.incoming import Offer, Settled, Step
from moothall.client.logs import log
from moothall.client.proposal import PROGRESS, DealChange, Facts, Proposal, packed
from moothall.client.ratings import Receipt
from moothall.client.requests import Exchange, patiently
from moothall.client.session import Session
from moothall.client.signed import as_json, signed
from moothall.errors import (
    ConnectionLost,
    InvalidMessage,
    MoothallError,
    NotOffered,
    ReplyTimeout,
    UsageError,
)
from moothall.identity import PrivateKey
from moothall.wire.agentchat import client, market, signing
from moothall.wire.agentchat.client import ClientMessage, Number
from moothall.wire.agentchat.market import Status

# More than a connection reads ahead: a deal is still in the book when its COMPLETED is handled.
MAX_ENDED: Final = 512
PAGE: Final = 100  # deals asked for at once when comparing books; ten times as many if those were not enough
MAX_LIMIT: Final = 1000  # what our hall lists at once; refused like an unknown command beyond it
CATCH_UP_TIMEOUT: Final = 60.0  # seconds; entering many channels again comes first
GRACE: Final = 2.0  # seconds after a deadline without EXPIRED until the client asks the hall
RECHECK: Final = 10.0  # seconds between such questions

Message = TypeVar("Message", bound=ClientMessage)
Listed = TypeVar("Listed", market.Proposals, market.Receipts)
StepReply = TypeVar("StepReply", bound=Step)


class Deals:
    def __init__(
        self, exchange: Exchange, session: Session, handlers: Handlers, key: PrivateKey | None
    ) -> None:
        self._exchange = exchange
        self._session = session
        self._handlers = handlers
        self._key = key
        self._book: Book[Facts] = Book(MAX_ENDED)
        self._page = PAGE
        self._unknown: deque[DealChange] = deque(maxlen=MAX_OPEN)  # to be told when their terms are known
        self._lists = True  # until the hall turns out not to know LIST_PROPOSALS
        self._catching_up: asyncio.Task[object] | None = None
        self.listeners: Final[Mapping[type, Callable[[Any], None]]] = {
            incoming.Offer: self._hear_offer,
            incoming.Accepted: self._hear_accepted,
            incoming.Rejected: self._hear_rejected,
            incoming.Completed: self._hear_completed,
            incoming.Disputed: self._hear_disputed,
            incoming.Expired: self._hear_expired,
            market.Proposals: self._hear_list,
        }

    def attach(self, court: Court) -> None:
        """Connect the deals with the court that disputes are filed in."""
        self._court = court

    def proposal(self, facts: Facts) -> Proposal:
        return Proposal(facts, self)

    # -- steps, each of them signed ------------------------------------------------------------------

    async def propose(self, draft: client.Proposal, patience: float | None) -> Proposal:
        message = self._signed(draft, signing.proposal_text)
        reply = await self._exchange.ask(
            message,
            Offer,
            # As unmodified clients tell it (agentchat wire 18.1, point 4).
            lambda body: body.to == draft.to and self._session.is_own(body.from_),
            patience=patience,
        )
        return self.proposal(self._offered(reply))

    async def accept(
        self, proposal_id: str, stake: int | None, payment_code: str | None, patience: float | None
    ) -> Proposal:
        draft = drafts.accept(proposal_id, stake, payment_code)
        return await self._step(self._signed(draft, signing.accept_text), incoming.Accepted, patience)

    async def reject(self, proposal_id: str, reason: str | None, patience: float | None) -> Proposal:
        draft = drafts.reject(proposal_id, reason)
        return await self._step(self._signed(draft, signing.reject_text), incoming.Rejected, patience)

    async def complete(self, proposal_id: str, proof: str | None, patience: float | None) -> Proposal:
        draft = drafts.complete(proposal_id, proof)
        return await self._step(self._signed(draft, signing.complete_text), incoming.Completed, patience)

    async def dispute(self, proposal_id: str, reason: str, patience: float | None) -> Proposal:
        draft = drafts.dispute(proposal_id, reason)
        return await self._step(self._signed(draft, signing.dispute_text), incoming.Disputed, patience)

    async def file_dispute(
        self, proposal_id: str, reason: str, nonce: str | None, patience: float | None
    ) -> Dispute:
        return await self._court.file(proposal_id, reason, nonce, patience, reveal=True)

    async def register(self, draft: client.RegisterSkills, patience: float | None) -> int:
        message = self._signed(draft, signing.skills_text)
        reply = await self._exchange.ask(
            message,
            market.SkillsRegistered,
            lambda body: self._session.is_own(body.agent_id),
            patience=patience,
        )
        return reply.skills_count

    def _signed(self, draft: Message, text: Callable[[Message], str]) -> Message:
        return signed(draft, text, self._key)

    async def _step(
        self,
        message: client.Accept | client.Reject | client.Complete | client.Dispute,
        reply: type[StepReply],
        patience: float | None,
    ) -> Proposal:
        """The reply was heard, and the book written, before this gets it (see `Listener.heard`)."""
        said = await self._exchange.ask(
            message, reply, lambda body: body.proposal_id == message.proposal_id, patience=patience
        )
        facts = self._stepped(said)
        if not facts.is_known:
            await self._look_up()
        return self.proposal(facts)

    # -- how they stand ------------------------------------------------------------------------------

    async def listed(self, limit: int, patience: float | None, *, open_only: bool) -> list[Proposal]:
        if limit < 1:
            raise UsageError(f"a list has at least one deal, not {limit}")
        found: dict[str, Proposal] = {}
        before = None
        while len(found) < limit:
            asked = min(limit - len(found), MAX_LIMIT)
            reply = await self._ask_list(open_only=open_only, limit=asked, before=before, patience=patience)
            page = {entry.proposal_id: self.proposal(self._entered(entry, reply.ts)) for entry in reply.list}
            if not page.keys() - found.keys():
                break
            found |= page
            before = reply.list[-1].proposal_id
            if is_last(reply, asked):
                break
        return list(found.values())

    async def receipts(self, limit: int, patience: float | None) -> list[Receipt]:
        if limit < 1:
            raise UsageError(f"a list has at least one receipt, not {limit}")
        found: dict[str, Receipt] = {}
        before = None
        while len(found) < limit:
            asked = min(limit - len(found), MAX_LIMIT)
            message = client.ListReceipts(limit=asked, before=before)
            reply = await self._ask_page(message, market.Receipts, patience)
            page = {receipt.proposal_id: receipt for receipt in map(Receipt, map(bytes, reply.list))}
            if not page.keys() - found.keys():
                break
            found |= page
            before = next(reversed(page))
            if is_last(reply, asked):
                break
        return list(found.values())

    async def outcome(self, facts: Facts, patience: float | None) -> Status:
        try:
            async with asyncio.timeout(patience):
                while not facts.is_over:
                    await self._await_news(facts)
        except TimeoutError:
            raise ReplyTimeout(f"{facts.id} is still {facts.status} after {patience:g} s") from None
        return facts.status

    async def _await_news(self, facts: Facts) -> None:
        """Wait until the deal is over, or its deadline has passed without word from the hall."""
        loop = asyncio.get_running_loop()
        due = None if facts.due is None else max(0.0, facts.due - loop.time())
        if not await self._book.news_of(facts, due):
            facts.due = loop.time() + RECHECK
            await self._look_up()
            self._expire_unheard(facts)

    def _expire_unheard(self, facts: Facts) -> None:
        """The reference expires offers, but not accepted deals, and sends no EXPIRED (agentchat wire 11.1)."""
        if self._lists or facts.is_over:
            return
        if facts.status == "pending":
            self._advance(facts, "expired", None)
        else:
            facts.due = None

    # -- coming back ---------------------------------------------------------------------------------

    def welcomed(self) -> None:
        """The agent is in a hall, for the first time or again: what happened there meanwhile?"""
        self._book.begin()
        self._lists = True
        self.catch_up_soon()

    def catch_up_soon(self) -> None:
        """Ask the hall for missed changes, if a handler or an unfinished deal needs them."""
        is_curious = any(self._handlers.listens_for(event) for event in ("on_proposal", "on_deal"))
        is_busy = self._catching_up is not None and not self._catching_up.done()
        if self._key is not None and not is_busy and (is_curious or self._book.unfinished()):
            self._catching_up = self._handlers.start(self._catch_up())

    def end(self, error: BaseException | None) -> None:
        self._book.end(error)

    async def _catch_up(self) -> None:
        try:
            await patiently(self._compare_books)
        except MoothallError as error:
            log.info("cannot see what became of the deals: %s", error)

    async def _compare_books(self) -> None:
        unlisted = self._book.unfinished()
        listed: set[str] = set()
        before = None
        while len(listed) < MAX_OPEN:
            asked = self._page
            reply = await self._ask_list(
                open_only=True, limit=asked, before=before, patience=CATCH_UP_TIMEOUT
            )
            page = {entry.proposal_id for entry in reply.list}
            if page <= listed:
                break
            listed |= page
            before = reply.list[-1].proposal_id
            if is_last(reply, asked):
                break
        unlisted -= listed
        for limit in (self._page, 10 * self._page):
            if unlisted & self._book.unfinished():  # they have ended: how?
                await self._ask_list(open_only=False, limit=limit, patience=CATCH_UP_TIMEOUT)

    async def _look_up(self) -> None:
        """The same, but failures are not raised."""
        try:
            await self._ask_list(open_only=False, limit=self._page)
        except MoothallError as error:
            log.debug("the hall does not list deals: %s", error)

    async def _ask_list(
        self, *, open_only: bool, limit: int, before: str | None = None, patience: float | None = None
    ) -> market.Proposals:
        """What it says is in the book when this returns (see `_hear_list`)."""
        message = client.ListProposals(open_only=open_only, limit=limit, before=before)
        if not self._lists:
            raise NotOffered("this server does not list deals")
        try:
            reply = await self._ask_page(message, market.Proposals, patience)
        except InvalidMessage:
            self._lists = False
            raise
        except ConnectionLost:
            # Tasks may be long, and an answer larger than a connection takes ends it. Asking the same again
            # after the reconnect would end that one too, for ever: so others could keep an agent out.
            self._page = max(1, self._page // 10)
            raise
        self._page = min(PAGE, 2 * self._page)
        return reply

    async def _ask_page(
        self,
        message: client.ListProposals | client.ListReceipts,
        reply: type[Listed],
        patience: float | None,
    ) -> Listed:
        """All pages may be more questions than the hall answers at once."""
        ask = partial(self._exchange.ask, message, reply, patience=patience)
        return await (ask() if message.before is None else patiently(ask))

    # -- what is heard -------------------------------------------------------------------------------

    def _hear_offer(self, body: Offer) -> None:
        is_news = body.id not in self._book
        facts = self._offered(body)
        if is_news and not facts.is_mine:
            self._handlers.tell("on_proposal", self.proposal(facts), facts.size)

    def _hear_accepted(self, body: incoming.Accepted) -> None:
        facts = self._stepped(body)
        facts.acceptor_payment_code = body.payment_code
        facts.stake = int(body.proposer_stake or 0)
        facts.acceptor_stake = int(body.acceptor_stake or 0)
        self._advance(facts, "accepted", body.to, body.updated_at)

    def _hear_rejected(self, body: incoming.Rejected) -> None:
        facts = self._stepped(body)
        facts.reason = body.reason
        self._advance(facts, "rejected", body.to, body.updated_at)

    def _hear_completed(self, body: incoming.Completed) -> None:
        facts = self._settled(body)
        facts.proof = body.proof
        self._advance(facts, "completed", body.completed_by, body.updated_at)

    def _hear_disputed(self, body: incoming.Disputed) -> None:
        facts = self._settled(body)
        facts.reason = body.reason
        self._advance(facts, "disputed", body.disputed_by, body.updated_at)

    def _hear_expired(self, body: incoming.Expired) -> None:
        self._advance(self._stepped(body), "expired", None, body.updated_at)

    def _hear_list(self, body: market.Proposals) -> None:
        for entry in body.list:
            is_news = entry.proposal_id not in self._book
            facts = self._entered(entry, body.ts)
            if is_news and not facts.is_mine and facts.status == "pending":
                self._handlers.tell("on_proposal", self.proposal(facts), facts.size)

    # -- what the court says -------------------------------------------------------------------------

    def froze(self, proposal_id: str, dispute_id: str | None) -> None:
        """A case holds the deal, or does so no longer."""
        if (facts := self._book.get(proposal_id)) is not None:
            facts.frozen_by = dispute_id

    def judged(self, proposal_id: str, changes: dict[str, dict[str, Any]]) -> None:
        """A verdict ends a deal in our hall, and leaves it as it was in the reference (agentchat wire 13.7)."""
        if (facts := self._book.get(proposal_id)) is not None:
            of_the_deal = (facts.proposer, facts.recipient, "_escrow")  # the arbiters' are no part of it
            facts.rating_changes = {name: changes[name] for name in of_the_deal if name in changes}
            facts.frozen_by = None
            self._handlers.start(self._look_up())

    # -- the book ------------------------------------------------------------------------------------

    def _offered(self, body: Offer) -> Facts:
        facts = self._opened(body.id, body.from_, body.to)
        if not facts.is_known:
            facts.is_known = True
            facts.task = body.task
            facts.amount = body.amount
            facts.currency = body.currency
            facts.payment_code = body.payment_code
            facts.terms = packed(body.terms)
            facts.capability = body.capability
            facts.created_at = facts.updated_at = body.created_at
            facts.stake = int(body.elo_stake or 0)
            self._set_deadline(facts, body.expires, body.ts)
            self._book.keep(facts)  # as large as it is now
        return facts

    def _stepped(self, body: Step) -> Facts:
        return self._opened(body.proposal_id, body.from_, body.to)

    def _settled(self, body: Settled) -> Facts:
        facts = self._stepped(body)
        facts.rating_changes = body.rating_changes or {}
        return facts

    def _entered(self, entry: market.DealEntry, ts: int) -> Facts:
        is_news = entry.proposal_id not in self._book
        facts = self._opened(entry.proposal_id, entry.from_, entry.to)
        facts.is_known = True
        facts.task = entry.task
        facts.amount = entry.amount
        facts.currency = entry.currency
        facts.payment_code = entry.payment_code
        facts.terms = packed(entry.terms)
        facts.capability = entry.capability
        facts.created_at = entry.created_at
        facts.stake = entry.proposer_stake
        facts.acceptor_stake = entry.acceptor_stake
        facts.acceptor_payment_code = entry.response_payment_code
        facts.reason = entry.reject_reason or entry.dispute_reason
        facts.proof = entry.proof
        facts.frozen_by = entry.frozen_by
        self._set_deadline(facts, entry.expires, ts)
        if is_news:  # it was like this before the agent asked: nothing has changed
            facts.status, facts.ended_by, facts.updated_at = entry.status, _ended_by(entry), entry.updated_at
        else:
            self._advance(facts, entry.status, _actor(entry), entry.updated_at)
        self._book.keep(facts)
        return facts

    def _opened(self, proposal_id: str, proposer: str, recipient: str) -> Facts:
        facts = self._book.get(proposal_id)
        if facts is None:
            is_mine = self._session.is_own(proposer)
            facts = Facts(proposal_id, proposer, recipient, is_mine)
            self._book.keep(facts)
        return facts

    def _set_deadline(self, facts: Facts, expires: Number | None, ts: int) -> None:
        """By one's own clock: that of the hall may show another time."""
        facts.expires = expires
        if expires is not None and facts.due is None:
            facts.due = asyncio.get_running_loop().time() + max(0, expires - ts) / 1000 + GRACE

    def _advance(self, facts: Facts, status: Status, by: str | None, at: Number | None = None) -> None:
        if PROGRESS[status] <= PROGRESS[facts.status]:
            return
        facts.status = status
        facts.updated_at = at if at is not None else facts.updated_at
        if facts.is_over:
            facts.ended_by = by
            self._book.wake(facts)
        self._book.keep(facts)
        if self._handlers.listens_for("on_deal"):
            change = DealChange(self.proposal(facts), status, by)
            if facts.is_known:
                self._handlers.tell("on_deal", change, facts.size)
            else:
                self._tell_when_known(change)

    def _tell_when_known(self, change: DealChange) -> None:
        """One question for all that are not known: others can end a thousand deals at once."""
        self._unknown.append(change)
        if len(self._unknown) == 1:
            self._handlers.start(self._make_known())

    async def _make_known(self) -> None:
        await self._look_up()
        unknown, self._unknown = list(self._unknown), deque(maxlen=MAX_OPEN)
        for change in unknown:
            self._handlers.tell("on_deal", change, change.proposal.facts().size)


# -- what goes into a message --------------------------------------------------------------------------


def checked_amount(amount: Any) -> Number | str | None:
    if amount is None or isinstance(amount, str):
        return amount
    if isinstance(amount, int | float) and _is_finite(amount):
        return amount
    raise UsageError(f"an amount is a number or a text, not {amount!r}")


def checked_deadline(expires_in: Number | None) -> Number | msgspec.UnsetType:
    """Left out when there is none: null is refused (agentchat wire 5.4)."""
    if expires_in is None:
        return msgspec.UNSET
    if not _is_finite(expires_in) or expires_in <= 0:
        raise UsageError(f"expires_in is a number of seconds from now, not {expires_in}")
    return expires_in


def skill_list(skills: str | Mapping[str, Any] | Iterable[Mapping[str, Any] | str]) -> list[dict[str, Any]]:
    """A text stands for a skill that has nothing but its name."""
    if isinstance(skills, str | Mapping):
        skills = (skills,)
    listed = [{"capability": skill} if isinstance(skill, str) else dict(skill) for skill in skills]
    found: list[dict[str, Any]] = as_json(listed, "a skill")
    if not found:
        raise UsageError("there are no skills to register")
    for skill in found:
        if not isinstance(skill.get("capability"), str) or not skill["capability"]:
            raise UsageError("every skill needs a `capability`, its name")
    return found


def is_last(reply: market.Proposals | market.Receipts, asked: int) -> bool:
    """Nothing comes after this page. (From a hall that knows no pages, the next would bring nothing new.)"""
    return len(reply.list) < asked and not reply.truncated


def _is_finite(number: Number) -> bool:
    return abs(number) < client.MAX_DOUBLE


def _ended_by(entry: market.DealEntry) -> str | None:
    return entry.to if entry.status == "rejected" else entry.completed_by or entry.disputed_by


def _actor(entry: market.DealEntry) -> str | None:
    return entry.to if entry.status == "accepted" else _ended_by(entry)
