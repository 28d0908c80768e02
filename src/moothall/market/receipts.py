"""Receipts: proof of a completed deal.

A receipt is the COMPLETE message that both parties got, and beside it `stored_at`, `created_at`, `terms` and
`capability` if there are any; `operations`: the PROPOSAL, ACCEPT and COMPLETE that were signed, each with its
signer's public key; and the hall's signature over all of it (`identity.seals`).

The parties' signatures prove what each of them signed, and no more. The text of a PROPOSAL does not name the deal's
id (agentchat wire 8), so it is the hall's word that this PROPOSAL was accepted. So is everything that has no place
in a signed text: ratings, times, terms, capability. Older receipts have no hall signature, and prove none of that.
"""

from collections.abc import Collection
from functools import lru_cache
from typing import Any, Final

import msgspec

from moothall.errors import InvalidKey
from moothall.identity import PublicKey
from moothall.identity.keys import AGENT_ID_LENGTH, FINGERPRINT_LENGTH
from moothall.identity.seals import HALL_SIG, RECEIPT, Seal
from moothall.market.proof import Proof
from moothall.market.records import Proposal, Receipt
from moothall.wire.agentchat import client, signing
from moothall.wire.agentchat.market import CompleteNotice, Stakes
from moothall.wire.canonical import canonical_json, encode_plain, is_plain, read_json

KEYS_AT_HAND: Final = 4096  # whose PEM texts need not be written again
REDACTED: Final = "[REDACTED:"  # what stands where a secret stood (agentchat wire 9.6)


class _Body(CompleteNotice, tag="COMPLETE", kw_only=True):
    """What the hall signs."""

    stored_at: int
    created_at: int
    terms: Any = None
    capability: str | None = None
    operations: list[dict[str, Any]]
    hall_key: str


def build_receipt(deal: Proposal, message: CompleteNotice, now: int, seal: Seal) -> Receipt:
    """`deal` is completed; `message` is what its parties are told."""
    body = encode_plain(
        _Body(
            ts=message.ts,
            proposal_id=message.proposal_id,
            status=message.status,
            updated_at=message.updated_at,
            from_=message.from_,
            to=message.to,
            completed_by=message.completed_by,
            completed_at=message.completed_at,
            proof=message.proof,
            sig=message.sig,
            elo_stakes=message.elo_stakes,
            rating_changes=message.rating_changes,
            stored_at=now,
            created_at=deal.created_at,
            terms=deal.terms,
            capability=deal.capability,
            operations=_operations(deal),
            hall_key=seal.hall_key,
        )
    )
    canonical = body if _is_plain(deal) else canonical_json(msgspec.json.decode(body))
    sig = seal.sign(RECEIPT, canonical)
    # The body is a JSON object and base64 needs no escapes, so that adding a member needs no second look at it.
    return Receipt(proposal_id=deal.id, at=now, body=b'%b,"%b":"%b"}' % (body[:-1], _SIG_NAME, sig.encode()))


_SIG_NAME: Final = HALL_SIG.encode()


def _is_plain(deal: Proposal) -> bool:
    """Whether its receipt is canonical as it is encoded."""
    return (
        is_plain(deal.amount)
        and is_plain(deal.currency)
        and is_plain(deal.payment_code)
        and is_plain(deal.expires_asked)
        and is_plain(deal.response_payment_code)
        and is_plain(deal.completion_proof)
        and is_plain(deal.terms)
    )


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


HALL_WORD: Final = (
    "That this PROPOSAL is the one that was accepted under this id: its signature does not name the id.",
    "Times, ratings, terms and capability; whether a signed value was a number or a text, null or zero.",
)


