"""The signed steps of a deal, with the bytes that each signature covers: anyone can check them with the keys.

The bytes of a step follow from its fields (agentchat wire 8), unless it was signed on another wire.
"""

from binascii import b2a_base64
from typing import Any, Literal

from msgspec import UNSET, Struct

from moothall.identity import PublicKey
from moothall.market.receipts import REDACTED, pem_of
from moothall.market.records import Proposal
from moothall.wire.agentchat import client, signing
from moothall.wire.agentchat.jstext import utf8


class SignedStep(Struct, kw_only=True):
    """One message of a party. `signed` is what `sig` covers, in base64. It is null if the hall took a secret out of
    the task. `follows` says that these bytes follow from `fields`; others came by another wire."""

    type: Literal["PROPOSAL", "ACCEPT", "REJECT", "COMPLETE", "DISPUTE"]
    by: str
    key: str  # PEM
    at: int | None  # null where the hall keeps no time of its own
    sig: str
    signed: str | None
    follows: bool
    fields: dict[str, Any]


def signed_steps(deal: Proposal) -> list[SignedStep]:
    """In the order of their making. What the clock or a court did is not signed by a party."""
    steps = [_proposal(deal)]
    if deal.response_sig is not None:
        steps.append(_response(deal))
    if deal.completion_sig is not None:
        complete = client.Complete(proposal_id=deal.id, proof=deal.completion_proof, sig=deal.completion_sig)
        steps.append(_step(deal, "COMPLETE", deal.completed_by, deal.completed_at, complete))
    if deal.dispute_sig is not None:
        dispute = client.Dispute(proposal_id=deal.id, reason=deal.dispute_reason or "", sig=deal.dispute_sig)
        steps.append(_step(deal, "DISPUTE", deal.disputed_by, deal.disputed_at, dispute))
    return steps


def _proposal(deal: Proposal) -> SignedStep:
    message = client.Proposal(
        to=deal.to,
        task=deal.task,
        amount=deal.amount,
        currency=deal.currency,
        payment_code=deal.payment_code,
        expires=UNSET if deal.expires_asked is None else deal.expires_asked,
        elo_stake=deal.proposer_stake or None,
        sig=deal.sig,
    )
    step = _step(deal, "PROPOSAL", deal.from_, deal.created_at, message)
    text = signing.proposal_text(message)
    if step.follows and REDACTED in deal.task and not PublicKey(deal.proposer).verifies(text, deal.sig):
        step.signed = None
    return step


def _response(deal: Proposal) -> SignedStep:
    sig = deal.response_sig or ""
    if deal.status == "rejected":
        reject = client.Reject(proposal_id=deal.id, reason=deal.reject_reason, sig=sig)
        return _step(deal, "REJECT", deal.to, deal.updated_at, reject)
    accept = client.Accept(
        proposal_id=deal.id,
        payment_code=deal.response_payment_code,
        elo_stake=deal.acceptor_stake or None,
        sig=sig,
    )
    return _step(deal, "ACCEPT", deal.to, deal.updated_at if deal.status == "accepted" else None, accept)


def _step(
    deal: Proposal,
    kind: Literal["PROPOSAL", "ACCEPT", "REJECT", "COMPLETE", "DISPUTE"],
    by: str | None,
    at: int | None,
    message: signing.SignedMessage,
) -> SignedStep:
    elsewhere = None if deal.signed_texts is UNSET else deal.signed_texts.get(kind)
    signed = utf8(signing.signed_text(message)) if elsewhere is None else elsewhere
    names = [name for name in message.__struct_fields__ if name not in ("ref", "sig", "terms", "capability")]
    values = {name: getattr(message, name) for name in names}
    return SignedStep(
        type=kind,
        by=by or "",
        key=pem_of(deal.proposer if by == deal.from_ else deal.recipient),
        at=at,
        sig=message.sig or "",
        signed=b2a_base64(signed, newline=False).decode(),
        follows=elsewhere is None,
        fields={name: value for name, value in values.items() if value is not UNSET},
    )
