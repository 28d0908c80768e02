"""Whether a command about a deal is let in. The court asks here too, before its own questions (`court.admission`).

The signature is checked before any row is read or locked (`quotas.Disk.transact`). Then come, in this order: the
deal exists, the caller is the party that may do this, the deadline has not passed, the status allows it, no court
holds it. The decision checks that the stakes are covered.
"""

from typing import Final, NoReturn

from moothall.errors import InvalidProposal, ProposalNotFound, Refusal
from moothall.market.records import Proposal, Status
from moothall.market.rules import MarketRules
from moothall.market.signed import Signed, SignedCommand
from moothall.market.statuses import WRONG_STATUS, Event, can_expire, next_status

_FOR_RECIPIENT: Final = frozenset(("accept", "reject"))


def admit(
    order: Signed[SignedCommand], deal: Proposal | None, event: Event, now: int, rules: MarketRules
) -> tuple[Proposal, Status]:
    """The deal, and where the event leads it; or the refusal that comes first."""
    deal = require_deal(deal)
    _require_party(deal, order.key, event, rules)
    require_unexpired(deal, event, now, rules.expired_code)
    status = next_status(deal, event)
    _require_thawed(deal)
    return deal, status


def require_deal(deal: Proposal | None) -> Proposal:
    if deal is None:
        raise ProposalNotFound("There is no proposal with this id")
    return deal


def require_unexpired(deal: Proposal, event: Event, now: int, expired_code: str) -> None:
    if deal.status == "expired" or can_expire(deal, now):
        _refuse(expired_code, "The deadline of this proposal has passed", WRONG_STATUS[event])


def _require_party(deal: Proposal, key: bytes, event: Event, rules: MarketRules) -> None:
    if event in _FOR_RECIPIENT:
        if key != deal.recipient:
            _refuse(rules.stranger_code, "Only its recipient answers a proposal", "NOT_PROPOSAL_RECIPIENT")
    elif key not in (deal.proposer, deal.recipient):
        _refuse(rules.stranger_code, "Only its parties end a deal", "NOT_PROPOSAL_PARTY")


def _require_thawed(deal: Proposal) -> None:
    if deal.frozen_by is not None:
        raise InvalidProposal(f"PROPOSAL_FROZEN: dispute {deal.frozen_by} is open; wait for its end")


def _refuse(code: str, sentence: str, token: str) -> NoReturn:
    """INVALID_PROPOSAL says why in one of the reference's words (agentchat wire 7)."""
    raise Refusal.by_code[code](token if code == InvalidProposal.code else sentence)
