"""What parties and arbiters are told about a case: records as wire messages (agentchat wire 6.5)."""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.json import Encoder

from moothall.court.outcome import Notice
from moothall.court.records import Dispute, Slot, Submission
from moothall.court.verdict import reward, votes_cast
from moothall.identity.certificates import timestamp_text
from moothall.market.notices import what_fits
from moothall.market.records import Proposal
from moothall.wire.agentchat.court import (
    ArbiterAssigned,
    ArbiterResult,
    CaseEntry,
    CaseEvidence,
    CaseProposal,
    CaseReady,
    Cases,
    DisputeFallback,
    DisputeIntentAck,
    DisputeRevealed,
    EvidenceReceived,
    PanelFormed,
    SettlementComplete,
    VerdictNotice,
    Vote,
)
from moothall.wire.agentchat.market import RatingChanges
from moothall.wire.agentchat.names import SERVER
from moothall.wire.agentchat.server import Chat

_encode: Final = Encoder().encode


# -- filing --------------------------------------------------------------------------------------------


def acknowledged(case: Dispute, now: int) -> DisputeIntentAck:
    return DisputeIntentAck(
        ts=now,
        dispute_id=case.id,
        proposal_id=case.proposal_id,
        server_nonce=case.server_nonce,
        reveal_deadline=case.deadline or now,
        pool_hash=case.pool_hash or "",
    )


def filed(case: Dispute, now: int) -> Notice:
    """(seed 000, file intent 6)"""
    content = f"{case.disputant_address} has filed the dispute {case.id} about {case.proposal_id}"
    return Notice((case.respondent,), _service_line(case.respondent_address, content, now))


def revealed(case: Dispute, now: int) -> DisputeRevealed:
    return DisputeRevealed(ts=now, dispute_id=case.id, panel_size=len(case.slots), seed=case.seed or "")


def fallen_back(case: Dispute, now: int) -> DisputeFallback:
    return DisputeFallback(
        ts=now, dispute_id=case.id, proposal_id=case.proposal_id, reason=case.fallback_reason or ""
    )


# -- the panel -----------------------------------------------------------------------------------------


def panel_formed(case: Dispute, now: int) -> Notice:
    message = PanelFormed(
        ts=now,
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
    return Notice(case.parties, message)


def assigned(case: Dispute, slots: Sequence[Slot], now: int) -> Notice:
    """Slots that are alike: the first panel, or one replacement."""
    message = ArbiterAssigned(
        ts=now,
        dispute_id=case.id,
        proposal_id=case.proposal_id,
        disputant=case.disputant_address,
        respondent=case.respondent_address,
        reason=case.reason,
        response_deadline=case.deadline or now,
        is_replacement=case.is_replacement(case.slots.index(slots[0])),
    )
    return Notice(tuple(slot.arbiter for slot in slots), message)


# -- evidence ------------------------------------------------------------------------------------------


def evidence_open(case: Dispute, now: int) -> tuple[Notice, Notice]:
    """(seed 000, arbiter accept 4d)"""
    until = timestamp_text(case.deadline or now)
    content = f"The panel of {case.id} is complete. Send your EVIDENCE until {until}"
    return (
        Notice((case.disputant,), _service_line(case.disputant_address, content, now)),
        Notice((case.respondent,), _service_line(case.respondent_address, content, now)),
    )


def evidence_received(case: Dispute, party: bytes, count: int, now: int) -> EvidenceReceived:
    address = case.disputant_address if party == case.disputant else case.respondent_address
    return EvidenceReceived(ts=now, dispute_id=case.id, from_=address, items_count=count)


def case_ready(case: Dispute, deal: Proposal, now: int) -> Notice:
    """For the arbiters that have not voted yet: at first, all."""
    message = CaseReady(
        ts=now,
        dispute_id=case.id,
        proposal=CaseProposal(
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
        vote_deadline=case.deadline or now,
    )
    return Notice(tuple(slot.arbiter for slot in case.slots if slot.status == "accepted"), message)


def _evidence(submission: Submission | None) -> CaseEvidence | None:
    """Each item with its hash, in place of one that the party may have sent (agentchat wire 13.5)."""
    if submission is None:
        return None
    items = [
        {**item, "hash": digest} for item, digest in zip(submission.items, submission.hashes, strict=True)
    ]
    return CaseEvidence(items=items, statement=submission.statement, sig=submission.sig)


# -- the verdict ---------------------------------------------------------------------------------------


def judged(case: Dispute, changes: RatingChanges, now: int) -> tuple[Notice, Notice]:
    """To everybody who ever had a part, those who declined too (agentchat wire 6.5)."""
    assert case.verdict is not None  # noqa: S101  # that is why it is told
    verdict = VerdictNotice(
        ts=now,
        dispute_id=case.id,
        proposal_id=case.proposal_id,
        verdict=case.verdict,
        votes=[
            Vote(arbiter=slot.address, verdict=slot.vote.verdict, reasoning=slot.vote.reasoning)
            for slot in votes_cast(case.slots)
            if slot.vote is not None
        ],
        arbiter_results=[
            ArbiterResult(
                arbiter=slot.address,
                verdict=None if slot.vote is None else slot.vote.verdict,
                reasoning=None if slot.vote is None else slot.vote.reasoning,
                reward=earned,
            )
            for slot in case.slots
            if (earned := reward(slot, case.verdict)) is not None
        ],
        resolved_at=now,
    )
    settlement = SettlementComplete(
        ts=now,
        dispute_id=case.id,
        proposal_id=case.proposal_id,
        verdict=case.verdict,
        rating_changes=changes,
    )
    everybody = (*case.parties, *(slot.arbiter for slot in case.slots))
    return Notice(everybody, verdict), Notice(everybody, settlement)


# -- answers and reminders -----------------------------------------------------------------------------


def case_list(cases: Iterable[Dispute], viewer: bytes, now: int, *, truncated: bool = False) -> Cases:
    entries, cut = what_fits((_entry(case, viewer) for case in cases), lambda entry: len(_encode(entry)))
    return Cases(ts=now, list=entries, truncated=truncated or cut)


def _entry(case: Dispute, viewer: bytes) -> CaseEntry:
    number = case.slot_of(viewer)
    return CaseEntry(
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


def reminder(case: Dispute, deal: Proposal, key: bytes, now: int) -> Notice | None:
    """What an arbiter that comes back has yet to do, as it was told the first time."""
    number = case.slot_of(key)
    if number is None:
        return None
    slot = case.slots[number]
    if case.phase == "arbiter_response" and slot.status == "pending":
        return assigned(case, (slot,), now)
    if case.phase == "deliberation" and slot.status == "accepted":
        return Notice((key,), case_ready(case, deal, now).message)
    return None


def size_of(notice: Notice) -> int:
    return len(_encode(notice.message))


def _service_line(address: str, content: str, now: int) -> Chat:
    return Chat(ts=now, from_=SERVER, from_name="Server", to=address, content=content)
