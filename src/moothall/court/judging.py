"""Votes, the verdict, and what it settles (seed 000, arbiter vote to force resolve; agentchat wire 13.6, 13.7).

The verdict ends the case and the deal together: the parties' ratings, their stakes and what the arbiters earn or
forfeit are one settlement, one entry of the ledger and one audit row.
"""

from collections.abc import Iterator, Mapping

from msgspec import structs

from moothall.court import news
from moothall.court.admission import require_slot
from moothall.court.commands import CastVote
from moothall.court.news import CourtOutcome
from moothall.court.phases import next_phase
from moothall.court.records import Dispute, Settled, Settlement, Verdict, Vote
from moothall.court.rules import CourtRules
from moothall.court.verdict import rating_changes, reward, tally, votes_cast
from moothall.errors import DisputeNotArbiter
from moothall.market import curbs, escrow, hooks
from moothall.market.audit import audit_row
from moothall.market.movement import Movement, Share, Transfer
from moothall.market.outcome import Outcome
from moothall.market.rating_rules import RatingRules
from moothall.market.records import EscrowResult, Proposal, Standing
from moothall.market.settlement import settle
from moothall.market.signed import Signed
from moothall.market.statuses import next_status
from moothall.market.transfers import Side, transfer_shares

Standings = Mapping[bytes, Standing]


def vote(
    order: Signed[CastVote],
    case: Dispute,
    deal: Proposal,
    standings: Standings,
    *,
    now: int,
    rules: CourtRules,
) -> CourtOutcome:
    """`standings` of the parties and of every arbiter. The last vote is the verdict."""
    number = require_slot(order.key, case, "deliberation", now)
    slot = case.slots[number]
    if slot.status != "accepted":
        raise DisputeNotArbiter("You have already voted in this case")
    earlier = [each.vote.at for each in votes_cast(case.slots) if each.vote is not None]
    cast = Vote(
        number=len(earlier),
        verdict=order.command.verdict,
        reasoning=order.command.reasoning,
        sig=order.sig,
        at=max((now, *earlier)),  # clocks are set back, and those of two halls differ; the order is this one
    )
    case = case.with_slot(number, structs.replace(slot, status="voted", vote=cast))
    if any(slot.status == "accepted" for slot in case.slots):
        return Outcome(changes=(case, audit_row("arbiter_vote", deal.id, now, order=order)))
    return _resolve(case, deal, standings, now, rules.ratings, order)


def end_deliberation(
    case: Dispute, deal: Proposal, standings: Standings, *, now: int, rules: CourtRules
) -> CourtOutcome:
    """The clock's decision: an arbiter that has not voted forfeits (seed 000, force resolve)."""
    forfeited = tuple(
        structs.replace(slot, status="forfeited") if slot.status == "accepted" else slot
        for slot in case.slots
    )
    return _resolve(structs.replace(case, slots=forfeited), deal, standings, now, rules.ratings)


def agents_of(case: Dispute) -> list[bytes]:
    """Whose standings a verdict may change; in the order of their keys, so that two units never wait for each
    other."""
    return sorted({*case.parties, *(slot.arbiter for slot in case.slots)})


def _resolve(
    case: Dispute,
    deal: Proposal,
    standings: Standings,
    now: int,
    rules: RatingRules,
    order: Signed[CastVote] | None = None,
) -> CourtOutcome:
    verdict = tally(slot.vote.verdict for slot in case.slots if slot.vote is not None)
    disputant, respondent, given = _party_shares(case, deal, standings, verdict, now, rules)
    shares = (disputant, respondent, *_arbiter_shares(case, standings, verdict, now, rules))
    stakes = _stakes(deal, disputant, respondent, verdict)
    movement = settle(deal, "verdict", shares, now, stakes if escrow.is_open(deal) else None)
    case = structs.replace(
        case,
        phase=next_phase(case.phase, "verdict_reached"),
        deadline=None,
        closed_at=now,
        verdict=verdict,
        settlement=_settlement(shares, movement, stakes, given),
    )
    ended = _ended(case, deal, now)
    return Outcome(
        changes=(
            case,
            ended,
            audit_row("verdict", deal.id, now, order=order, movement=movement),
            *movement.changes(),
            hooks.settlement_verdict(ended, case.id, verdict, movement, now),
        ),
        notices=news.judged(case, movement, now),
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
    case: Dispute, deal: Proposal, standings: Standings, verdict: Verdict, now: int, rules: RatingRules
) -> tuple[Share, Share, Transfer | None]:
    """The disputant's and the respondent's, and what the winner gets of the loser's points. The winner gets its own
    stake back and the other's; on mutual fault both are burned."""
    before = standings[case.disputant], standings[case.respondent]
    earned = rating_changes(before[0].rating, before[1].rating, verdict)
    stakes = _stakes_of(case, deal)
    disputant = Side(case.disputant_address, before[0], stakes[0], abs(earned[0]))
    respondent = Side(case.respondent_address, before[1], stakes[1], abs(earned[1]))
    if verdict == "disputant":
        return transfer_shares(disputant, respondent, now, rules)
    if verdict == "respondent":
        won, lost, given = transfer_shares(respondent, disputant, now, rules)
        return lost, won, given
    return _at_fault(disputant), _at_fault(respondent), None


def _at_fault(side: Side) -> Share:
    return Share(address=side.address, standing=side.standing, earned=-side.points, staked=side.stake)


def _arbiter_shares(
    case: Dispute, standings: Standings, verdict: Verdict, now: int, rules: RatingRules
) -> Iterator[Share]:
    for slot in case.slots:
        full = reward(slot, verdict)
        if full is None:
            continue
        standing = standings[slot.arbiter]
        earned = curbs.allowed(full, standing, now, rules)
        yield Share(
            address=slot.address,
            standing=standing,
            earned=earned,
            in_capability=False,  # what an arbiter earns says nothing about the skill that the deal was about
            withheld=full - earned,
            curbs=curbs.gained(standing, earned, now, rules),
        )


def _stakes_of(case: Dispute, deal: Proposal) -> tuple[int, int]:
    if case.disputant == deal.proposer:
        return deal.proposer_stake, deal.acceptor_stake
    return deal.acceptor_stake, deal.proposer_stake


def _stakes(deal: Proposal, disputant: Share, respondent: Share, verdict: Verdict) -> EscrowResult:
    if verdict == "mutual":
        return escrow.burned(deal)
    won, lost = (disputant, respondent) if verdict == "disputant" else (respondent, disputant)
    got = won.awarded - won.staked
    return escrow.transferred(deal, won.address, got, burned=lost.staked - got)


def _settlement(
    shares: tuple[Share, ...], movement: Movement, stakes: EscrowResult, given: Transfer | None
) -> Settlement:
    return Settlement(
        shares=tuple(
            Settled(
                address=share.address,
                rating_before=before.rating,
                rating_after=after.rating,
                earned=share.earned,
                staked=share.staked,
                awarded=share.awarded,
                withheld=share.withheld,
            )
            for share, (before, after) in zip(shares, movement.moved, strict=True)
        ),
        stakes=stakes,
        transfer=given,
    )
