"""Check a case about a conversation of the mesh: what the two envelopes of the agreement say.

Their signatures cover all of an envelope: its conversation, its sender and recipient, its time, and its payload. So
they prove more than those of other deals do: that these two agents agreed on this amount in this conversation.
"""

from binascii import Error as NotBase64
from binascii import a2b_base64
from typing import Final

from msgspec import UNSET, UnsetType

from moothall.court.casefile import Case
from moothall.identity import PublicKey
from moothall.market.credits import conversation_named, shown
from moothall.market.in_court import CURRENCY
from moothall.market.proof import Proof
from moothall.wire.mesh.envelope import Envelope, read_signing_bytes
from moothall.wire.mesh.faults import EnvelopeRefused
from moothall.wire.mesh.keccak import keccak256
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.offers import decode_amount

_OFFERS: Final = (MsgType.PROPOSE, MsgType.COUNTER)

HALL_WORD: Final = (
    "That no later ACCEPT of this conversation agreed on another amount, and that its delivery was disputed.",
)


def check_envelopes(case: Case, proposer: PublicKey, acceptor: PublicKey, proof: Proof) -> None:
    """Does nothing in a case about a deal of another wire. The signatures over the bytes are checked elsewhere."""
    conversation_id = conversation_named(case.proposal_id)
    if conversation_id is None:
        return
    deal = case.deal
    offer, accept = _envelope(deal.proposal.signed), _envelope(deal.accept.signed)
    if not proof.claim(
        "deal.proposal.signed",
        offer is not None and offer.msg_type in _OFFERS and _is_between(offer, proposer, acceptor),
        "The offer is an envelope, PROPOSE or COUNTER, from one party to the other",
    ) or not proof.claim(
        "deal.accept.signed",
        accept is not None and accept.msg_type is MsgType.ACCEPT and _is_between(accept, acceptor, proposer),
        "The acceptance is an envelope, ACCEPT, back to the party that made the offer",
    ):
        return
    assert offer is not None and accept is not None  # noqa: S101, PT018  # the claims say so
    is_of_it = proof.claim(
        "proposal_id",
        offer.conversation_id == accept.conversation_id == conversation_id,
        "Both envelopes belong to the conversation that the case is about",
    )
    amount = decode_amount(accept.payload)
    is_agreed = proof.claim(
        "deal.proposal.amount",
        decode_amount(offer.payload) == amount
        and (deal.proposal.amount, deal.proposal.currency)
        == ((shown(amount), CURRENCY) if amount else (None, None)),
        "Both envelopes name this amount of credits",
    )
    if is_of_it and is_agreed and {"PROPOSAL", "ACCEPT"} <= set(proof.steps):
        proof.proven.append(
            f"Both parties agreed on {shown(amount)} credits in conversation {conversation_id.hex()}: their"
            " signatures are over the whole envelopes."
        )
    proof.hall_word += HALL_WORD


def _envelope(signed: str | UnsetType) -> Envelope | None:
    """None: these are not the signing bytes of an envelope."""
    if signed is UNSET:
        return None
    try:
        envelope = read_signing_bytes(a2b_base64(signed, strict_mode=True))
    except (NotBase64, ValueError, EnvelopeRefused):
        return None
    is_whole = envelope.payload_len == len(envelope.payload)
    return envelope if is_whole and envelope.payload_hash == keccak256(envelope.payload) else None


def _is_between(envelope: Envelope, sender: PublicKey, recipient: PublicKey) -> bool:
    return (envelope.sender, envelope.recipient) == (sender.raw, recipient.raw)
