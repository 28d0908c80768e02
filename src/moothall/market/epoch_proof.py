"""Proofs that an envelope is in the mesh's log: made from the log, checked without any hall (mesh wire 12).

The hall signs a record of each epoch when it has ended: its number, how many envelopes it had, and the root of its
Merkle tree. A proof has an envelope, the way from its leaf to the root, and that record. For an epoch that has not
ended, the hall signs what there is so far: `closed` is false.

    {"type": "mesh_proof", "envelope": base64, "hash", "leaf", "index", "siblings": [...],
     "epoch": {"epoch", "envelopes", "root", "closed", "at", "hall_key", "hall_sig"}}

Hashes are in hex. The sender's signature proves what the sender said. The tree proves that the envelope belongs to
the record. The rest is the word of the hall that signed the record.
"""

from binascii import Error as NotBase64
from binascii import a2b_base64, b2a_base64
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from moothall.identity import PublicKey
from moothall.identity.seals import HALL_SIG, MESH_EPOCH, Seal, key_id
from moothall.identity.signatures import verify
from moothall.market.proof import Proof
from moothall.wire.canonical import canonical_json, read_json
from moothall.wire.mesh import merkle
from moothall.wire.mesh.envelope import MICROSECONDS, NO_RECIPIENT, Envelope, decode
from moothall.wire.mesh.epochs import EPOCH_SECONDS
from moothall.wire.mesh.faults import EnvelopeRefused
from moothall.wire.mesh.keccak import keccak256
from moothall.wire.mesh.validation import prove as check_signature

MAX_DEPTH: Final = 64  # siblings

_Hash = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
_Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]

_FIRST_DAY: Final = datetime(1970, 1, 1, tzinfo=UTC)


def sealed_epoch(
    epoch: int, envelopes: int, root: bytes, *, is_closed: bool, at: int, seal: Seal
) -> dict[str, Any]:
    """What the hall vouches for. `at` is the time of signing, in ms."""
    record: dict[str, Any] = {
        "epoch": epoch,
        "envelopes": envelopes,
        "root": root.hex(),
        "closed": is_closed,
        "at": at,
        "hall_key": seal.hall_key,
    }
    return {**record, HALL_SIG: seal.sign(MESH_EPOCH, canonical_json(record))}


def proof_of(raw: bytes, index: int, siblings: Sequence[bytes], record: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "mesh_proof",
        "envelope": b2a_base64(raw, newline=False).decode(),
        "hash": keccak256(raw).hex(),
        "leaf": merkle.leaf(raw).hex(),
        "index": index,
        "siblings": [each.hex() for each in siblings],
        "epoch": record,
    }


class _Epoch(Struct, kw_only=True):
    epoch: _Number
    envelopes: _Number
    root: _Hash
    closed: bool


class _Claimed(Struct, kw_only=True):
    type: Literal["mesh_proof"]
    envelope: str
    hash: _Hash
    leaf: _Hash
    index: _Number
    siblings: Annotated[list[_Hash], Meta(max_length=MAX_DEPTH)]
    epoch: _Epoch


def verify_proof(body: bytes, halls: Collection[str] = ()) -> Proof:
    """Check a proof. `halls` are the key ids of halls whose word counts (`identity.seals.key_id`)."""
    proof = Proof()
    try:
        record = read_json(body)
        claimed = msgspec.convert(record, _Claimed)
        raw = a2b_base64(claimed.envelope, strict_mode=True)
        envelope = decode(raw)
    except (msgspec.ValidationError, NotBase64, ValueError, RecursionError, EnvelopeRefused) as error:
        proof.contradictions.append(f"This is not a proof with its envelope: {error}.")
        return proof
    _check_envelope(proof, envelope)
    _check_place(proof, claimed, raw)
    _say_what_rests_on_the_hall(proof, claimed.epoch)
    proof.vouch(MESH_EPOCH, record["epoch"], halls)
    return proof


def _check_envelope(proof: Proof, envelope: Envelope) -> None:
    kind, sender = envelope.msg_type.name, PublicKey(envelope.sender)
    try:
        check_signature(envelope, verify)
    except EnvelopeRefused as refused:
        proof.contradictions.append(f"`envelope`: {refused}.")
        return
    to = "" if envelope.recipient == NO_RECIPIENT else f" to {envelope.recipient.hex()}"
    moment = _FIRST_DAY + timedelta(seconds=min(envelope.timestamp // MICROSECONDS, 10**11))
    proof.steps.append(kind)
    proof.proven.append(
        f"{envelope.sender.hex()} signed this {kind}{to} in conversation {envelope.conversation_id.hex()}, with"
        f" nonce {envelope.nonce} and the time {moment:%Y-%m-%d %H:%M:%S} UTC (key {key_id(sender)})."
    )
    proof.claim(
        "envelope",
        keccak256(envelope.payload) == envelope.payload_hash
        and len(envelope.payload) == envelope.payload_len,
        f"Its payload of {len(envelope.payload)} bytes is the one that it names",
    )


def _check_place(proof: Proof, claimed: _Claimed, raw: bytes) -> None:
    epoch = claimed.epoch
    proof.claim("hash", keccak256(raw).hex() == claimed.hash, "The hash is that of the envelope")
    proof.claim("leaf", merkle.leaf(raw).hex() == claimed.leaf, "The leaf is that of the envelope")
    fits = claimed.index < epoch.envelopes and len(claimed.siblings) == merkle.depth(epoch.envelopes)
    proof.claim(
        "index", fits, f"There is an envelope {claimed.index} among the {epoch.envelopes} of the epoch"
    )
    siblings = [bytes.fromhex(each) for each in claimed.siblings]
    proof.claim(
        "siblings",
        merkle.is_proven(raw, claimed.index, siblings, bytes.fromhex(epoch.root)),
        f"The envelope is number {claimed.index} under the root of epoch {epoch.epoch}",
    )


def _say_what_rests_on_the_hall(proof: Proof, epoch: _Epoch) -> None:
    day = _FIRST_DAY + timedelta(seconds=min(epoch.epoch * EPOCH_SECONDS, 10**11))
    proof.hall_word += [
        f"That the envelope arrived on {day:%Y-%m-%d}: the sender signed its own time only.",
        "That the log has all envelopes that arrived, in their order.",
    ]
    if epoch.closed:
        proof.hall_word.append("That it signed no other root for this epoch: compare it with others' proofs.")
    else:
        proof.hall_word.append(
            "Which root the epoch will have: it had not ended. Ask for the proof again when it has."
        )