def verify_receipt(body: bytes, halls: Collection[str] = ()) -> Proof:
    """Check a receipt. `halls` are the key ids of halls whose word counts (`identity.seals.key_id`)."""
    proof = Proof()
    try:
        record = read_json(body)
        evidence = msgspec.convert(record, _Evidence)
        keys = [PublicKey.from_pem(each.key) for each in evidence.operations]
    except (msgspec.ValidationError, ValueError, RecursionError) as error:
        proof.contradictions.append(f"This is not a receipt with its signed operations: {error}.")
    except InvalidKey as error:
        proof.contradictions.append(f"A public key cannot be read: {error}.")
    else:
        _check_signatures(proof, evidence, *keys)
        _check_story(proof, evidence, *keys)
        proof.hall_word += HALL_WORD
        proof.vouch(RECEIPT, record, halls)
    return proof


def _check_signatures(
    proof: Proof, evidence: _Evidence, proposer: PublicKey, acceptor: PublicKey, completer: PublicKey
) -> None:
    proposal, accept, complete = evidence.operations
    check_offer(proof, "operations[0].sig", proposer, proposal, f"{evidence.from_} signed the PROPOSAL")
    proof.signed(
        "operations[1].sig",
        "ACCEPT",
        acceptor,
        signing.accept_text(accept),
        accept.sig,
        f"{evidence.to} signed the ACCEPT",
    )
    proof.signed(
        "operations[2].sig",
        "COMPLETE",
        completer,
        signing.complete_text(complete),
        complete.sig,
        f"{evidence.completed_by} signed the COMPLETE",
    )


def check_offer(proof: Proof, where: str, key: PublicKey, proposal: SignedProposal, sentence: str) -> None:
    """The signature under a PROPOSAL. If the hall took a secret out of the task, only the hall can vouch for it."""
    text = signing.proposal_text(proposal)
    if REDACTED in proposal.task and not key.verifies(text, proposal.sig):
        proof.hall_word.append(
            f"That {sentence}: the hall took a secret out of its task, so the signature cannot be checked."
        )
    else:
        proof.signed(where, "PROPOSAL", key, text, proposal.sig, sentence)


def _check_story(
    proof: Proof, evidence: _Evidence, proposer: PublicKey, acceptor: PublicKey, completer: PublicKey
) -> None:
    """Whether the message tells what the operations say. An agent is its key; ids are for display."""
    proposal, accept, complete = evidence.operations
    stakes = Stakes(proposer=int(proposal.elo_stake or 0), acceptor=int(accept.elo_stake or 0))
    by = evidence.from_ if completer == proposer else evidence.to
    claims = (
        ("status", evidence.status == "completed", "The deal is completed"),
        ("from", is_id_of(evidence.from_, proposer), "`from` is the id of the proposer's key"),
        ("to", is_id_of(evidence.to, acceptor), "`to` is the id of the acceptor's key"),
        ("operations[0].to", proposal.to == evidence.to, "The PROPOSAL was made to the acceptor"),
        (
            "operations[1].proposal_id",
            accept.proposal_id == evidence.proposal_id,
            "The ACCEPT names this deal",
        ),
        (
            "operations[2].proposal_id",
            complete.proposal_id == evidence.proposal_id,
            "The COMPLETE names this deal",
        ),
        ("operations[2].key", completer in (proposer, acceptor), "The COMPLETE is by a party"),
        ("completed_by", evidence.completed_by == by, "`completed_by` signed the COMPLETE"),
        (
            "operations",
            proposer != acceptor and evidence.from_ != evidence.to,
            "The parties are two agents with two ids",
        ),
        ("elo_stakes", evidence.elo_stakes == stakes, "`elo_stakes` are the stakes that were signed"),
        ("proof", evidence.proof == complete.proof, "`proof` is the one that was signed"),
        ("sig", evidence.sig == complete.sig, "`sig` is the signature of the COMPLETE"),
    )
    for where, holds, sentence in claims:
        proof.claim(where, holds, sentence)


def is_id_of(address: str, key: PublicKey) -> bool:
    return address in (f"@{key.agent_id(AGENT_ID_LENGTH)}", f"@{key.agent_id(FINGERPRINT_LENGTH)}")
