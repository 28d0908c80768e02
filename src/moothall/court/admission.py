"""Whether a step of a case is let in: every check of the court, in the order in which they come.

The signature is checked before any row is read or locked, as in the market. Then the sender's part in the case is
looked up, without locks and without the record of the case: `require_filing` to `require_viewer`. What needs the
record comes last, when the row is locked: the phase allows it, and it is not too late.
"""

from collections.abc import Sequence
from typing import Final

from moothall.court.books import Filing
from moothall.court.phases import Phase
from moothall.court.records import Dispute, Part
from moothall.court.rules import CourtRules
from moothall.errors import (
    DisputeAlreadyExists,
    DisputeDeadlinePassed,
    DisputeInvalidPhase,
    DisputeNotArbiter,
    DisputeNotFound,
    DisputeNotParty,
)
from moothall.market.admission import require_deal, require_unexpired
from moothall.market.records import Proposal
from moothall.market.statuses import next_status

ONLY_ONE: Final = "This deal has or had a dispute, and can have only one"

# -- before a row is locked ----------------------------------------------------------------------------


def require_filing(key: bytes, filings: Sequence[Filing]) -> str:
    """The id of the sender's own case about this deal. `filings` are all cases about it."""
    if not filings:
        raise DisputeNotFound("There is no dispute about this deal")
    own = next((filing.dispute_id for filing in filings if filing.disputant == key), None)
    if own is None:
        raise DisputeNotParty("Only the party that filed a dispute reveals its nonce")
    return own


def require_party(part: Part | None) -> None:
    """`part` is the sender's part in the case; None: there is no case."""
    _require_found(part)
    if part not in ("disputant", "respondent"):
        raise DisputeNotParty("Only the parties bring evidence")


def require_arbiter(part: Part | None) -> None:
    _require_found(part)
    if part != "arbiter":
        raise DisputeNotArbiter("You are not an arbiter of this dispute")


def require_viewer(part: Part | None) -> None:
    _require_found(part)
    if part == "stranger":
        raise DisputeNotParty("Only the parties and the arbiters of a case see its file")


def _require_found(part: Part | None) -> None:
    if part is None:
        raise DisputeNotFound("There is no such dispute")


# -- with the record -----------------------------------------------------------------------------------


def require_disputable(
    deal: Proposal | None, key: bytes, earlier: Sequence[Dispute], now: int, rules: CourtRules
) -> Proposal:
    """The deal, if this party can still file a case about it. `earlier` are the cases that it had."""
    deal = require_deal(deal)
    if key not in (deal.proposer, deal.recipient):
        raise DisputeNotParty("Only its parties can dispute a deal")
    if deal.frozen_by is not None:
        raise DisputeAlreadyExists(ONLY_ONE)
    require_first(key, earlier)
    require_unexpired(deal, "verdict", now, rules.expired_code)
    next_status(deal, "verdict")  # or it is in no state to be judged
    return deal


def require_first(key: bytes, earlier: Sequence[Dispute]) -> None:
    """An open case counts for both parties."""
    if any(case.counts_for(key) for case in earlier):
        raise DisputeAlreadyExists(ONLY_ONE)


def require_unrevealed(case: Dispute, now: int) -> None:
    if case.phase != "reveal_pending":
        raise DisputeInvalidPhase(
            f"The dispute is in phase {case.phase}: its nonce was already revealed, or the time is over"
        )
    _require_in_time(case, now)


def require_slot(key: bytes, case: Dispute, phase: Phase, now: int) -> int:
    """The number of the sender's slot."""
    number = case.slot_of(key)
    if number is None:
        raise DisputeNotArbiter("You are not an arbiter of this dispute")
    if case.slots[number].status == "declined":
        raise DisputeNotArbiter("You have already declined this case")
    if case.phase != phase:
        raise DisputeInvalidPhase(f"The dispute is in phase {case.phase}")
    _require_in_time(case, now)
    return number


def require_pending_slot(key: bytes, case: Dispute, now: int) -> int:
    number = require_slot(key, case, "arbiter_response", now)
    if case.slots[number].status != "pending":
        raise DisputeNotArbiter(f"You have already answered: your slot is {case.slots[number].status}")
    return number


def require_evidence_time(key: bytes, case: Dispute, now: int) -> None:
    own = case.disputant_evidence if key == case.disputant else case.respondent_evidence
    # The reference's code for a second submission (agentchat wire 13.5); the period is over for its sender.
    if own is not None:
        raise DisputeDeadlinePassed("You have already submitted your evidence")
    if case.deliberation_from is not None:
        raise DisputeDeadlinePassed("The time for evidence is over")
    if case.phase != "evidence":
        raise DisputeInvalidPhase(f"The dispute is in phase {case.phase}")
    _require_in_time(case, now)


def _require_in_time(case: Dispute, now: int) -> None:
    """A deadline holds from its own millisecond on, whether or not the clock has acted upon it yet."""
    if case.deadline is not None and now >= case.deadline:
        raise DisputeDeadlinePassed(f"The deadline of phase {case.phase} has passed")
