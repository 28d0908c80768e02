"""The court: disputes filed and answered, cases judged, and the signatures under every step.

The agent keeps a docket of each dispute it has a part in. Whatever the hall says about one is written there, so a
`Dispute` always shows the latest that is known. A court takes hours and agents come and go: after a reconnect the
dockets are compared with the hall's own (LIST_CASES), and a step whose answer was lost with the connection is taken
again, because the hall refuses what it has heard already. The reference lists no cases; there a dispute stays as it
was last heard of.
"""

import asyncio
import hashlib
import secrets
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from moothall.client import drafts, incoming
from moothall.client.court_events import CourtNews, DealBook
from moothall.client.dispute import Dispute, Items
from moothall.client.docket import PROGRESS, Docket, Dockets, Ruling
from moothall.client.evidence import evidence_items
from moothall.client.handlers import Handlers
from moothall.client.logs import log
from moothall.client.requests import Exchange, Request, patiently
from moothall.client.session import Session
from moothall.client.signed import UNSIGNED, signed
from moothall.errors import (
    ConnectionLost,
    DisputeAlreadyExists,
    DisputeCommitmentMismatch,
    DisputeDeadlinePassed,
    DisputeInvalidPhase,
    DisputeNotArbiter,
    InvalidMessage,
    MoothallError,
    NotConnected,
    NotOffered,
    ReplyTimeout,
    UnexpectedReply,
    UsageError,
)
from moothall.identity import PrivateKey
from moothall.wire.agentchat import client, court, server, signing
from moothall.wire.agentchat.client import MAX_NONCE

if TYPE_CHECKING:
    from moothall.court.casefile import Case as CaseFile

NONCE_BYTES: Final = 16  # 32 hex digits, as the reference's tools draw them (agentchat wire 13.2)
PAGE: Final = 100
MAX_LIMIT: Final = 1000  # what our hall lists
CATCH_UP_TIMEOUT: Final = 60.0  # seconds; entering many channels again comes first
CURIOUS: Final = ("on_dispute", "on_arbiter_assigned", "on_case")
DEALS: Final = ("prop_", "mesh:")  # how their ids begin: agentchat wire 3.4, and conversations of the mesh

# How the hall refuses a step that was taken already.
_PAST: Final = (
    DisputeAlreadyExists,
    DisputeCommitmentMismatch,
    DisputeDeadlinePassed,
    DisputeInvalidPhase,
    DisputeNotArbiter,
)


