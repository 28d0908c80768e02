"""What an agent reads in the file of a case when it was not there to hear it."""

from collections.abc import Callable
from typing import Any

import msgspec

from moothall.client.docket import ArbiterResult, Docket, Ruling, Vote
from moothall.client.evidence import Evidence
from moothall.client.ratings import RatingChange
from moothall.court import casefile
from moothall.errors import UnexpectedReply


def read(case: dict[str, Any]) -> casefile.Case:
    try:
        return casefile.parsed(case)
    except msgspec.ValidationError as error:
        raise UnexpectedReply(f"the hall's file of the case makes no sense: {error}") from None


def enter(case: casefile.Case, docket: Docket) -> None:
    """Enter what the file of a case says and lists of cases do not."""
    docket.server_nonce, docket.seed = case.server_nonce, case.seed
    docket.pool = tuple(case.pool or ())
    docket.pool_hash = docket.pool_hash or case.pool_hash
    docket.skipped = tuple(each.id for each in case.skipped)
    docket.panel = tuple(arbiter.id for arbiter in case.arbiters if not arbiter.is_replacement)


def ruling(case: casefile.Case) -> Ruling | None:
    """None while it is open."""
    if case.fallback is not None:
        return Ruling(verdict=None, fallback=case.fallback.reason)
    if case.judgement is None:
        return None
    votes = {arbiter.id: arbiter.vote for arbiter in case.arbiters if arbiter.vote is not None}
    settlement = case.settlement
    has_stakes = settlement is not None and settlement.stakes.disputant + settlement.stakes.respondent > 0
    return Ruling(
        case.judgement.verdict,
        tuple(
            Vote(arbiter, votes[arbiter].verdict, votes[arbiter].reasoning)
            for arbiter in case.judgement.votes
            if arbiter in votes
        ),
        tuple(
            ArbiterResult(
                result.arbiter,
                result.verdict,
                votes[result.arbiter].reasoning if result.arbiter in votes else None,
                result.reward,
            )
            for result in case.judgement.results
        ),
        {} if settlement is None else {share.agent: _rating_change(share) for share in settlement.shares},
        settlement.stakes.settlement if settlement is not None and has_stakes else None,
    )


def proposal(case: casefile.Case) -> dict[str, Any]:
    """As CASE_READY has it (agentchat wire 6.5)."""
    offer = case.deal.proposal
    return {
        "id": case.proposal_id,
        "from": case.deal.from_,
        "to": case.deal.to,
        "task": offer.task,
        "amount": offer.amount,
        "currency": offer.currency,
    }


def evidence(shown: casefile.Evidence | None) -> Evidence | None:
    if shown is None:
        return None
    items = zip(shown.items, shown.hashes, strict=False)
    return Evidence(tuple({**item, "hash": digest} for item, digest in items), shown.statement, shown.sig)


def has_evidence_of(case: casefile.Case, is_own: Callable[[str], bool]) -> bool:
    sides = ((case.disputant, case.evidence.disputant), (case.respondent, case.evidence.respondent))
    return any(is_own(party.id) and shown is not None for party, shown in sides)


def _rating_change(share: casefile.Share) -> RatingChange:
    """How many deals the agent has behind it by now is not in the file."""
    change = share.earned + share.awarded - share.staked
    return RatingChange(share.rating_before, share.rating_after, change, transactions=0)
