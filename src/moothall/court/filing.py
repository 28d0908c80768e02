"""How a case begins: the commitment, the reveal, the draw (seed 000, file intent, reveal; agentchat wire 13.3).

Each decision takes the records it needs and a command whose signature was checked (see `admission`), and returns
an Outcome or raises a Refusal. From the commitment on the deal is frozen; `_thawed` undoes it.
"""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import structs

from moothall.court import notices
from moothall.court.outcome import Notice, Outcome
from moothall.court.panel import PANEL_SIZE, Candidate, commitment_of, pool_hash_of, seed_of
from moothall.court.phases import Event, next_phase
from moothall.court.records import Dispute
from moothall.court.rules import CourtRules
from moothall.court.seating import Unfit, seat
from moothall.court.signed import Step
from moothall.errors import (
    DisputeAlreadyExists,
    DisputeCommitmentMismatch,
    DisputeDeadlinePassed,
    DisputeInvalidPhase,
    DisputeNotParty,
    ProposalNotFound,
)
from moothall.identity import PublicKey
from moothall.market.audit import audit_row
from moothall.market.proposals import LAST_MOMENT, next_status, require_unexpired
from moothall.market.records import Proposal
from moothall.wire.agentchat import client

# The pool as it is now, sorted, without these agents. Asked only once everything else holds.
PoolWithout = Callable[[frozenset[bytes]], Sequence[Candidate]]

TOO_FEW: Final = "Not enough eligible arbiters"
NOT_REVEALED: Final = "The nonce was not revealed in time"


# -- decisions -----------------------------------------------------------------------------------------


def file_intent(
    message: client.DisputeIntent,
    key: PublicKey,
    deal: Proposal | None,
    earlier: Sequence[Dispute],
    pool_without: PoolWithout,
    *,
    dispute_id: str,
    server_nonce: str,
    now: int,
    rules: CourtRules,
) -> Outcome:
    """`earlier` are the cases that this deal had.

    The pool is taken here, while only the hall knows its nonce. Later arrivals and departures do not change it.
    """
    deal = _disputable(deal, key, earlier, now, rules)
    by_proposer = key.raw == deal.proposer
    pool = pool_without(frozenset((deal.proposer, deal.recipient)))
    addresses = tuple(candidate.address for candidate in pool)
    case = Dispute(
        id=dispute_id,
        proposal_id=deal.id,
        disputant=key.raw,
        respondent=deal.recipient if by_proposer else deal.proposer,
        disputant_address=deal.from_ if by_proposer else deal.to,
        respondent_address=deal.to if by_proposer else deal.from_,
        reason=message.reason,
        commitment=message.commitment,
        intent_sig=message.sig,
        server_nonce=server_nonce,
        deadline=now + rules.reveal_timeout,
        filed_at=now,
        pool=addresses,
        pool_keys=tuple(candidate.key for candidate in pool),
        pool_hash=pool_hash_of(addresses),
    )
    frozen = structs.replace(deal, frozen_by=case.id, updated_at=now)
    return Outcome(
        changes=(case, frozen, audit_row("dispute_intent", deal.id, now, actor=key.raw, message=message)),
        notices=(notices.filed(case, now),),
        answer=notices.acknowledged(case, now),
    )


def reveal(
    message: client.DisputeReveal,
    key: PublicKey,
    case: Dispute,
    deal: Proposal,
    unfit: Unfit,
    *,
    now: int,
    rules: CourtRules,
) -> Outcome:
    """From here on the seed decides."""
    if case.phase != "reveal_pending":
        raise DisputeInvalidPhase(
            f"The dispute is in phase {case.phase}: its nonce was revealed, or time is up"
        )
    require_in_time(case, now)
    if commitment_of(message.nonce) != case.commitment:
        raise DisputeCommitmentMismatch("This is not the nonce whose hash was committed; try again")
    seed = seed_of(case.proposal_id, message.nonce, case.server_nonce)
    case = structs.replace(case, nonce=message.nonce, reveal_sig=message.sig, revealed_at=now, seed=seed)
    case, panel = seat(case, PANEL_SIZE, unfit, now)
    if not panel:
        return fall_back(
            case, deal, "too_few_arbiters", TOO_FEW, now=now, message=message, actor=case.disputant
        )
    case = structs.replace(
        case, phase=next_phase(case.phase, "panel_drawn"), deadline=now + rules.response_timeout
    )
    return Outcome(
        changes=(case, audit_row("dispute_reveal", deal.id, now, actor=key.raw, message=message)),
        notices=(notices.panel_formed(case, now), notices.assigned(case, panel, now)),
        answer=notices.revealed(case, now),
    )


def miss_reveal(case: Dispute, deal: Proposal, *, now: int) -> Outcome:
    """The clock's decision (seed 000, file intent 4). The disputant has used up its right to dispute this deal,
    here and with DISPUTE; the other party has not."""
    deal = structs.replace(deal, unrevealed_by=(*deal.unrevealed_by, case.disputant))
    return fall_back(case, deal, "reveal_missed", NOT_REVEALED, now=now)


def fall_back(
    case: Dispute,
    deal: Proposal,
    event: Event,
    reason: str,
    *,
    now: int,
    message: Step | None = None,
    actor: bytes | None = None,
) -> Outcome:
    """No verdict; the deal is what it was, and nothing is settled (seed 000, fallback). The party that acted gets
    this as its answer. An arbiter that acted is not told."""
    ended = structs.replace(
        case, phase=next_phase(case.phase, event), deadline=None, closed_at=now, fallback_reason=reason
    )
    notice = notices.fallen_back(ended, now)
    told = tuple(key for key in ended.parties if key != actor)
    return Outcome(
        changes=(
            ended,
            _thawed(deal, case.filed_at, now),
            audit_row("fallback", deal.id, now, actor=actor, message=message),
        ),
        notices=(Notice(told, notice),),
        answer=notice if actor in ended.parties else None,
    )


def _thawed(deal: Proposal, since: int, now: int) -> Proposal:
    """With the time that was left when it was frozen: else the party at fault could file shortly before a deal
    expires, let the case fall back, and leave the other party no time to DISPUTE it."""
    expires = None if deal.expires is None else min(deal.expires + now - since, LAST_MOMENT)
    return structs.replace(deal, frozen_by=None, expires=expires, updated_at=now)


# -- checks, in the order in which they come ---------------------------------------------------------------


def require_in_time(case: Dispute, now: int) -> None:
    """A deadline holds from its own millisecond on, whether or not the clock has acted upon it yet."""
    if case.deadline is not None and now >= case.deadline:
        raise DisputeDeadlinePassed(f"The time for this ended with the phase {case.phase}")


def _disputable(
    deal: Proposal | None, key: PublicKey, earlier: Sequence[Dispute], now: int, rules: CourtRules
) -> Proposal:
    if deal is None:
        raise ProposalNotFound("There is no proposal with this id")
    if key.raw not in (deal.proposer, deal.recipient):
        raise DisputeNotParty("Only its parties can dispute a deal")
    if deal.frozen_by is not None or any(case.counts_for(key.raw) for case in earlier):
        raise DisputeAlreadyExists("There is a dispute about this deal, or there was one")
    require_unexpired(deal, "verdict", now, rules.expired_code)
    next_status(deal, "verdict")  # or it is in no state to be judged
    return deal
