"""The texts that are signed, as in the vectors (agentchat wire 8)."""

import json
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.identity import PrivateKey
from moothall.wire.agentchat import client, signing
from moothall.wire.keep import codec
from moothall.wire.keep.packet import Packet
from tests.identity.vectors import SEEDS, VECTORS


def message(kind: type[client.ClientMessage], fields: dict[str, Any]) -> Any:
    """A message as it comes out of the decoder."""
    payload = msgspec.json.encode({"type": kind.__struct_config__.tag, "sig": "s", **fields})
    return msgspec.json.decode(payload, type=kind)


def assert_signed(text: str, vector: dict[str, Any]) -> None:
    """The text is the vector's, and the vector's signer signs it with the vector's signature."""
    assert text == vector["signing_text"]
    key = PrivateKey(SEEDS[vector["signer"]])
    signature = vector.get("sig") or vector["signature"]
    assert key.sign(text) == signature
    assert key.public.verifies(text, signature)


def test_auth() -> None:
    vector = VECTORS["auth"]
    challenge = vector["challenge"]
    text = signing.auth_text(challenge["nonce"], challenge["challenge_id"], vector["timestamp"])
    assert_signed(text, vector)
    frame = message(client.VerifyIdentity, vector["verify_identity_frame"])
    assert (frame.challenge_id, frame.signature) == (challenge["challenge_id"], vector["signature"])
    assert signing.auth_text(challenge["nonce"], frame.challenge_id, frame.timestamp) == text


@pytest.mark.parametrize(
    ("timestamp", "written"), [(1.0, "1"), (1e21, "1e+21"), (0.5, "0.5"), (2**53 + 1, "9007199254740992")]
)
def test_auth_writes_numbers_as_javascript_does(timestamp: float, written: str) -> None:
    assert signing.auth_text("n", "c", timestamp) == f"AGENTCHAT_AUTH|n|c|{written}"


def test_the_nonce_of_a_challenge_that_names_its_hall() -> None:
    assert (
        signing.bound_nonce("ab", "cd", "hall.example.org")
        == (sha256(b"ab|cd|hall.example.org").hexdigest()[:32])
    )
    assert signing.bound_nonce("ab", "cd", "\ud800") == signing.bound_nonce("ab", "cd", "\ufffd")


@given(st.integers(1, 2**44))
def test_the_time_of_a_proof_tells_whether_the_challenge_named_its_hall(now: int) -> None:
    marked = signing.unbound_time(now)
    assert signing.is_unbound_time(marked)
    assert not signing.is_unbound_time(now)
    assert not signing.is_unbound_time(now + 0.5)
    assert int(marked) == now
    as_sent = json.loads(json.dumps(marked))
    assert signing.auth_text("n", "c", as_sent) == signing.auth_text("n", "c", marked)
    assert signing.is_unbound_time(as_sent)


def test_msg_signature() -> None:
    vector = VECTORS["msg_signature"]
    assert_signed(signing.message_text(vector["to"], vector["content"], vector["ts"]), vector)


def test_peer_verification_signs_the_nonce_itself() -> None:
    vector = VECTORS["peer_verification"]
    assert_signed(vector["nonce"], vector)
    assert signing.is_peer_nonce(vector["nonce"])


# -- a nonce that a peer chose is not a message of any other kind ------------------------------------------

NONCES = st.from_regex(r"\A[0-9a-f]{32}\Z")


@given(NONCES)
def test_a_peer_nonce_is_not_a_text_of_this_wire(nonce: str) -> None:
    """All joined texts have at least one `|`; MSG, rotations and revocations are JSON objects."""
    assert signing.is_peer_nonce(nonce)
    assert "|" not in nonce
    assert not nonce.startswith("{")


@given(NONCES)
def test_a_peer_nonce_is_not_the_signing_bytes_of_a_keep_packet(nonce: str) -> None:
    try:
        found = codec.decode(nonce.encode())
    except codec.MalformedPacket:
        return
    assert codec.signing_bytes(found) != nonce.encode()


def test_a_longer_text_of_hex_digits_can_be_a_keep_packet() -> None:
    """The tag of `dst` is the digit 2, and its length is a hex digit from 48 on."""
    longer = "20" + "0123456789abcdef" * 3
    assert codec.signing_bytes(Packet(dst=longer[2:])) == longer.encode()
    assert not signing.is_peer_nonce(longer)


@given(st.text("0123456789abcdef", min_size=16, max_size=49))
def test_no_text_of_hex_digits_shorter_than_50_is_a_keep_packet(text: str) -> None:
    try:
        found = codec.decode(text.encode())
    except codec.MalformedPacket:
        return
    assert codec.signing_bytes(found) != text.encode()


