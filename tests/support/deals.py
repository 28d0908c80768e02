"""Signed market commands as the JSON objects that a client sends."""

from typing import Any

from moothall.identity import PrivateKey
from moothall.wire.agentchat import client
from moothall.wire.agentchat.signing import TEXTS

MESSAGES: dict[str, Any] = {
    "PROPOSAL": client.Proposal,
    "ACCEPT": client.Accept,
    "REJECT": client.Reject,
    "COMPLETE": client.Complete,
    "DISPUTE": client.Dispute,
    "REGISTER_SKILLS": client.RegisterSkills,
}


def signed(key: PrivateKey, kind: str, **fields: Any) -> dict[str, Any]:
    """The fields with their `sig`; without `type`."""
    message = MESSAGES[kind](**fields, sig="unsigned")
    return {**fields, "sig": key.sign(TEXTS[type(message)](message))}
