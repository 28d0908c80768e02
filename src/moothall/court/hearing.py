"""From the panel to the evidence: who sits, and what the parties show (seed 000; agentchat wire 13.4, 13.5).

Each decision takes the records it needs and a command that was let in (see `admission`): its sender has this part
in the case, and its signature holds. What is left to check, in this order: the phase allows it, it is not too late.
"""

from typing import Final

from msgspec import structs

from moothall.court import notices
from moothall.court.evidence import item_hash
from moothall.court.filing import TOO_FEW, fall_back, require_in_time
from moothall.court.outcome import Notice, Outcome
from moothall.court.panel import PANEL_SIZE
from moothall.court.phases import Phase, next_phase
from moothall.court.records import Dispute, Slot, Submission
from moothall.court.rules import CourtRules
from moothall.court.seating import Unfit, seat
from moothall.errors import (
    DisputeDeadlinePassed,
    DisputeInvalidPhase,
    DisputeNotArbiter,
)
from moothall.identity import PublicKey
from moothall.market.audit import audit_row
from moothall.market.records import Proposal
from moothall.wire.agentchat import client

NO_ANSWER: Final = "Arbiters did not answer in time"


# -- arbiters ------------------------------------------------------------------------------------------


def accept(
    message: client.ArbiterAccept, key: PublicKey, case: Dispute, *, now: int, rules: CourtRules
) -> Outcome:
    number = _pending_slot(key, case, now)
    case = with_slot(
        case,
        number,
        structs.replace(case.slots[number], status="accepted", accepted_at=now, accept_sig=message.sig),
    )
    told: tuple[Notice, ...] = ()
    if sum(slot.status == "accepted" for slot in case.slots) == PANEL_SIZE:
        case = structs.replace(
            case,
            phase=next_phase(case.phase, "panel_seated"),
            deadline=now + rules.evidence_period,
            evidence_from=now,
        )
        told = notices.evidence_open(case, now)
    row = audit_row("arbiter_accept", case.proposal_id, now, actor=key.raw, message=message)
    return Outcome(changes=(case, row), notices=told)


def decline(
    message: client.ArbiterDecline,
    key: PublicKey,
    case: Dispute,
    deal: Proposal,
    unfit: Unfit,
    *,
    now: int,
) -> Outcome:
    """The replacement is the next of the same shuffled order that is eligible now."""
    number = _pending_slot(key, case, now)
    case = with_slot(
        case,
        number,
        structs.replace(
            case.slots[number],
            status="declined",
            declined_at=now,
            decline_reason=message.reason,
            decline_sig=message.sig,
        ),
    )
    case, replacement = seat(case, 1, unfit, now)
    if not replacement:
        return fall_back(case, deal, "too_few_arbiters", TOO_FEW, now=now, message=message, actor=key.raw)
    return Outcome(
        changes=(case, audit_row("arbiter_decline", deal.id, now, actor=key.raw, message=message)),
        notices=(notices.assigned(case, replacement, now),),
    )


def end_response(case: Dispute, deal: Proposal, *, now: int) -> Outcome:
    """The clock's decision. Three that accepted would have opened the evidence at once, so there are fewer
    (seed 000, arbiter response timeout). An arbiter that did not answer forfeits its slot, and pays nothing."""
    forfeited = tuple(
        structs.replace(slot, status="forfeited") if slot.status == "pending" else slot for slot in case.slots
    )
    return fall_back(structs.replace(case, slots=forfeited), deal, "too_few_arbiters", NO_ANSWER, now=now)


# -- evidence ------------------------------------------------------------------------------------------


def submit_evidence(
    message: client.Evidence,
    key: PublicKey,
    case: Dispute,
    deal: Proposal,
    *,
    now: int,
    rules: CourtRules,
) -> Outcome:
    _require_evidence_time(key, case, now)
    submission = Submission(
        items=tuple(message.items),
        hashes=tuple(item_hash(item) for item in message.items),
        statement=message.statement,
        sig=message.sig,
        at=now,
    )
    if key.raw == case.disputant:
        case = structs.replace(case, disputant_evidence=submission)
    else:
        case = structs.replace(case, respondent_evidence=submission)
    received = notices.evidence_received(case, key.raw, len(submission.items), now)
    audience = [*case.parties, *(slot.arbiter for slot in case.slots if slot.status == "accepted")]
    told = [Notice(tuple(each for each in audience if each != key.raw), received)]
    if rules.evidence_ends_early and case.disputant_evidence and case.respondent_evidence:
        case = _deliberating(case, now, rules)
        told.append(notices.case_ready(case, deal, now))
    row = audit_row("evidence", deal.id, now, actor=key.raw, message=message)
    return Outcome(changes=(case, row), notices=tuple(told), answer=received)


def close_evidence(case: Dispute, deal: Proposal, *, now: int, rules: CourtRules) -> Outcome:
    """The clock's decision (seed 000, evidence deadline)."""
    case = _deliberating(case, now, rules)
    return Outcome(
        changes=(case, audit_row("evidence_closed", deal.id, now)),
        notices=(notices.case_ready(case, deal, now),),
    )


def _deliberating(case: Dispute, now: int, rules: CourtRules) -> Dispute:
    return structs.replace(
        case,
        phase=next_phase(case.phase, "evidence_closed"),
        deadline=now + rules.vote_period,
        deliberation_from=now,
    )


# -- checks --------------------------------------------------------------------------------------------


def require_slot(key: PublicKey, case: Dispute, phase: Phase, now: int) -> int:
    """The number of the sender's slot."""
    number = case.slot_of(key.raw)
    if number is None:
        raise DisputeNotArbiter("You are not an arbiter of this dispute")
    if case.slots[number].status == "declined":
        raise DisputeNotArbiter("You have declined")
    if case.phase != phase:
        raise DisputeInvalidPhase(f"The dispute is in phase {case.phase}")
    require_in_time(case, now)
    return number


def with_slot(case: Dispute, number: int, slot: Slot) -> Dispute:
    return structs.replace(case, slots=(*case.slots[:number], slot, *case.slots[number + 1 :]))


def _pending_slot(key: PublicKey, case: Dispute, now: int) -> int:
    number = require_slot(key, case, "arbiter_response", now)
    if case.slots[number].status != "pending":
        raise DisputeNotArbiter(f"Your slot is not pending, it is {case.slots[number].status}")
    return number


def _require_evidence_time(key: PublicKey, case: Dispute, now: int) -> None:
    own = case.disputant_evidence if key.raw == case.disputant else case.respondent_evidence
    # The reference's code for a second submission (agentchat wire 13.5); the period is over for its sender.
    if own is not None:
        raise DisputeDeadlinePassed("You have submitted your evidence")
    if case.deliberation_from is not None:
        raise DisputeDeadlinePassed("The time for evidence is over")
    if case.phase != "evidence":
        raise DisputeInvalidPhase(f"The dispute is in phase {case.phase}")
    require_in_time(case, now)
