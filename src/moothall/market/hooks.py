"""Events for integrations: what happened to stakes and deals (agentchat wire 12.10; seed 000, complete 6).

An event's id follows from the deal and the event, so an event that is delivered twice can be told from two.
Webhooks carry the body as it is kept, with its HMAC-SHA256 in a header.
"""

import hmac
from typing import Any, Final, NamedTuple

from moothall.market import escrow
from moothall.market.agentchat import rating_changes
from moothall.market.movement import Movement
from moothall.market.records import EscrowResult, Happening, HookEvent, Proposal
from moothall.market.storable import kept_json

ESCROW_CREATED: Final = "escrow:created"
ESCROW_RELEASED: Final = "escrow:released"
SETTLEMENT_COMPLETION: Final = "settlement:completion"
SETTLEMENT_DISPUTE: Final = "settlement:dispute"
SETTLEMENT_VERDICT: Final = "settlement:verdict"

EVENTS: Final = (
    ESCROW_CREATED,
    ESCROW_RELEASED,
    SETTLEMENT_COMPLETION,
    SETTLEMENT_DISPUTE,
    SETTLEMENT_VERDICT,
)

SIGNATURE_HEADER: Final = "X-Moothall-Signature"
_SCHEME: Final = "sha256="


class Subscription(NamedTuple):
    """A listener, by the name that its events are kept under, and its event; None is all events."""

    listener: str
    event: str | None = None

    def wants(self, happening: Happening) -> bool:
        return self.event in (None, happening.name)


def escrow_created(deal: Proposal, now: int) -> Happening:
    return Happening(ESCROW_CREATED, deal, now, {"escrow_id": deal.id})


def escrow_released(deal: Proposal, now: int) -> Happening:
    """The deal expired and both got their stakes back."""
    return Happening(ESCROW_RELEASED, deal, now, {"escrow_id": deal.id, "reason": "expired"})


def settlement_completion(deal: Proposal, movement: Movement, now: int) -> Happening:
    facts = {
        "completed_by": deal.completed_by,
        "completion_proof": deal.completion_proof,
        "settlement": "returned",
        "stakes_returned": {"proposer": deal.proposer_stake, "acceptor": deal.acceptor_stake},
        "rating_changes": rating_changes(movement),
    }
    return Happening(SETTLEMENT_COMPLETION, deal, now, facts)


def settlement_dispute(deal: Proposal, stakes: EscrowResult, movement: Movement, now: int) -> Happening:
    facts = {
        "disputed_by": deal.disputed_by,
        "dispute_reason": deal.dispute_reason,
        "settlement": stakes.settlement,
        "transferred_to": stakes.transferred_to,
        "transferred_amount": stakes.transferred_amount,
        "burned_amount": stakes.burned_amount or 0,
        "rating_changes": rating_changes(movement),
    }
    return Happening(SETTLEMENT_DISPUTE, deal, now, facts)


def settlement_verdict(
    deal: Proposal, dispute_id: str, verdict: str, movement: Movement, now: int
) -> Happening:
    facts = {"dispute_id": dispute_id, "verdict": verdict, "rating_changes": rating_changes(movement)}
    return Happening(SETTLEMENT_VERDICT, deal, now, facts)


def hook_event(happening: Happening) -> HookEvent:
    """What is kept for listeners. A verdict says no more than how it was decided."""
    name, deal, at = happening.name, happening.deal, happening.at
    event_id = f"{deal.id}/{name}"
    offer = {} if name == SETTLEMENT_VERDICT else _offer(deal)
    body = {
        "id": event_id,
        "event": name,
        "timestamp": at,
        "proposal_id": deal.id,
        **offer,
        **happening.facts,
    }
    return HookEvent(id=event_id, name=name, deal=deal.id, at=at, body=kept_json(body))


def body_signature(secret: bytes, body: bytes) -> str:
    """What SIGNATURE_HEADER says: the sender knows the secret, and the body is the one that was sent."""
    return _SCHEME + hmac.digest(secret, body, "sha256").hex()


def _offer(deal: Proposal) -> dict[str, Any]:
    return {
        "from_agent": deal.from_,
        "to_agent": deal.to,
        "proposer_stake": deal.proposer_stake,
        "acceptor_stake": deal.acceptor_stake,
        "total_stake": escrow.total(deal),
        "task": deal.task,
        "amount": deal.amount,
        "currency": deal.currency,
        "expires": deal.expires,
    }
