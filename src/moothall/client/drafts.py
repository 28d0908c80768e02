"""The steps of deals and cases before they are signed, and the text that each signature will cover.

The SDK signs these, and a program that asks a person first can show the same text: `signed_text(accept(...))`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from moothall.client.dispute import checked_verdict
from moothall.client.signed import UNSIGNED
from moothall.errors import UsageError
from moothall.wire.agentchat import client, signing
from moothall.wire.agentchat.client import ClientMessage

_TEXTS: Final[Mapping[type[ClientMessage], Callable[[Any], str]]] = {
    client.Accept: signing.accept_text,
    client.Reject: signing.reject_text,
    client.Complete: signing.complete_text,
    client.Dispute: signing.dispute_text,
    client.ArbiterAccept: signing.arbiter_accept_text,
    client.ArbiterDecline: signing.arbiter_decline_text,
    client.ArbiterVote: signing.vote_text,
}


def signed_text(draft: ClientMessage) -> str:
    """The text under which the agent's signature will be (agentchat wire 8)."""
    return _TEXTS[type(draft)](draft)


# -- deals -----------------------------------------------------------------------------------------


def accept(proposal_id: str, stake: int | None, payment_code: str | None) -> client.Accept:
    return client.Accept(
        proposal_id=proposal_id, payment_code=payment_code, elo_stake=checked_stake(stake), sig=UNSIGNED
    )


def reject(proposal_id: str, reason: str | None) -> client.Reject:
    return client.Reject(proposal_id=proposal_id, reason=reason, sig=UNSIGNED)


def complete(proposal_id: str, proof: str | None) -> client.Complete:
    return client.Complete(proposal_id=proposal_id, proof=proof, sig=UNSIGNED)


def dispute(proposal_id: str, reason: str) -> client.Dispute:
    if not reason:
        raise UsageError("a dispute needs a reason")
    return client.Dispute(proposal_id=proposal_id, reason=reason, sig=UNSIGNED)


# -- cases -----------------------------------------------------------------------------------------


def accept_case(dispute_id: str) -> client.ArbiterAccept:
    return client.ArbiterAccept(dispute_id=dispute_id, sig=UNSIGNED)


def decline_case(dispute_id: str, reason: str | None) -> client.ArbiterDecline:
    return client.ArbiterDecline(dispute_id=dispute_id, reason=reason or None, sig=UNSIGNED)


def vote(dispute_id: str, verdict: str, reasoning: str) -> client.ArbiterVote:
    return client.ArbiterVote(
        dispute_id=dispute_id, verdict=checked_verdict(verdict), reasoning=reasoning, sig=UNSIGNED
    )


def checked_stake(stake: Any) -> int | None:
    if stake is None or (type(stake) is int and stake >= 0):
        return stake
    raise UsageError(f"a stake is a whole number of rating points, not {stake!r}")
