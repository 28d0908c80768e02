"""The court on the agentchat wire: its messages as commands, and what the court has to say as its messages
(agentchat wire 5.5, 6.5, 8). No other module of the court reads or makes messages of this wire."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec import Raw
from msgspec.json import Encoder

from moothall.court import commands
from moothall.court.news import (
    ArbiterAssigned,
    CaseFiled,
    CaseReady,
    DealSettled,
    EvidenceOpen,
    EvidenceReceived,
    FellBack,
    IntentFiled,
    PanelFormed,
    Revealed,
    VerdictReached,
)
from moothall.court.records import Dispute, Submission
from moothall.court.verdict import reward, votes_cast
from moothall.identity.certificates import timestamp_text
from moothall.market.agentchat import rating_changes
from moothall.market.books import what_fits
from moothall.market.outcome import News
from moothall.wire.agentchat import client
from moothall.wire.agentchat import court as wire
from moothall.wire.agentchat.names import SERVER
from moothall.wire.agentchat.server import Chat, ServerMessage

_encode: Final = Encoder().encode


# -- messages as commands ------------------------------------------------------------------------------


def file_intent(message: client.DisputeIntent) -> commands.FileIntent:
    return commands.FileIntent(deal=message.proposal_id, reason=message.reason, commitment=message.commitment)


def reveal(message: client.DisputeReveal) -> commands.Reveal:
    return commands.Reveal(deal=message.proposal_id, nonce=message.nonce)


def accept(message: client.ArbiterAccept) -> commands.AcceptSeat:
    return commands.AcceptSeat(case=message.dispute_id)


def decline(message: client.ArbiterDecline) -> commands.DeclineSeat:
    return commands.DeclineSeat(case=message.dispute_id, reason=message.reason)


def submit_evidence(message: client.Evidence) -> commands.SubmitEvidence:
    return commands.SubmitEvidence(case=message.dispute_id, items=message.items, statement=message.statement)


def vote(message: client.ArbiterVote) -> commands.CastVote:
    return commands.CastVote(case=message.dispute_id, verdict=message.verdict, reasoning=message.reasoning)


# -- news as messages ----------------------------------------------------------------------------------


def message_of(news: News) -> ServerMessage:
    return _MESSAGES[type(news)](news)


def size_of(news: News) -> int:
    """The size of its message in bytes."""
    return len(_encode(message_of(news)))


def _intent_filed(news: IntentFiled) -> wire.DisputeIntentAck:
    case = news.case
    return wire.DisputeIntentAck(
        ts=news.at,
        dispute_id=case.id,
        proposal_id=case.proposal_id,
        server_nonce=case.server_nonce,
        reveal_deadline=case.deadline or news.at,
        pool_hash=case.pool_hash or "",
    )


def _case_filed(news: CaseFiled) -> Chat:
    case = news.case
    content = f"{case.disputant_address} has filed the dispute {case.id} about {case.proposal_id}"
    return _service_line(case.respondent_address, content, news.at)


def _revealed(news: Revealed) -> wire.DisputeRevealed:
    case = news.case
    return wire.DisputeRevealed(
        ts=news.at, dispute_id=case.id, panel_size=len(case.slots), seed=case.seed or ""
    )


def _fell_back(news: FellBack) -> wire.DisputeFallback:
    case = news.case
    return wire.DisputeFallback(
        ts=news.at, dispute_id=case.id, proposal_id=case.proposal_id, reason=case.fallback_reason or ""
    )


def _panel_formed(news: PanelFormed) -> wire.PanelFormed:
    case = news.case
    return wire.PanelFormed(
        ts=news.at,
        dispute_id=case.id,
        proposal_id=case.proposal_id,
        arbiters=[slot.address for slot in case.slots],
        disputant=case.disputant_address,
        respondent=case.respondent_address,
        evidence_deadline=None,
        vote_deadline=None,
        seed=case.seed or "",
        server_nonce=case.server_nonce,
        pool=list(case.pool),
        skipped=[skipped.address for skipped in case.skipped],
    )


def _arbiter_assigned(news: ArbiterAssigned) -> wire.ArbiterAssigned:
    case = news.case
    return wire.ArbiterAssigned(
        ts=news.at,
        dispute_id=case.id,
        proposal_id=case.proposal_id,
        disputant=case.disputant_address,
        respondent=case.respondent_address,
        reason=case.reason,
        response_deadline=case.deadline or news.at,
        is_replacement=news.is_replacement,
    )


def _evidence_open(news: EvidenceOpen) -> Chat:
    until = timestamp_text(news.case.deadline or news.at)
    content = f"The panel of {news.case.id} is complete. Send your EVIDENCE until {until}"
    return _service_line(news.address, content, news.at)


def _evidence_received(news: EvidenceReceived) -> wire.EvidenceReceived:
    return wire.EvidenceReceived(
        ts=news.at, dispute_id=news.case.id, from_=news.address, items_count=news.count
    )


def _case_ready(news: CaseReady) -> wire.CaseReady:
    case, deal = news.case, news.deal
    return wire.CaseReady(
        ts=news.at,
        dispute_id=case.id,
        proposal=wire.CaseProposal(
            id=deal.id,
            from_=deal.from_,
            to=deal.to,
            task=deal.task,
            amount=deal.amount,
            currency=deal.currency,
        ),
        disputant=case.disputant_address,
        disputant_evidence=_evidence(case.disputant_evidence),
        respondent=case.respondent_address,
        respondent_evidence=_evidence(case.respondent_evidence),
        vote_deadline=case.deadline or news.at,
    )


def _evidence(submission: Submission | None) -> wire.CaseEvidence | None:
    """Each item with its hash, in place of one that the party may have sent (agentchat wire 13.5)."""
    if submission is None:
        return None
    items = [
        {**item, "hash": digest} for item, digest in zip(submission.items, submission.hashes, strict=True)
    ]
    return wire.CaseEvidence(items=items, statement=submission.statement, sig=submission.sig)


def _verdict_reached(news: VerdictReached) -> wire.VerdictNotice:
    case = news.case
    assert case.verdict is not None  # noqa: S101  # that is the news
    return wire.VerdictNotice(
        ts=news.at,
        dispute_id=case.id,
        proposal_id=case.proposal_id,
        verdict=case.verdict,
        votes=[
            wire.Vote(arbiter=slot.address, verdict=slot.vote.verdict, reasoning=slot.vote.reasoning)
            for slot in votes_cast(case.slots)
            if slot.vote is not None
        ],
        arbiter_results=[
            wire.ArbiterResult(
                arbiter=slot.address,
                verdict=None if slot.vote is None else slot.vote.verdict,
                reasoning=None if slot.vote is None else slot.vote.reasoning,
                reward=earned,
            )
            for slot in case.slots
            if (earned := reward(slot, case.verdict)) is not None
        ],
        resolved_at=news.at,
    )


def _deal_settled(news: DealSettled) -> wire.SettlementComplete:
    case = news.case
    assert case.verdict is not None  # noqa: S101  # it settled the deal
    return wire.SettlementComplete(
        ts=news.at,
        dispute_id=case.id,
        proposal_id=case.proposal_id,
        verdict=case.verdict,
        rating_changes=rating_changes(news.movement) or {},
    )


_MESSAGES: Final[dict[type[News], Callable[[Any], ServerMessage]]] = {
    IntentFiled: _intent_filed,
    CaseFiled: _case_filed,
    Revealed: _revealed,
    FellBack: _fell_back,
    PanelFormed: _panel_formed,
    ArbiterAssigned: _arbiter_assigned,
    EvidenceOpen: _evidence_open,
    EvidenceReceived: _evidence_received,
    CaseReady: _case_ready,
    VerdictReached: _verdict_reached,
    DealSettled: _deal_settled,
}


def _service_line(address: str, content: str, now: int) -> Chat:
    return Chat(ts=now, from_=SERVER, from_name="Server", to=address, content=content)


# -- answers to questions ------------------------------------------------------------------------------


def case_list(cases: Iterable[Dispute], viewer: bytes, now: int, *, truncated: bool = False) -> wire.Cases:
    entries, cut = what_fits((_entry(case, viewer) for case in cases), lambda entry: len(_encode(entry)))
    return wire.Cases(ts=now, list=entries, truncated=truncated or cut)


def case_file(body: Raw, now: int) -> wire.CaseFile:
    return wire.CaseFile(ts=now, case=body)


def _entry(case: Dispute, viewer: bytes) -> wire.CaseEntry:
    number = case.slot_of(viewer)
    return wire.CaseEntry(
        dispute_id=case.id,
        proposal_id=case.proposal_id,
        phase=case.phase,
        disputant=case.disputant_address,
        respondent=case.respondent_address,
        reason=case.reason,
        role=case.part_of(viewer),
        slot=None if number is None else case.slots[number].status,
        deadline=case.deadline,
        filed_at=case.filed_at,
        verdict=case.verdict,
    )
