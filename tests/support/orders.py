"""Commands of market and court as the agentchat wire makes them of its messages."""

from typing import Any

from moothall.court import agentchat as court
from moothall.identity import PublicKey
from moothall.market import agentchat as market
from moothall.market.rules import DealRules
from moothall.market.signed import Sent, Signed, check_signature
from moothall.wire.agentchat import client
from moothall.wire.agentchat.signing import SignedMessage

READERS: dict[type, Any] = {
    client.Proposal: market.propose,
    client.Accept: market.accept,
    client.Reject: market.reject,
    client.Complete: market.complete,
    client.Dispute: market.dispute,
    client.RegisterSkills: market.register_skills,
    client.DisputeIntent: court.file_intent,
    client.DisputeReveal: court.reveal,
    client.ArbiterAccept: court.accept,
    client.ArbiterDecline: court.decline,
    client.Evidence: court.submit_evidence,
    client.ArbiterVote: court.vote,
}
ANY_RULES = DealRules()


def sent(message: SignedMessage, key: PublicKey) -> Sent[Any]:
    return market.sent(message, READERS[type(message)](message), key)


def order(message: SignedMessage, key: PublicKey, rules: DealRules = ANY_RULES) -> Signed[Any]:
    """The command, if the key signed the message."""
    return check_signature(sent(message, key), rules.signature_code)
