"""How a case begins: the commitment, the reveal, the draw (seed 000, file intent, reveal; agentchat wire 13.3).

Each decision takes the records it needs and a command whose signature was checked (see `admission`), and returns
an Outcome or raises a Refusal. From the commitment on the deal is frozen; `_thawed` undoes it.
"""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import structs

from moothall.court import news
from moothall.court.admission import require_disputable, require_unrevealed
from moothall.court.commands import FileIntent, Reveal
from moothall.court.news import CourtOutcome, FellBack, IntentFiled, Revealed
from moothall.court.panel import PANEL_SIZE, Candidate, commitment_of, pool_hash_of, seed_of
from moothall.court.phases import Event, next_phase
from moothall.court.records import Dispute
from moothall.court.rules import CourtRules
from moothall.court.seating import Unfit, seat
from moothall.errors import DisputeCommitmentMismatch
from moothall.market.audit import audit_row
from moothall.market.credits import conversation_named
from moothall.market.outcome import Notice, Outcome
from moothall.market.proposals import LAST_MOMENT
from moothall.market.records import Proposal
from moothall.market.signed import Signed, SignedCommand
from moothall.market.statuses import next_status

# The pool as it is now, sorted, without these agents. Asked only once everything else holds.
PoolWithout = Callable[[frozenset[bytes]], Sequence[Candidate]]

TOO_FEW: Final = "Not enough eligible arbiters"
NOT_REVEALED: Final = "The nonce was not revealed in time"


# -- decisions -----------------------------------------------------------------------------------------


def file_intent(
    order: Signed[FileIntent],
    deal: Proposal | None,
    earlier: Sequence[Dispute],
    pool_without: PoolWithout,
    *,
    dispute_id: str,
    server_nonce: str,
    now: int,
    rules: CourtRules,
) -> CourtOutcome:
    """`earlier` are the cases that this deal had.

    The pool is taken here, while only the hall knows its nonce. Later arrivals and departures do not change it.
    """
    deal = require_disputable(deal, order.key, earlier, now, rules)
    by_proposer = order.key == deal.proposer
    pool = pool_without(frozenset((deal.proposer, deal.recipient)))
    addresses = tuple(candidate.address for candidate in pool)
    case = Dispute(
        id=dispute_id,
        proposal_id=deal.id,
        disputant=order.key,
        respondent=deal.recipient if by_proposer else deal.proposer,
        disputant_address=deal.from_ if by_proposer else deal.to,
        respondent_address=deal.to if by_proposer else deal.from_,
        reason=order.command.reason,
        commitment=order.command.commitment,
        intent_sig=order.sig,
        server_nonce=server_nonce,
        deadline=now + rules.reveal_timeout,
        filed_at=now,
        pool=addresses,
        pool_keys=tuple(candidate.key for candidate in pool),
        pool_hash=pool_hash_of(addresses),
    )
    frozen = structs.replace(deal, frozen_by=case.id, updated_at=now)
    return Outcome(
        changes=(case, frozen, audit_row("dispute_intent", deal.id, now, order=order)),
        notices=(news.filed(case, now),),
        answer=IntentFiled(case, now),
    )


def reveal(
    order: Signed[Reveal],
    case: Dispute,
    deal: Proposal,
    unfit: Unfit,
    *,
    now: int,
    rules: CourtRules,
) -> CourtOutcome:
    """From here on the seed decides."""
    nonce = order.command.nonce
    require_unrevealed(case, now)
    if commitment_of(nonce) != case.commitment:
        raise DisputeCommitmentMismatch("This is not the nonce whose hash was committed; try again")
    seed = seed_of(case.proposal_id, nonce, case.server_nonce)
    case = structs.replace(case, nonce=nonce, reveal_sig=order.sig, revealed_at=now, seed=seed)
    case, panel = seat(case, PANEL_SIZE, unfit, now)
    if not panel:
        return fall_back(case, deal, "too_few_arbiters", TOO_FEW, now=now, order=order)
    case = structs.replace(
        case, phase=next_phase(case.phase, "panel_drawn"), deadline=now + rules.response_timeout
    )
    return Outcome(
        changes=(case, audit_row("dispute_reveal", deal.id, now, order=order)),
        notices=(news.panel_formed(case, now), news.assigned(case, panel, now)),
        answer=Revealed(case, now),
    )


def miss_reveal(case: Dispute, deal: Proposal, *, now: int) -> CourtOutcome:
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
    order: Signed[SignedCommand] | None = None,
) -> CourtOutcome:
    """No verdict; the deal is what it was, and nothing is settled (seed 000, fallback). The party that acted gets
    this as its answer. An arbiter that acted is not told."""
    ended = structs.replace(
        case, phase=next_phase(case.phase, event), deadline=None, closed_at=now, fallback_reason=reason
    )
    actor = None if order is None else order.key
    told = tuple(key for key in ended.parties if key != actor)
    return Outcome(
        changes=(
            ended,
            _thawed(deal, case.filed_at, now),
            audit_row("fallback", deal.id, now, order=order),
        ),
        notices=(Notice(told, FellBack(ended, now)),),
        answer=FellBack(ended, now) if actor in ended.parties else None,
    )


def _thawed(deal: Proposal, since: int, now: int) -> Proposal:
    """With the time that was left when it was frozen: else the party at fault could file shortly before a deal
    expires, let the case fall back, and leave the other party no time to DISPUTE it. The copy of a conversation has
    served its purpose: the conversation itself goes on (`mesh_cases`)."""
    if conversation_named(deal.id) is not None:
        return structs.replace(deal, status=next_status(deal, "expire"), frozen_by=None, updated_at=now)
    expires = None if deal.expires is None else min(deal.expires + now - since, LAST_MOMENT)
    return structs.replace(deal, frozen_by=None, expires=expires, updated_at=now)
