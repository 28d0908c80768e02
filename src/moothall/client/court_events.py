"""What the court says: written into the dockets, and told to the handlers that answer it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from moothall.client import incoming
from moothall.client.dispute import Advocate, Assignment, Case, Dispute, checked_verdict
from moothall.client.docket import PROGRESS, ArbiterResult, Docket, Dockets, Role, Ruling, Vote
from moothall.client.evidence import Evidence
from moothall.client.handlers import Handlers
from moothall.client.logs import log
from moothall.client.ratings import moment, rating_changes, stakes_went
from moothall.client.session import Session
from moothall.errors import MoothallError
from moothall.wire.agentchat import court
from moothall.wire.agentchat.client import Number
from moothall.wire.agentchat.jstext import utf16_length

if TYPE_CHECKING:
    from moothall.court.casefile import Case as CaseFile

READ_TIMEOUT: Final = 60.0  # seconds; entering many channels again comes first
ANSWER_TIMEOUT: Final = 60.0  # seconds for what a handler returned; a hall that restarts is back by then


class DealBook(Protocol):
    """What the court tells the book of deals."""

    def froze(self, proposal_id: str, dispute_id: str | None) -> None: ...

    def judged(self, proposal_id: str, changes: dict[str, dict[str, Any]]) -> None: ...


class Bench(Advocate, Protocol):
    """The agent's own steps in court, and its view of a dispute."""

    def dispute(self, docket: Docket) -> Dispute: ...

    async def read(self, case_id: str, patience: float | None) -> "CaseFile": ...


