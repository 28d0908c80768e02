"""Every step is signed, and a signature fits one step of one case only (agentchat wire 8)."""

from typing import Any

import pytest

from moothall.court.rules import CourtRules
from moothall.court.signed import TEXTS, Step, require_signature
from moothall.errors import InvalidSignature, VerificationFailed
from moothall.identity import PrivateKey
from moothall.wire.agentchat import client
from tests.identity.vectors import ALICE, BOB, CAROL, DAVE, SEEDS, VECTORS

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
    message: Step = STEPS[vector["label"]](vector["sig"])
    signer = PrivateKey(SEEDS[vector["signer"]])
    assert TEXTS[type(message)](message) == vector["signing_text"]
    require_signature(message, signer.public, CourtRules())
    for other in {ALICE, BOB, CAROL, DAVE} - {signer}:
        with pytest.raises(InvalidSignature):
            require_signature(message, other.public, CourtRules())


def test_the_profile_has_the_references_code() -> None:
    rules = CourtRules(signature_code="VERIFICATION_FAILED")
    with pytest.raises(VerificationFailed):
        require_signature(STEPS["ARBITER_ACCEPT"]("no signature"), ALICE.public, rules)


def test_only_a_decline_may_come_without_one() -> None:
    require_signature(client.ArbiterDecline(dispute_id=DISPUTE), ALICE.public, CourtRules())
    with pytest.raises(InvalidSignature):
        require_signature(client.ArbiterDecline(dispute_id=DISPUTE, sig=""), ALICE.public, CourtRules())
