"""Signed court commands as the JSON objects that a client sends."""

from hashlib import sha256
from typing import Any

from moothall.identity import PrivateKey
from moothall.wire.agentchat import client
from moothall.wire.agentchat.signing import TEXTS

MESSAGES: dict[str, Any] = {
    "DISPUTE_INTENT": client.DisputeIntent,
    "DISPUTE_REVEAL": client.DisputeReveal,
    "EVIDENCE": client.Evidence,
    "ARBITER_ACCEPT": client.ArbiterAccept,
    "ARBITER_DECLINE": client.ArbiterDecline,
    "ARBITER_VOTE": client.ArbiterVote,
}
NONCE = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
COMMITMENT = sha256(NONCE.encode()).hexdigest()
# Whoever judges: keys that nobody else in the tests has.
ARBITERS = tuple(PrivateKey(sha256(f"arbiter {number}".encode()).digest()) for number in range(12))


def signed_step(key: PrivateKey, kind: str, **fields: Any) -> dict[str, Any]:
    """The fields with their `sig`; without `type`."""
    message = MESSAGES[kind](**fields, sig="unsigned")
    return {**fields, "sig": key.sign(TEXTS[type(message)](message))}