class CourtNews:
    def __init__(
        self, bench: Bench, dockets: Dockets, session: Session, handlers: Handlers, deals: DealBook
    ) -> None:
        self._bench = bench
        self._dockets = dockets
        self._session = session
        self._handlers = handlers
        self._deals = deals
        self.listeners: Final[Mapping[type, Callable[[Any], None]]] = {
            incoming.Filed: self._hear_filed,
            incoming.Revealed: self._hear_revealed,
            incoming.FellBack: self._hear_fallback,
            incoming.PanelFormed: self._hear_panel,
            incoming.Assigned: self._hear_assigned,
            incoming.CaseReady: self._hear_ready,
            incoming.CourtSettled: self._hear_settled,
            court.EvidenceReceived: self._hear_evidence,
            court.VerdictNotice: self._hear_verdict,
            court.Cases: self._hear_list,
        }

    # -- what is heard -------------------------------------------------------------------------------

    def _hear_filed(self, body: incoming.Filed) -> None:
        docket = self._dockets.opened(body.dispute_id, body.proposal_id)
        docket.role, docket.disputant = "disputant", self._session.address
        docket.server_nonce, docket.deadline = body.server_nonce, body.reveal_deadline
        docket.pool_hash = body.pool_hash
        docket.filed_at = body.ts
        self._deals.froze(body.proposal_id, body.dispute_id)

    def _hear_revealed(self, body: incoming.Revealed) -> None:
        if (docket := self._dockets.get(body.dispute_id)) is not None:
            docket.seed = body.seed or docket.seed

    def _hear_panel(self, body: incoming.PanelFormed) -> None:
        docket = self._dockets.opened(body.dispute_id, body.proposal_id)
        docket.role = "disputant" if self._session.is_own(body.disputant) else "respondent"
        docket.disputant, docket.respondent = body.disputant, body.respondent
        docket.panel, docket.pool, docket.skipped = (
            tuple(body.arbiters),
            tuple(body.pool),
            tuple(body.skipped),
        )
        _compare_pool(docket)
        docket.seed, docket.server_nonce = body.seed, body.server_nonce
        self._deals.froze(body.proposal_id, body.dispute_id)
        self._dockets.advance(docket, "arbiter_response")
        self._announce(docket)

    def _hear_fallback(self, body: incoming.FellBack) -> None:
        docket = self._dockets.get(body.dispute_id)
        if docket is None and body.proposal_id is not None:
            docket = self._dockets.opened(body.dispute_id, body.proposal_id)
        if docket is not None:
            self._dockets.close(docket, Ruling(verdict=None, fallback=body.reason))
            self._deals.froze(docket.proposal_id, None)

    def _hear_assigned(self, body: incoming.Assigned) -> None:
        docket = self._dockets.opened(body.dispute_id, body.proposal_id)
        docket.role, docket.slot = "arbiter", docket.slot or "pending"
        docket.disputant, docket.respondent, docket.reason = body.disputant, body.respondent, body.reason
        self._dockets.advance(docket, "arbiter_response", body.response_deadline)
        self._assign(docket, body.response_deadline, is_replacement=body.is_replacement)

    def _hear_evidence(self, body: court.EvidenceReceived) -> None:
        if (docket := self._dockets.get(body.dispute_id)) is not None:
            docket.submitted.add(body.from_)
            self._dockets.advance(docket, "evidence")

    def _hear_ready(self, body: incoming.CaseReady) -> None:
        proposal = body.proposal or {}
        docket = self._dockets.opened(body.dispute_id, str(proposal.get("id", "")))
        docket.role, docket.disputant, docket.respondent = "arbiter", body.disputant, body.respondent
        self._dockets.advance(docket, "deliberation", body.vote_deadline)
        self._show_case(
            docket,
            proposal,
            _evidence(body.disputant_evidence),
            _evidence(body.respondent_evidence),
            body.vote_deadline,
        )

    def _hear_verdict(self, body: court.VerdictNotice) -> None:
        docket = self._dockets.opened(body.dispute_id, body.proposal_id)
        docket.verdict = body.verdict
        docket.votes = tuple(Vote(vote.arbiter, vote.verdict, vote.reasoning) for vote in body.votes)
        docket.arbiters = tuple(
            ArbiterResult(result.arbiter, result.verdict, result.reasoning, result.reward)
            for result in body.arbiter_results
        )

    def _hear_settled(self, body: incoming.CourtSettled) -> None:
        """Follows the verdict, and says what it did to the ratings."""
        docket = self._dockets.opened(body.dispute_id, body.proposal_id)
        changes = body.rating_changes or {}
        ruling = Ruling(
            body.verdict, docket.votes, docket.arbiters, rating_changes(changes), stakes_went(changes)
        )
        self._dockets.close(docket, ruling)
        self._deals.judged(body.proposal_id, changes)

    def _hear_list(self, body: court.Cases) -> None:
        for entry in body.list:
            docket = self.entered(entry)
            if docket.role == "arbiter" and docket.slot == "pending" and docket.deadline is not None:
                self._assign(docket, docket.deadline, is_replacement=False)
            elif not docket.is_being_read and self._is_missed(docket):
                docket.is_being_read = True
                self._handlers.start(self._tell_missed(docket))

    def _is_missed(self, docket: Docket) -> bool:
        """True when a handler has missed an event of this case. Telling it takes the case file."""
        if docket.role == "arbiter":
            event, is_due = "on_case", docket.phase == "deliberation" and docket.slot == "accepted"
        else:
            event = "on_dispute"
            has_panel = PROGRESS["arbiter_response"] <= docket.progress and not docket.is_over
            is_due = docket.role == "respondent" and has_panel
        return is_due and event not in docket.told and self._handlers.listens_for(event)

    async def _tell_missed(self, docket: Docket) -> None:
        try:
            self.learn(docket, await self._bench.read(docket.id, READ_TIMEOUT))
        except MoothallError as error:
            log.info("cannot see the file of %s: %s", docket.id, error)
        finally:
            docket.is_being_read = False

    def learn(self, docket: Docket, case: "CaseFile") -> None:
        """Take over what the agent missed while it was away."""
        from moothall.client import case_import

        case_import.enter(case, docket)
        if case.pool is not None:
            _compare_pool(docket)
        if (ruling := case_import.ruling(case)) is not None:
            self._dockets.close(docket, ruling)
        elif docket.role == "arbiter":
            self._show_case(
                docket,
                case_import.proposal(case),
                case_import.evidence(case.evidence.disputant),
                case_import.evidence(case.evidence.respondent),
                case.deadline or 0,
            )
        else:
            self._announce(docket)

    # -- whom to ask ---------------------------------------------------------------------------------

    def _announce(self, docket: Docket) -> None:
        is_heard = self._handlers.listens_for("on_dispute")
        if is_heard and docket.role == "respondent" and "on_dispute" not in docket.told:
            docket.told.add("on_dispute")
            self._handlers.tell("on_dispute", self._bench.dispute(docket))

    def _assign(self, docket: Docket, deadline: Number, *, is_replacement: bool) -> None:
        assignment = Assignment(
            docket.id,
            docket.proposal_id,
            docket.disputant,
            docket.respondent,
            docket.reason,
            moment(deadline),
            is_replacement,
            self._bench,
        )
        if not self._handlers.listens_for("on_arbiter_assigned"):
            log.warning("the agent was drawn as an arbiter of %s, and has no on_arbiter_assigned", docket.id)
        self._ask_once(docket, "on_arbiter_assigned", assignment, partial(self._answer, assignment))

    def _show_case(
        self,
        docket: Docket,
        proposal: Mapping[str, Any],
        disputants: Evidence | None,
        respondents: Evidence | None,
        deadline: Number,
    ) -> None:
        case = Case(
            docket.id,
            proposal,
            docket.disputant,
            docket.respondent,
            disputants,
            respondents,
            moment(deadline),
            self._bench,
        )
        self._ask_once(docket, "on_case", case, partial(self._cast, case))

    def _ask_once(
        self, docket: Docket, event: str, what: object, answer: Callable[[Any], Awaitable[None]]
    ) -> None:
        """Call the handler once: the hall repeats the event after a reconnect. A failed handler is called again."""
        if event in docket.told:
            return

        def forget_failure(asked: "asyncio.Task[object]") -> None:
            if asked.cancelled() or asked.exception() is not None:
                docket.told.discard(event)

        for asked in self._handlers.ask(event, what, answer):
            docket.told.add(event)
            asked.add_done_callback(forget_failure)

    async def _answer(self, assignment: Assignment, answer: object) -> None:
        if answer is True:
            await self._bench.accept(assignment.dispute_id, ANSWER_TIMEOUT)
        elif answer is False or isinstance(answer, str):
            reason = _shortened(answer, assignment.dispute_id) if answer else None
            await self._bench.decline(assignment.dispute_id, reason, ANSWER_TIMEOUT)
        elif answer is not None:
            raise TypeError(
                f"on_arbiter_assigned returns True, False, a reason to decline, or None; not {answer!r}"
            )

    async def _cast(self, case: Case, answer: object) -> None:
        if answer is None:
            return
        pair = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, "")
        verdict, reasoning = checked_verdict(pair[0]), pair[1] or ""
        if not isinstance(reasoning, str):
            raise TypeError(f"on_case returns a vote, or a vote and a text; not {answer!r}")
        await self._bench.vote(
            case.dispute_id, verdict, _shortened(reasoning, case.dispute_id), ANSWER_TIMEOUT
        )

    # -- the dockets ---------------------------------------------------------------------------------

    def entered(self, entry: court.CaseEntry) -> Docket:
        docket = self._dockets.opened(entry.dispute_id, entry.proposal_id)
        docket.role = _role(entry.role)
        docket.disputant, docket.respondent = entry.disputant, entry.respondent
        docket.reason, docket.filed_at = entry.reason, entry.filed_at
        docket.slot, docket.verdict = entry.slot, entry.verdict
        self._dockets.advance(docket, entry.phase, entry.deadline)
        return docket


def _shortened(text: str, dispute_id: str) -> str:
    """What a handler returned, cut to the hall's limit: a long text must not cost the arbiter its vote."""
    from moothall.court.bounds import MAX_REASONING

    if utf16_length(text) <= MAX_REASONING:
        return text
    log.warning("what was said about %s has more than %d characters, and was cut", dispute_id, MAX_REASONING)
    units = text.encode("utf-16-le", "surrogatepass")[: 2 * (MAX_REASONING - 1)]
    return units.decode("utf-16-le", "ignore") + "…"


def _compare_pool(docket: Docket) -> None:
    """With the hash that the hall gave before it knew the seed. Only the disputant was given it then."""
    from moothall.court.panel import pool_hash_of

    if docket.pool_hash is not None and docket.pool_hash != pool_hash_of(docket.pool):
        log.warning("the panel of %s was drawn from another pool than the hall had promised", docket.id)


def _evidence(shown: court.CaseEvidence | None) -> Evidence | None:
    return None if shown is None else Evidence(tuple(shown.items), shown.statement, shown.sig)


def _role(word: str) -> Role:
    return "disputant" if word == "disputant" else "respondent" if word == "respondent" else "arbiter"
