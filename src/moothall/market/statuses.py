"""The life of a deal (seeds 000 and 001, proposals; agentchat wire 11).

A deal begins as an offer that only its recipient can answer. Accepted, it binds both: the stakes are put
aside, and either party may end it, as done or as disputed. Both ends settle ratings and stakes, and there is
no way back from any of them, so a deal is settled at most once whatever races to settle it. A deadline ends an
offer that was not answered and a deal that was not finished; then the stakes go back and no rating moves. All ways
are in TRANSITIONS, and what is not there is refused.

While a court case holds a deal it is frozen: it stays accepted, and neither party nor the clock can end it. The
court either gives it back as it was, or ends it with a verdict (`court.judging`).
"""

from collections.abc import Mapping
from typing import Final, Literal

from moothall.errors import InvalidProposal
from moothall.market.records import Proposal, Status

Event = Literal["accept", "reject", "complete", "dispute", "expire", "verdict"]

TRANSITIONS: Final[Mapping[tuple[Status, Event], Status]] = {
    ("pending", "accept"): "accepted",
    ("pending", "reject"): "rejected",
    ("pending", "expire"): "expired",
    ("accepted", "complete"): "completed",
    ("accepted", "dispute"): "disputed",
    ("accepted", "expire"): "expired",
    ("accepted", "verdict"): "disputed",
}

# What the reference says when the status does not allow it (agentchat wire 7).
WRONG_STATUS: Final[Mapping[Event, str]] = {
    "accept": "PROPOSAL_NOT_PENDING",
    "reject": "PROPOSAL_NOT_PENDING",
    "complete": "PROPOSAL_NOT_ACCEPTED",
    "dispute": "PROPOSAL_NOT_ACCEPTED",
    "expire": "PROPOSAL_NOT_OPEN",
    "verdict": "PROPOSAL_NOT_ACCEPTED",
}


def next_status(deal: Proposal, event: Event) -> Status:
    """Where the event leads, or INVALID_PROPOSAL with the reference's word for why not."""
    status = TRANSITIONS.get((deal.status, event))
    if status is None:
        raise InvalidProposal(WRONG_STATUS[event])
    return status


def can_expire(deal: Proposal, now: int) -> bool:
    """The deadline has passed, and the clock has not acted upon it yet. A frozen deal waits."""
    overdue = deal.expires is not None and deal.expires <= now
    return overdue and deal.frozen_by is None and (deal.status, "expire") in TRANSITIONS
