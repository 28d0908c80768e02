"""Every command is signed, and a signature fits one step of one deal or case only (agentchat wire 8)."""

from typing import Any

import pytest

from moothall.court.rules import CourtRules
from moothall.errors import InvalidSignature, VerificationFailed
from moothall.identity import PrivateKey
from moothall.market.commands import Accept
from moothall.market.signed import Sent, check_signature
from moothall.wire.agentchat import client
from moothall.wire.agentchat.signing import SignedMessage, signed_text
from tests.identity.vectors import ALICE, BOB, CAROL, DAVE, SEEDS, VECTORS
from tests.support.orders import order

PANEL, DISPUTE = VECTORS["court_panel"], VECTORS["court_evidence"]["dispute_id"]
STEPS: dict[str, Any] = {
    "DISPUTE_INTENT": lambda sig: client.DisputeIntent(
        proposal_id=PANEL["proposal_id"], reason="late delivery", commitment=PANEL["commitment"], sig=sig
    ),
    "DISPUTE_REVEAL": lambda sig: client.DisputeReveal(
        proposal_id=PANEL["proposal_id"], nonce=PANEL["disputant_nonce"], sig=sig
    ),
    "ARBITER_ACCEPT": lambda sig: client.ArbiterAccept(dispute_id=DISPUTE, sig=sig),
    "ARBITER_DECLINE without reason": lambda sig: client.ArbiterDecline(dispute_id=DISPUTE, sig=sig),
    "ARBITER_DECLINE with reason": lambda sig: client.ArbiterDecline(
        dispute_id=DISPUTE, reason="conflict of interest", sig=sig
    ),
    "ARBITER_VOTE": lambda sig: client.ArbiterVote(
        dispute_id=DISPUTE, verdict="disputant", reasoning="any", sig=sig
    ),
}


@pytest.mark.parametrize("vector", VECTORS["court_signatures"], ids=lambda vector: vector["label"])
def test_the_vectors_are_accepted_as_signed_and_from_nobody_else(vector: dict[str, Any]) -> None:
    message: SignedMessage = STEPS[vector["label"]](vector["sig"])
    signer = PrivateKey(SEEDS[vector["signer"]])
    assert signed_text(message) == vector["signing_text"]
    order(message, signer.public, CourtRules())
    for other in {ALICE, BOB, CAROL, DAVE} - {signer}:
        with pytest.raises(InvalidSignature):
            order(message, other.public, CourtRules())


def test_the_profile_has_the_references_code() -> None:
    rules = CourtRules(signature_code="VERIFICATION_FAILED")
    with pytest.raises(VerificationFailed):
        order(STEPS["ARBITER_ACCEPT"]("no signature"), ALICE.public, rules)


def test_only_a_decline_may_come_without_one() -> None:
    order(client.ArbiterDecline(dispute_id=DISPUTE), ALICE.public, CourtRules())
    with pytest.raises(InvalidSignature):
        order(client.ArbiterDecline(dispute_id=DISPUTE, sig=""), ALICE.public, CourtRules())


def test_the_wire_says_what_was_signed() -> None:
    """Bytes that no text of the agentchat wire looks like, such as those of an envelope."""
    data = bytes(range(256))
    sent = Sent(Accept(deal="d"), ALICE.public, data, ALICE.sign_bytes(data), "as shown", {"any": "message"})
    signed = check_signature(sent, "INVALID_SIGNATURE")
    assert (signed.command, signed.key, signed.sig) == (Accept(deal="d"), ALICE.public.raw, "as shown")
    assert signed.message == {"any": "message"}
    for text, signature, key in (
        (data[1:], sent.signature, ALICE),
        (data, None, ALICE),
        (data, b"short", ALICE),
        (data, sent.signature, BOB),
    ):
        with pytest.raises(InvalidSignature):
            check_signature(Sent(sent.command, key.public, text, signature, "-", None), "INVALID_SIGNATURE")
    with pytest.raises(InvalidSignature):  # only a decline may come without one
        check_signature(Sent(sent.command, ALICE.public, data, None, None, None), "INVALID_SIGNATURE")
