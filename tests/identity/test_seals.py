"""The hall's signature is over the whole record, and good for nothing else."""

import json
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.errors import InvalidKey
from moothall.identity import PrivateKey
from moothall.identity.seals import (
    CASE,
    RECEIPT,
    Kind,
    NoSeal,
    key_id,
    read_hall,
    seal_text,
    sealed_by,
)
from moothall.wire.agentchat import client, signing
from moothall.wire.canonical import canonical_json
from moothall.wire.keep.codec import MalformedPacket, decode
from tests.support.seals import HALL, HALL_ID, SEAL

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=90)
digests = st.binary(min_size=32, max_size=32).map(bytes.hex)


def sealed(record: dict[str, Any], kind: Kind = RECEIPT) -> dict[str, Any]:
    named = {**record, "hall_key": SEAL.hall_key}
    return {**named, "hall_sig": SEAL.sign(kind, canonical_json(named))}


def test_the_signed_text() -> None:
    digest = sha256(b'{"a":1}').hexdigest()
    assert seal_text(RECEIPT, b'{"a":1}') == f"MOOTHALL_RECEIPT|1|{digest}"
    assert seal_text(CASE, b'{"a":1}') == f"MOOTHALL_COURT_CASE|1|{digest}"
    assert HALL.public.verifies(f"MOOTHALL_RECEIPT|1|{digest}", SEAL.sign(RECEIPT, b'{"a":1}'))


def test_a_record_names_the_hall_that_signed_it() -> None:
    record = sealed({"b": [1.0, {"c": None}], "a": "ü"})
    assert sealed_by(RECEIPT, record) == HALL.public
    assert sealed_by(RECEIPT, json.loads(json.dumps(record, indent=2, sort_keys=True))) == HALL.public


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"a": 2}, "does not fit"),
        ({"c": None}, "does not fit"),
        ({"hall_key": PrivateKey(bytes(32)).public.raw.hex()}, "does not fit"),
        ({"hall_sig": "A" * 88}, "does not fit"),
        ({"hall_sig": None}, "no hall signature"),
        ({"hall_key": None}, "no hall signature"),
        ({"hall_sig": 5}, "not a text"),
        ({"hall_key": "a key"}, "64 lower-case hex digits"),
        ({"hall_key": SEAL.hall_key.upper()}, "64 lower-case hex digits"),
        ({"hall_key": HALL.public.pem}, "64 lower-case hex digits"),
        ({"a": "\ud800"}, "cannot be checked"),
    ],
)
def test_whatever_was_changed_is_not_vouched_for(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(NoSeal, match=reason):
        sealed_by(RECEIPT, {**sealed({"a": 1}), **change})


def test_a_receipt_is_not_a_case() -> None:
    with pytest.raises(NoSeal):
        sealed_by(CASE, sealed({"a": 1}, RECEIPT))


# -- good for nothing else -------------------------------------------------------------------------------


@given(st.sampled_from([RECEIPT, CASE]), digests)
def test_no_keep_packet_has_these_bytes(kind: Kind, digest: str) -> None:
    """The hall signs packets with the same key. Their fields begin with tags, and here these are malformed."""
    with pytest.raises(MalformedPacket):
        decode(f"{kind}|1|{digest}".encode())


@given(st.sampled_from([RECEIPT, CASE]), texts, texts, texts)
def test_no_agent_can_be_made_to_sign_such_a_text(kind: Kind, one: str, two: str, three: str) -> None:
    """Whatever its fields are, even with bars in them."""
    scalar = f"{one}|{two}"
    signed = (
        signing.proposal_text(client.Proposal(to=f"@{one}", task=two or "t", amount=three, sig="s")),
        signing.proposal_text(client.Proposal(to=kind, task=f"1|{two}", amount=three, sig="s")),
        signing.accept_text(client.Accept(proposal_id=scalar, payment_code=three, sig="s")),
        signing.complete_text(client.Complete(proposal_id=scalar, proof=three, sig="s")),
        signing.dispute_text(client.Dispute(proposal_id=scalar, reason=three, sig="s")),
        signing.auth_text(one, scalar, 5),
        signing.message_text(one, two, 5),
    )
    for text in signed:
        assert not (text.startswith((f"{RECEIPT}|", f"{CASE}|")) and text.count("|") == 2)
    assert not signing.is_peer_nonce(f"{kind}|1|{'0' * 64}")


# -- how users name a hall -------------------------------------------------------------------------------


def test_a_key_id_is_the_beginning_of_the_hash_that_ids_begin() -> None:
    assert sha256(HALL.public.pem.encode()).hexdigest()[:32] == HALL_ID
    assert HALL_ID.startswith(HALL.public.fingerprint)


def base64(raw: bytes) -> str:
    from base64 import b64encode

    return b64encode(raw).decode()


@pytest.mark.parametrize(
    "text",
    [
        HALL.public.pem,
        f"the hall:\n{HALL.public.pem}",
        HALL.public.raw.hex(),
        HALL.public.raw.hex().upper(),
        base64(HALL.public.raw),
        base64(HALL.public.raw).rstrip("="),
        HALL_ID,
        f" {HALL_ID.upper()}\n",
    ],
)
def test_a_hall_has_many_names(text: str) -> None:
    assert read_hall(text) == HALL_ID


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hall",
        HALL.public.fingerprint,
        HALL_ID[:31],
        HALL_ID + "0",
        HALL.to_pem(),
        "é" * 43,
        "A" * 42 + "-",
    ],
)
def test_what_is_too_short_or_no_key_is_refused(text: str) -> None:
    with pytest.raises(InvalidKey) as refused:
        read_hall(text)
    assert "BEGIN" not in str(refused.value) or "PUBLIC" in str(refused.value)


@given(st.binary(min_size=32, max_size=32))
def test_a_key_is_a_key_however_it_is_written(seed: bytes) -> None:
    key = PrivateKey(seed).public
    assert {read_hall(key.pem), read_hall(key.raw.hex()), read_hall(base64(key.raw))} == {key_id(key)}
