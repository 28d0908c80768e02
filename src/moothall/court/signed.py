"""Every step of a case is signed. Its text names the proposal or the dispute, so no signature fits another case."""

from collections.abc import Callable
from typing import Any, Final

from moothall.court.rules import CourtRules
from moothall.errors import Refusal
from moothall.identity import PublicKey
from moothall.wire.agentchat import client, signing

TEXTS: Final[dict[type, Callable[[Any], str]]] = {
    client.DisputeIntent: signing.dispute_intent_text,
    client.DisputeReveal: signing.dispute_reveal_text,
    client.Evidence: signing.evidence_text,
    client.ArbiterAccept: signing.arbiter_accept_text,
    client.ArbiterDecline: signing.arbiter_decline_text,
    client.ArbiterVote: signing.vote_text,
}

Step = (
    client.DisputeIntent
    | client.DisputeReveal
    | client.Evidence
    | client.ArbiterAccept
    | client.ArbiterDecline
    | client.ArbiterVote
)


def require_signature(message: Step, key: PublicKey, rules: CourtRules) -> None:
    """INVALID_SIGNATURE, unless the sender's key signed the message. ARBITER_DECLINE may come without one."""
    if message.sig is None:
        return
    if not key.verifies(TEXTS[type(message)](message), message.sig):
        raise Refusal.by_code[rules.signature_code]("The signature does not match the message and your key")
