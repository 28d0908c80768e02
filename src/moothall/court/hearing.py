"""From the panel to the evidence: who sits, and what the parties show (seed 000; agentchat wire 13.4, 13.5).

Each decision takes the records it needs and a signed command whose sender has this part in the case (`admission`).
"""

from typing import Final

from msgspec import structs

from moothall.court import news
from moothall.court.admission import require_evidence_time, require_pending_slot
from moothall.court.commands import AcceptSeat, DeclineSeat, SubmitEvidence
from moothall.court.evidence import item_hash
from moothall.court.filing import TOO_FEW, fall_back
from moothall.court.news import CourtOutcome, EvidenceReceived
from moothall.court.panel import PANEL_SIZE
from moothall.court.phases import next_phase
from moothall.court.records import Dispute, Submission
from moothall.court.rules import CourtRules
from moothall.court.seating import Unfit, seat
from moothall.market.audit import audit_row
from moothall.market.outcome import Notice, Outcome
from moothall.market.records import Proposal
from moothall.market.signed import Signed

NO_ANSWER: Final = "Arbiters did not answer in time"


# -- arbiters ------------------------------------------------------------------------------------------


def accept(order: Signed[AcceptSeat], case: Dispute, *, now: int, rules: CourtRules) -> CourtOutcome:
    number = require_pending_slot(order.key, case, now)
    case = case.with_slot(
        number,
        structs.replace(case.slots[number], status="accepted", accepted_at=now, accept_sig=order.sig),
    )
    told: tuple[Notice, ...] = ()
    if sum(slot.status == "accepted" for slot in case.slots) == PANEL_SIZE:
        case = structs.replace(
            case,
            phase=next_phase(case.phase, "panel_seated"),
            deadline=now + rules.evidence_period,
            evidence_from=now,
        )
        told = news.evidence_open(case, now)
    row = audit_row("arbiter_accept", case.proposal_id, now, order=order)
    return Outcome(changes=(case, row), notices=told)


def decline(
    order: Signed[DeclineSeat],
    case: Dispute,
    deal: Proposal,
    unfit: Unfit,
    *,
    now: int,
) -> CourtOutcome:
    """The replacement is the next of the same shuffled order that is eligible now."""
    number = require_pending_slot(order.key, case, now)
    case = case.with_slot(
        number,
        structs.replace(
            case.slots[number],
            status="declined",
            declined_at=now,
            decline_reason=order.command.reason,
            decline_sig=order.sig or None,
        ),
    )
    case, replacement = seat(case, 1, unfit, now)
    if not replacement:
        return fall_back(case, deal, "too_few_arbiters", TOO_FEW, now=now, order=order)
    return Outcome(
        changes=(case, audit_row("arbiter_decline", deal.id, now, order=order)),
        notices=(news.assigned(case, replacement, now),),
    )


def end_response(case: Dispute, deal: Proposal, *, now: int) -> CourtOutcome:
    """The clock's decision. Three that accepted would have opened the evidence at once, so there are fewer
    (seed 000, arbiter response timeout). An arbiter that did not answer forfeits its slot, and pays nothing."""
    forfeited = tuple(
        structs.replace(slot, status="forfeited") if slot.status == "pending" else slot for slot in case.slots
    )
    return fall_back(structs.replace(case, slots=forfeited), deal, "too_few_arbiters", NO_ANSWER, now=now)


# -- evidence ------------------------------------------------------------------------------------------


def submit_evidence(
    order: Signed[SubmitEvidence],
    case: Dispute,
    deal: Proposal,
    *,
    now: int,
    rules: CourtRules,
) -> CourtOutcome:
    require_evidence_time(order.key, case, now)
    brought = order.command
    submission = Submission(
        items=tuple(brought.items),
        hashes=tuple(item_hash(item) for item in brought.items),
        statement=brought.statement,
        sig=order.sig,
        at=now,
    )
    if order.key == case.disputant:
        address, case = case.disputant_address, structs.replace(case, disputant_evidence=submission)
    else:
        address, case = case.respondent_address, structs.replace(case, respondent_evidence=submission)
    received = EvidenceReceived(case, now, address, len(brought.items))
    audience = [*case.parties, *(slot.arbiter for slot in case.slots if slot.status == "accepted")]
    told = [Notice(tuple(each for each in audience if each != order.key), received)]
    if rules.evidence_ends_early and case.disputant_evidence and case.respondent_evidence:
        case = _deliberating(case, now, rules)
        told.append(news.case_ready(case, deal, now))
    row = audit_row("evidence", deal.id, now, order=order)
    return Outcome(changes=(case, row), notices=tuple(told), answer=received)


def close_evidence(case: Dispute, deal: Proposal, *, now: int, rules: CourtRules) -> CourtOutcome:
    """The clock's decision (seed 000, evidence deadline)."""
    case = _deliberating(case, now, rules)
    return Outcome(
        changes=(case, audit_row("evidence_closed", deal.id, now)),
        notices=(news.case_ready(case, deal, now),),
    )


def _deliberating(case: Dispute, now: int, rules: CourtRules) -> Dispute:
    return structs.replace(
        case,
        phase=next_phase(case.phase, "evidence_closed"),
        deadline=now + rules.vote_period,
        deliberation_from=now,
    )
