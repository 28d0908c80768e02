"""Receipts: proof of a completed deal that anybody can check with nothing but the public keys.

A receipt is the COMPLETE message that both parties got, `stored_at`, and `operations`: the PROPOSAL, ACCEPT
and COMPLETE that were signed, each with its signer's public key. An agent's id is the beginning of a hash of
its key, so the keys prove the names.

What it cannot prove: the text of a PROPOSAL does not name the deal's id (agentchat wire 8), so which of two
proposals from one agent to another was meant, and when, is the hall's word. So are the ratings: nobody signs them.
"""

from functools import lru_cache
from typing import Any, Final

import msgspec

from moothall.errors import InvalidKey
from moothall.identity import PublicKey
from moothall.identity.keys import AGENT_ID_LENGTH, FINGERPRINT_LENGTH
from moothall.market.records import Proposal, Receipt
from moothall.market.storable import kept_json
from moothall.wire.agentchat import client, signing
from moothall.wire.agentchat.market import CompleteNotice, Stakes

KEYS_AT_HAND: Final = 4096  # whose PEM texts need not be written again
REDACTED: Final = "[REDACTED:"  # what stands where a secret stood (agentchat wire 9.6)


def build_receipt(deal: Proposal, message: CompleteNotice, now: int) -> Receipt:
    """`deal` is completed; `message` is what its parties are told."""
    told = kept_json(message)
    more = kept_json({"stored_at": now, "operations": _operations(deal)})
    # Both are JSON objects, so joining them needs no second look at either.
    return Receipt(proposal_id=deal.id, at=now, body=told[:-1] + b"," + more[1:])


def _operations(deal: Proposal) -> list[dict[str, Any]]:
    completer = deal.proposer if deal.completed_by == deal.from_ else deal.recipient
    return [
        *signed_offer(deal),
        {
            "type": "COMPLETE",
            "key": _pem(completer),
            "proposal_id": deal.id,
            "proof": deal.completion_proof,
            "sig": deal.completion_sig,
        },
    ]


def signed_offer(deal: Proposal) -> list[dict[str, Any]]:
    """The PROPOSAL and the ACCEPT behind a deal, as they were signed, with their signers' keys."""
    return [
        {
            "type": "PROPOSAL",
            "key": _pem(deal.proposer),
            "to": deal.to,
            "task": deal.task,
            "amount": deal.amount,
            "currency": deal.currency,
            "payment_code": deal.payment_code,
            **({} if deal.expires_asked is None else {"expires": deal.expires_asked}),
            "elo_stake": deal.proposer_stake,
            "sig": deal.sig,
        },
        {
            "type": "ACCEPT",
            "key": _pem(deal.recipient),
            "proposal_id": deal.id,
            "payment_code": deal.response_payment_code,
            "elo_stake": deal.acceptor_stake,
            "sig": deal.response_sig,
        },
    ]


@lru_cache(maxsize=KEYS_AT_HAND)
def _pem(key: bytes) -> str:
    return PublicKey(key).pem


# -- checking one --------------------------------------------------------------------------------------


class SignedProposal(client.Proposal, tag="PROPOSAL", kw_only=True):
    key: str


class SignedAccept(client.Accept, tag="ACCEPT", kw_only=True):
    key: str


class _SignedComplete(client.Complete, tag="COMPLETE", kw_only=True):
    key: str


class _Evidence(msgspec.Struct, tag_field="type", tag="COMPLETE", kw_only=True):
    """The parts of a receipt that can be checked."""

    proposal_id: str
    from_: str = msgspec.field(name="from")
    to: str
    status: str
    completed_by: str
    proof: client.Scalar | None
    sig: str
    elo_stakes: Stakes
    operations: tuple[SignedProposal, SignedAccept, _SignedComplete]


_decode: Final = msgspec.json.Decoder(_Evidence).decode


def verify_receipt(body: bytes) -> list[str]:
    """What is wrong with a receipt; nothing, if it holds."""
    try:
        evidence = _decode(body)
        proposer, acceptor, completer = (PublicKey.from_pem(each.key) for each in evidence.operations)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return [f"not a receipt with its signed operations: {error}"]
    except InvalidKey as error:
        return [f"a public key cannot be read: {error}"]
    return [
        *_signature_problems(evidence, proposer, acceptor, completer),
        *_story_problems(evidence, proposer, acceptor, completer),
    ]


def _signature_problems(
    evidence: _Evidence, proposer: PublicKey, acceptor: PublicKey, completer: PublicKey
) -> list[str]:
    proposal, accept, complete = evidence.operations
    signed = {
        "PROPOSAL": proposer.verifies(signing.proposal_text(proposal), proposal.sig),
        "ACCEPT": acceptor.verifies(signing.accept_text(accept), accept.sig),
        "COMPLETE": completer.verifies(signing.complete_text(complete), complete.sig),
    }
    problems = [f"{kind}: its key did not sign these words" for kind, holds in signed.items() if not holds]
    if not signed["PROPOSAL"] and REDACTED in proposal.task:
        problems.append("PROPOSAL: the hall took a secret out of the task, so nobody can check the signature")
    return problems


def _story_problems(
    evidence: _Evidence, proposer: PublicKey, acceptor: PublicKey, completer: PublicKey
) -> list[str]:
    """Whether the message tells what the operations say."""
    proposal, accept, complete = evidence.operations
    stakes = Stakes(proposer=int(proposal.elo_stake or 0), acceptor=int(accept.elo_stake or 0))
    by = evidence.from_ if completer == proposer else evidence.to
    claims = {
        "the deal is not completed": evidence.status == "completed",
        "`from` is not the id of the proposer's key": is_id_of(evidence.from_, proposer),
        "`to` is not the id of the acceptor's key": is_id_of(evidence.to, acceptor),
        "the proposal was made to somebody else": proposal.to == evidence.to,
        "ACCEPT is about another deal": accept.proposal_id == evidence.proposal_id,
        "COMPLETE is about another deal": complete.proposal_id == evidence.proposal_id,
        "COMPLETE is by neither party": completer in (proposer, acceptor),
        "`completed_by` is not who signed COMPLETE": evidence.completed_by == by,
        "both parties are one": proposer != acceptor,
        "`elo_stakes` are not the stakes that were signed": evidence.elo_stakes == stakes,
        "`proof` is not the one that was signed": evidence.proof == complete.proof,
        "`sig` is not the signature of COMPLETE": evidence.sig == complete.sig,
    }
    return [problem for problem, holds in claims.items() if not holds]


def is_id_of(address: str, key: PublicKey) -> bool:
    return address in (f"@{key.agent_id(AGENT_ID_LENGTH)}", f"@{key.agent_id(FINGERPRINT_LENGTH)}")
