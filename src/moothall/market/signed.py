"""A command whose signature was checked. Decisions take nothing else."""

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

from moothall.errors import Refusal
from moothall.identity import PublicKey
from moothall.identity.signatures import decode_signature, verify
from moothall.market.rules import MarketRules
from moothall.wire.agentchat import signing
from moothall.wire.agentchat.client import Accept, Complete, Dispute, Proposal, RegisterSkills, Reject
from moothall.wire.agentchat.jstext import utf8

Command = TypeVar("Command", Proposal, Accept, Reject, Complete, Dispute, RegisterSkills)

TEXTS: Final[dict[type, Callable[[Any], str]]] = {
    Proposal: signing.proposal_text,
    Accept: signing.accept_text,
    Reject: signing.reject_text,
    Complete: signing.complete_text,
    Dispute: signing.dispute_text,
    RegisterSkills: signing.skills_text,
}


class Signed(Struct, Generic[Command], frozen=True, gc=False):
    """Made by `check_signature` only."""

    message: Command
    key: PublicKey


def check_signature(message: Command, key: PublicKey, rules: MarketRules) -> Signed[Command]:
    """The command with its proof, or INVALID_SIGNATURE (seed 000, verification failure)."""
    signature = decode_signature(message.sig)
    text = TEXTS[type(message)](message)
    if signature is None or not verify(key.raw, utf8(text), signature):
        raise Refusal.by_code[rules.signature_code]("The signature does not match the message and your key")
    return Signed(message, key)