def test_a_peer_nonce_is_shorter_than_the_signing_bytes_of_any_mesh_envelope() -> None:
    """Mesh wire 2.2: 143 bytes before the payload, and the first is the version, 1."""
    smallest = 1 + 2 + 32 + 32 + 8 + 8 + 8 + 16 + 32 + 4
    assert not any(signing.is_peer_nonce("0" * length) for length in range(smallest, smallest + 64))
    assert not signing.is_peer_nonce("\x01" + "0" * 31)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0" * 16,
        "0" * 31,
        "0" * 33,
        "0" * 64,
        "A" * 32,
        "0" * 32 + "\n",
        "\N{FULLWIDTH DIGIT ZERO}" * 32,
        "ACCEPT|prop_m0abcdf2_deadbeef||10",
        '{"to":"@b8de75d1","content":"hi"}',
    ],
)
def test_any_other_form_is_not_signed(text: str) -> None:
    assert not signing.is_peer_nonce(text)


@pytest.mark.parametrize("vector", VECTORS["proposals"], ids=lambda vector: vector["label"])
def test_proposals(vector: dict[str, Any]) -> None:
    text = signing.proposal_text(message(client.Proposal, vector["fields"]))
    assert_signed(text, vector)
    assert text.count("|") >= 6


RESPONSES: dict[str, tuple[type[client.ClientMessage], Callable[[Any], str]]] = {
    "ACCEPT": (client.Accept, signing.accept_text),
    "REJECT": (client.Reject, signing.reject_text),
    "COMPLETE": (client.Complete, signing.complete_text),
    "DISPUTE": (client.Dispute, signing.dispute_text),
}


@pytest.mark.parametrize("vector", VECTORS["proposal_responses"], ids=lambda vector: vector["label"])
def test_proposal_responses(vector: dict[str, Any]) -> None:
    kind, text_of = RESPONSES[vector["type"]]
    assert_signed(text_of(message(kind, vector["fields"])), vector)


def test_register_skills() -> None:
    vector = VECTORS["register_skills"]
    text = signing.skills_text(message(client.RegisterSkills, {"skills": vector["skills"]}))
    assert text == f"REGISTER_SKILLS|{vector['skills_sha256']}"
    assert_signed(text, vector)


def test_register_skills_hashes_the_parsed_value_not_the_senders_spelling() -> None:
    vector = VECTORS["register_skills"]
    spelled = msgspec.json.format(msgspec.json.encode(vector["skills"])).replace(b'"rate": 5', b'"rate": 5.0')
    payload = b'{"type":"REGISTER_SKILLS","sig":"s","skills":' + spelled + b"}"
    decoded = msgspec.json.decode(payload, type=client.RegisterSkills)
    assert signing.skills_text(decoded) == vector["signing_text"]


def test_court_evidence() -> None:
    vector = VECTORS["court_evidence"]
    fields = {"dispute_id": vector["dispute_id"], "items": vector["items"], "statement": "not covered"}
    text = signing.evidence_text(message(client.Evidence, fields))
    assert text.endswith(vector["items_sha256"])
    assert_signed(text, vector)


COURT: dict[str, tuple[type[client.ClientMessage], Callable[[Any], str], tuple[str, ...]]] = {
    "DISPUTE_INTENT": (
        client.DisputeIntent,
        signing.dispute_intent_text,
        ("proposal_id", "reason", "commitment"),
    ),
    "DISPUTE_REVEAL": (client.DisputeReveal, signing.dispute_reveal_text, ("proposal_id", "nonce")),
    "ARBITER_ACCEPT": (client.ArbiterAccept, signing.arbiter_accept_text, ("dispute_id",)),
    "ARBITER_DECLINE": (client.ArbiterDecline, signing.arbiter_decline_text, ("dispute_id", "reason")),
    "ARBITER_VOTE": (client.ArbiterVote, signing.vote_text, ("dispute_id", "verdict")),
}


@pytest.mark.parametrize("vector", VECTORS["court_signatures"], ids=lambda vector: vector["label"])
def test_court_signatures(vector: dict[str, Any]) -> None:
    kind, text_of, names = COURT[vector["label"].split()[0]]
    values = vector["signing_text"].split("|")[1:]
    fields: dict[str, Any] = dict(zip(names, values, strict=True))
    if kind is client.ArbiterVote:
        fields["reasoning"] = "not covered"
    assert_signed(text_of(message(kind, fields)), vector)


@pytest.mark.parametrize("reason", [None, "", 0, False])
def test_what_javascript_finds_falsy_contributes_nothing(reason: object) -> None:
    """Agentchat wire 2.7."""
    fields = {"proposal_id": "p", "reason": reason}
    assert signing.reject_text(message(client.Reject, fields)) == "REJECT|p|"


def test_half_a_character_can_be_signed() -> None:
    skills = [{"capability": "\ud800"}]
    decoded = msgspec.convert(
        {"type": "REGISTER_SKILLS", "skills": skills, "sig": "s"}, client.RegisterSkills
    )
    key = PrivateKey(SEEDS["alice"])
    text = signing.skills_text(decoded)
    assert key.public.verifies(text, key.sign(text))
