"""Votes, the verdict, and what it settles (seed 000, arbiter vote to force resolve; agentchat wire 13.6, 13.7).

The verdict ends the case and the deal together: the parties' ratings, their stakes and what the arbiters earn or
forfeit are one settlement, one entry of the ledger and one audit row.
"""

from collections.abc import Mapping

from msgspec import structs

from moothall.court import notices
from moothall.court.hearing import require_slot, with_slot
from moothall.court.outcome import Outcome
from moothall.court.phases import next_phase
from moothall.court.records import Dispute, Settled, Settlement, Vote
from moothall.court.rules import CourtRules
from moothall.court.verdict import rating_changes, reward, tally, votes_cast
from moothall.errors import DisputeNotArbiter
from moothall.identity import PublicKey
from moothall.market import escrow, hooks
from moothall.market.audit import audit_row
from moothall.market.proposals import next_status
from moothall.market.records import Proposal, Standing
from moothall.market.settlement import Movement, Share, settle
from moothall.wire.agentchat import client
from moothall.wire.agentchat.client import Verdict
from moothall.wire.agentchat.market import EscrowResult, RatingChanges

Standings = Mapping[bytes, Standing]


def vote(
    message: client.ArbiterVote,
    key: PublicKey,
    case: Dispute,
    deal: Proposal,
    standings: Standings,
    *,
    now: int,
    rules: CourtRules,
) -> Outcome:
    """`standings` of the parties and of every arbiter. The last vote is the verdict."""
    number = require_slot(key, case, "deliberation", now)
    slot = case.slots[number]
    if slot.status != "accepted":
        raise DisputeNotArbiter("You have voted")
    earlier = [each.vote.at for each in votes_cast(case.slots) if each.vote is not None]
    cast = Vote(
        number=len(earlier),
        verdict=message.verdict,
        reasoning=message.reasoning,
        sig=message.sig,
        at=max((now, *earlier)),  # clocks are set back, and those of two halls differ; the order is this one
    )
    case = with_slot(case, number, structs.replace(slot, status="voted", vote=cast))
    if any(slot.status == "accepted" for slot in case.slots):
        row = audit_row("arbiter_vote", deal.id, now, actor=key.raw, message=message)
        return Outcome(changes=(case, row))
    return _resolve(case, deal, standings, now, actor=key.raw, message=message)


def end_deliberation(case: Dispute, deal: Proposal, standings: Standings, *, now: int) -> Outcome:
    """The clock's decision: who has not voted forfeits (seed 000, force resolve)."""
    forfeited = tuple(
        structs.replace(slot, status="forfeited") if slot.status == "accepted" else slot
        for slot in case.slots
    )
    return _resolve(structs.replace(case, slots=forfeited), deal, standings, now)


def agents_of(case: Dispute) -> list[bytes]:
    """Whose standings a verdict may change; in the order of their keys, so that two units never wait for each
    other."""
    return sorted({*case.parties, *(slot.arbiter for slot in case.slots)})


def _resolve(
    case: Dispute,
    deal: Proposal,
    standings: Standings,
    now: int,
    *,
    actor: bytes | None = None,
    message: client.ArbiterVote | None = None,
) -> Outcome:
    verdict = tally(slot.vote.verdict for slot in case.slots if slot.vote is not None)
    shares = (*_party_shares(case, deal, standings, verdict), *_arbiter_shares(case, standings, verdict))
    movement = settle(deal, "verdict", shares, now)
    stakes = _stakes(case, deal, verdict)
    changes: RatingChanges = {**movement.rating_changes}
    if escrow.is_open(deal):
        changes["_escrow"] = stakes
    case = structs.replace(
        case,
        phase=next_phase(case.phase, "verdict_reached"),
        deadline=None,
        closed_at=now,
        verdict=verdict,
        settlement=_settlement(shares, movement, stakes),
    )
    ended = _ended(case, deal, now)
    return Outcome(
        changes=(
            case,
            ended,
            audit_row("verdict", deal.id, now, actor=actor, message=message, movement=movement),
            *movement.changes(),
            hooks.settlement_verdict(ended, case.id, verdict, changes, now),
        ),
        notices=notices.judged(case, changes, now),
    )


def _ended(case: Dispute, deal: Proposal, now: int) -> Proposal:
    return structs.replace(
        deal,
        status=next_status(deal, "verdict"),
        updated_at=now,
        disputed_at=now,
        disputed_by=case.disputant_address,
        dispute_reason=case.reason,
        frozen_by=None,
    )


# -- who leaves with what ------------------------------------------------------------------------------


def _party_shares(
    case: Dispute, deal: Proposal, standings: Standings, verdict: Verdict
) -> tuple[Share, Share]:
    disputant, respondent = standings[case.disputant], standings[case.respondent]
    earned = rating_changes(disputant.rating, respondent.rating, verdict)
    stakes = _stakes_of(case, deal)
    awarded = awards(stakes, verdict)
    return (
        Share(
            address=case.disputant_address,
            standing=disputant,
            earned=earned[0],
            staked=stakes[0],
            awarded=awarded[0],
        ),
        Share(
            address=case.respondent_address,
            standing=respondent,
            earned=earned[1],
            staked=stakes[1],
            awarded=awarded[1],
        ),
    )


def awards(stakes: tuple[int, int], verdict: Verdict) -> tuple[int, int]:
    """The winner gets both stakes; on mutual fault nobody gets any, and both are burned."""
    total = sum(stakes)
    return (total if verdict == "disputant" else 0, total if verdict == "respondent" else 0)


def _arbiter_shares(case: Dispute, standings: Standings, verdict: Verdict) -> list[Share]:
    return [
        # What an arbiter earns says nothing about the skill that the deal was about.
        Share(address=slot.address, standing=standings[slot.arbiter], earned=earned, in_capability=False)
        for slot in case.slots
        if (earned := reward(slot, verdict)) is not None
    ]


def _stakes_of(case: Dispute, deal: Proposal) -> tuple[int, int]:
    if case.disputant == deal.proposer:
        return deal.proposer_stake, deal.acceptor_stake
    return deal.acceptor_stake, deal.proposer_stake


def _stakes(case: Dispute, deal: Proposal, verdict: Verdict) -> EscrowResult:
    own, other = _stakes_of(case, deal)
    if verdict == "disputant":
        return escrow.transferred(deal, case.disputant_address, other)
    if verdict == "respondent":
        return escrow.transferred(deal, case.respondent_address, own)
    return escrow.burned(deal)


def _settlement(shares: tuple[Share, ...], movement: Movement, stakes: EscrowResult) -> Settlement:
    return Settlement(
        shares=tuple(
            Settled(
                address=share.address,
                rating_before=before.rating,
                rating_after=after.rating,
                earned=share.earned,
                staked=share.staked,
                awarded=share.awarded,
            )
            for share, (before, after) in zip(shares, movement.moved, strict=True)
        ),
        stakes=stakes,
    )