class Court:
    def __init__(
        self,
        exchange: Exchange,
        session: Session,
        handlers: Handlers,
        key: PrivateKey | None,
        deals: DealBook,
    ) -> None:
        self._exchange = exchange
        self._session = session
        self._handlers = handlers
        self._key = key
        self._dockets = Dockets()
        self._lists = True  # until the hall turns out not to know LIST_CASES
        self._coming_back = asyncio.Event()  # set when the next connection is there, or none will be
        self._catching_up: asyncio.Task[object] | None = None
        self._news = CourtNews(self, self._dockets, session, handlers, deals)
        self.listeners: Final = self._news.listeners

    def dispute(self, docket: Docket) -> Dispute:
        return Dispute(docket, self)

    # -- filing --------------------------------------------------------------------------------------

    async def file(
        self, proposal_id: str, reason: str, nonce: str | None, patience: float | None, *, reveal: bool
    ) -> Dispute:
        """Commit and reveal. With a nonce of the caller's, an intent that the hall knows already is no error."""
        if not reason:
            raise UsageError("a dispute needs a reason")
        if nonce is not None and len(nonce) > MAX_NONCE:  # the hall would take the intent, and not the reveal
            raise UsageError(f"the nonce of a dispute has at most {MAX_NONCE} characters")
        secret = nonce or secrets.token_hex(NONCE_BYTES)
        commitment = hashlib.sha256(secret.encode()).hexdigest()

        async def intend() -> None:
            await self._intend(proposal_id, reason, commitment, patience)

        async def is_filed() -> bool:
            try:
                case = await self.read(proposal_id, patience)
                return case.commitment == commitment and self._session.is_own(case.disputant.id)
            except InvalidMessage:
                return True  # this server shows no files; if it is another dispute, the nonce will not fit

        try:
            await self._twice(intend, is_filed, patience)
        except DisputeAlreadyExists:
            if nonce is None or not await is_filed():
                raise
        docket = await self._find(proposal_id)
        if docket is not None:
            docket.reason = docket.reason or reason  # the hall's, if it was filed with another one before
        if reveal and (docket is None or docket.phase == "reveal_pending"):
            return await self.reveal(proposal_id, secret, patience)
        return self.dispute(_told(docket, proposal_id, secret))

    async def reveal(self, proposal_id: str, nonce: str, patience: float | None) -> Dispute:
        """The panel is drawn, or the dispute falls back, before this returns."""

        async def show() -> None:
            await self._show(proposal_id, nonce, patience)

        async def is_shown() -> bool:
            await self._look_up()
            docket = await self._find(proposal_id)
            return docket is not None and docket.phase != "reveal_pending"

        await self._twice(show, is_shown, patience)
        return self.dispute(_told(await self._find(proposal_id), proposal_id, nonce))

    async def _intend(self, proposal_id: str, reason: str, commitment: str, patience: float | None) -> None:
        draft = client.DisputeIntent(
            proposal_id=proposal_id, reason=reason, commitment=commitment, sig=UNSIGNED
        )
        await self._exchange.ask(
            signed(draft, signing.dispute_intent_text, self._key),
            incoming.Filed,
            lambda body: body.proposal_id == proposal_id,
            patience=patience,
        )

    async def _show(self, proposal_id: str, nonce: str, patience: float | None) -> None:
        draft = client.DisputeReveal(proposal_id=proposal_id, nonce=nonce, sig=UNSIGNED)
        message = signed(draft, signing.dispute_reveal_text, self._key)
        # Nothing else of the kind is under way where it matters: there, requests go one at a time.
        await self._exchange.request(Request(message, _tells_of_panel), patience)

    async def _find(self, proposal_id: str) -> Docket | None:
        """Find the docket of a deal. The hall's answer is written into the dockets before the caller resumes."""
        docket = self._dockets.about(proposal_id)
        if docket is None:
            await self._look_up()
            docket = self._dockets.about(proposal_id)
        return docket

    # -- evidence ------------------------------------------------------------------------------------

    async def submit_when_open(
        self, docket: Docket, items: Items, statement: str, patience: float | None
    ) -> None:
        chosen = evidence_items(items)  # mistakes show at once, not when the last arbiter has accepted
        if docket.progress < PROGRESS["evidence"]:
            await self._look_up()
        try:
            async with asyncio.timeout(patience):
                while self._lists and docket.progress < PROGRESS["evidence"]:
                    await self._dockets.news_of(docket)
        except TimeoutError:
            raise _still_open(docket, patience) from None
        await self.submit(docket.id, chosen, statement, patience)

    async def submit(self, dispute_id: str, items: Items, statement: str, patience: float | None) -> None:
        draft = client.Evidence(
            dispute_id=dispute_id, items=evidence_items(items), statement=statement, sig=UNSIGNED
        )
        message = signed(draft, signing.evidence_text, self._key)

        async def show() -> None:
            await self._exchange.tell(
                message,
                court.EvidenceReceived,
                lambda body: body.dispute_id == dispute_id and self._session.is_own(body.from_),
                patience=patience,
            )

        async def is_shown() -> bool:
            from moothall.client import case_import

            return case_import.has_evidence_of(await self.read(dispute_id, patience), self._session.is_own)

        await self._twice(show, is_shown, patience)

    # -- judging -------------------------------------------------------------------------------------

    async def accept(self, dispute_id: str, patience: float | None) -> None:
        draft = drafts.accept_case(dispute_id)
        message = signed(draft, signing.arbiter_accept_text, self._key)
        await self._take_part(message, dispute_id, "accepted", patience)

    async def decline(self, dispute_id: str, reason: str | None, patience: float | None) -> None:
        draft = drafts.decline_case(dispute_id, reason)
        message = signed(draft, signing.arbiter_decline_text, self._key)
        await self._take_part(message, dispute_id, "declined", patience)

    async def vote(self, dispute_id: str, verdict: str, reasoning: str, patience: float | None) -> None:
        draft = drafts.vote(dispute_id, verdict, reasoning)
        message = signed(draft, signing.vote_text, self._key)
        await self._take_part(message, dispute_id, "voted", patience)

    async def _take_part(
        self,
        message: client.ArbiterAccept | client.ArbiterDecline | client.ArbiterVote,
        dispute_id: str,
        slot: str,
        patience: float | None,
    ) -> None:
        async def say() -> None:
            await self._exchange.tell(message, server.Ack, patience=patience)

        async def is_said() -> bool:
            await self._look_up()
            docket = self._dockets.get(dispute_id)
            return docket is not None and docket.slot == slot

        await self._twice(say, is_said, patience)
        if (docket := self._dockets.get(dispute_id)) is not None:
            docket.slot = slot

    async def _twice(
        self,
        step: Callable[[], Awaitable[None]],
        is_done: Callable[[], Awaitable[bool]],
        patience: float | None,
    ) -> None:
        """Repeat the step after a lost connection. If the hall had already taken it, it refuses the second one."""
        coming_back = self._coming_back
        try:
            await step()
        except ConnectionLost as lost:
            try:
                async with asyncio.timeout(self._exchange.patience if patience is None else patience):
                    await coming_back.wait()
                await step()
            except (TimeoutError, NotConnected):
                raise lost from None
            except _PAST as refused:
                if not await is_done():
                    raise refused from None

    # -- how they stand ------------------------------------------------------------------------------

    async def listed(self, limit: int, patience: float | None, *, open_only: bool) -> list[Dispute]:
        reply = await self._ask_list(open_only=open_only, limit=limit, patience=patience)
        return [self.dispute(self._news.entered(entry)) for entry in reply.list]

    async def case_file(self, case_id: str, patience: float | None) -> dict[str, Any]:
        is_deal = case_id.startswith(DEALS)
        message = client.GetCase(proposal_id=case_id) if is_deal else client.GetCase(dispute_id=case_id)
        return (await self._exchange.ask(message, incoming.CaseFile, patience=patience)).case

    async def read(self, case_id: str, patience: float | None) -> "CaseFile":
        # It reads files of cases with the hall's own rooms. Few agents need them, so they are not imported above.
        from moothall.client import case_import

        return case_import.read(await self.case_file(case_id, patience))

    async def outcome(self, docket: Docket, patience: float | None) -> Ruling:
        try:
            async with asyncio.timeout(patience):
                while docket.ruling is None:
                    if docket.is_over:  # it ended while the agent was not there to hear it
                        await self._read_ruling(docket)
                    else:
                        await self._dockets.news_of(docket)
        except TimeoutError:
            raise _still_open(docket, patience) from None
        return docket.ruling

    async def _read_ruling(self, docket: Docket) -> None:
        coming_back = self._coming_back
        try:
            self._news.learn(docket, await self.read(docket.id, None))
        except ConnectionLost:
            await coming_back.wait()

    # -- coming back ---------------------------------------------------------------------------------

    def welcomed(self) -> None:
        self._coming_back.set()
        self._coming_back = asyncio.Event()
        self._dockets.begin()
        self._lists = True
        self.catch_up_soon()

    def catch_up_soon(self) -> None:
        """Ask the hall for missed events, if a handler or an unfinished case needs them."""
        is_curious = any(self._handlers.listens_for(event) for event in CURIOUS)
        is_busy = self._catching_up is not None and not self._catching_up.done()
        if self._key is not None and not is_busy and (is_curious or self._dockets.unfinished()):
            self._catching_up = self._handlers.start(self._catch_up())

    def hinted(self) -> None:
        """@server said something to the agent alone: that is how parties learn that the evidence period has
        begun (agentchat wire 13.4)."""
        if self._lists and self._dockets.unfinished():
            self._handlers.start(self._catch_up())

    def end(self, error: BaseException | None) -> None:
        self._coming_back.set()
        self._dockets.end(error)

    async def _catch_up(self) -> None:
        try:
            await patiently(self._compare_dockets)
        except MoothallError as error:
            log.info("cannot see what became of the disputes: %s", error)

    async def _compare_dockets(self) -> None:
        reply = await self._ask_list(open_only=True, limit=PAGE, patience=CATCH_UP_TIMEOUT)
        if self._dockets.unfinished() - {entry.dispute_id for entry in reply.list}:  # they have ended: how?
            await self._ask_list(open_only=False, limit=PAGE, patience=CATCH_UP_TIMEOUT)

    async def _look_up(self) -> None:
        """The same, but failures are not raised."""
        try:
            await self._ask_list(open_only=False, limit=PAGE)
        except MoothallError as error:
            log.debug("the hall does not list disputes: %s", error)

    async def _ask_list(self, *, open_only: bool, limit: int, patience: float | None = None) -> court.Cases:
        """What it says is in the dockets when this returns (see `_hear_list`)."""
        if not 1 <= limit <= MAX_LIMIT:
            raise UsageError(f"a hall lists 1 to {MAX_LIMIT} disputes at once, not {limit}")
        if not self._lists:
            raise NotOffered("this server does not list disputes")
        message = client.ListCases(open_only=open_only, limit=limit)
        try:
            return await self._exchange.ask(message, court.Cases, patience=patience)
        except InvalidMessage:
            self._lists = False
            self._dockets.wake_all()  # callers that wait for what such a server never tells
            raise


def _told(docket: Docket | None, proposal_id: str, nonce: str) -> Docket:
    if docket is None:
        raise UnexpectedReply(f"the hall took the dispute about {proposal_id}, but does not know it")
    docket.nonce = nonce
    return docket


def _still_open(docket: Docket, patience: float | None) -> ReplyTimeout:
    return ReplyTimeout(f"{docket.id} is still in {docket.phase} after {patience:g} s")


def _tells_of_panel(body: server.ServerMessage) -> bool:
    return isinstance(body, incoming.Revealed | incoming.FellBack)
