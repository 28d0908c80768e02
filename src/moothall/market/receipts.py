"""Receipts: proof of a completed deal.

A receipt is the COMPLETE message that both parties got, and beside it `stored_at`, `created_at`, `terms` and
`capability` if there are any; `operations`: the PROPOSAL, ACCEPT and COMPLETE that were signed, each with its
signer's public key; and the hall's signature over all of it (`identity.seals`). An operation that was signed on
another wire has `signed`: the bytes that its signature covers, in base64.

The parties' signatures prove what each of them signed, and no more. The text of a PROPOSAL does not name the deal's
id (agentchat wire 8), so it is the hall's word that this PROPOSAL was accepted. So is everything that has no place
in a signed text: ratings, times, terms, capability. Older receipts have no hall signature, and prove none of that.
"""

from binascii import Error as NotBase64
from binascii import a2b_base64, b2a_base64
from collections.abc import Collection
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from moothall.errors import InvalidKey
from moothall.identity import PublicKey
from moothall.identity.keys import AGENT_ID_LENGTH, FINGERPRINT_LENGTH
from moothall.identity.seals import HALL_SIG, RECEIPT, Seal, key_id
from moothall.identity.signatures import decode_signature, verify
from moothall.market.agentchat import completion
from moothall.market.news import Completed
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


def build_receipt(news: Completed, now: int, seal: Seal) -> Receipt:
    """`news` is what the parties are told."""
    deal = news.deal
    body = encode_plain(
        _Body(
            **completion(news),
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
    """True if its receipt is canonical as it is encoded."""
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
            "key": pem_of(completer),
            "proposal_id": deal.id,
            "proof": deal.completion_proof,
            "sig": deal.completion_sig,
            **_signed(deal, "COMPLETE"),
        },
    ]


def signed_offer(deal: Proposal) -> list[dict[str, Any]]:
    """The PROPOSAL and the ACCEPT behind a deal, as they were signed, with their signers' keys."""
    return [
        {
            "type": "PROPOSAL",
            "key": pem_of(deal.proposer),
            "to": deal.to,
            "task": deal.task,
            "amount": deal.amount,
            "currency": deal.currency,
            "payment_code": deal.payment_code,
            **({} if deal.expires_asked is None else {"expires": deal.expires_asked}),
            "elo_stake": deal.proposer_stake,
            "sig": deal.sig,
            **_signed(deal, "PROPOSAL"),
        },
        {
            "type": "ACCEPT",
            "key": pem_of(deal.recipient),
            "proposal_id": deal.id,
            "payment_code": deal.response_payment_code,
            "elo_stake": deal.acceptor_stake,
            "sig": deal.response_sig,
            **_signed(deal, "ACCEPT"),
        },
    ]


def _signed(deal: Proposal, operation: str) -> dict[str, str]:
    text = None if deal.signed_texts is UNSET else deal.signed_texts.get(operation)
    return {} if text is None else {"signed": b2a_base64(text, newline=False).decode()}


@lru_cache(maxsize=KEYS_AT_HAND)
def pem_of(key: bytes) -> str:
    return PublicKey(key).pem


# -- checking one --------------------------------------------------------------------------------------


class SignedProposal(client.Proposal, tag="PROPOSAL", kw_only=True):
    key: str
    signed: str | UnsetType = UNSET


class SignedAccept(client.Accept, tag="ACCEPT", kw_only=True):
    key: str
    signed: str | UnsetType = UNSET


class _SignedComplete(client.Complete, tag="COMPLETE", kw_only=True):
    key: str
    signed: str | UnsetType = UNSET


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
    check_accept(proof, "operations[1].sig", acceptor, accept, f"{evidence.to} signed the ACCEPT")
    _check_step(
        proof,
        "operations[2].sig",
        completer,
        complete,
        signing.complete_text(complete),
        f"{evidence.completed_by} signed the COMPLETE",
    )


def check_offer(proof: Proof, where: str, key: PublicKey, proposal: SignedProposal, sentence: str) -> None:
    """The signature under a PROPOSAL. If the hall took a secret out of the task, only the hall can vouch for it."""
    text = signing.proposal_text(proposal)
    is_redacted = proposal.signed is UNSET and REDACTED in proposal.task
    if is_redacted and not key.verifies(text, proposal.sig):
        proof.hall_word.append(
            f"That {sentence}: the hall took a secret out of its task, so the signature cannot be checked."
        )
    else:
        _check_step(proof, where, key, proposal, text, sentence)


def check_accept(proof: Proof, where: str, key: PublicKey, accept: SignedAccept, sentence: str) -> None:
    _check_step(proof, where, key, accept, signing.accept_text(accept), sentence)


def _check_step(
    proof: Proof,
    where: str,
    key: PublicKey,
    step: SignedProposal | SignedAccept | _SignedComplete,
    text: str,
    sentence: str,
) -> None:
    """The signature under one operation: of `text`, or of the bytes that came by another wire."""
    kind = str(step.__struct_config__.tag)
    if step.signed is UNSET:
        proof.signed(where, kind, key, text, step.sig, sentence)
    elif not _holds(key, step.signed, step.sig):
        proof.claim(where, False, sentence)
    else:
        proof.steps.append(kind)
        proof.proven.append(f"{sentence}, as bytes of another wire (key {key_id(key)}).")
        proof.hall_word.append(f"That those bytes say what the fields of the {kind} say.")


def _holds(key: PublicKey, signed: str, sig: str) -> bool:
    """True if the key signed these bytes; both in base64."""
    try:
        data = a2b_base64(signed, strict_mode=True)
    except (NotBase64, ValueError):
        return False
    signature = decode_signature(sig)
    return signature is not None and verify(key.raw, data, signature)


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
