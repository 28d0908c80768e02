"""Validation: every negative of the vectors for its stated reason, the order of the rules, and a hostile sender."""

import re
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest
from benchmarks.hostile_envelopes import receive_hostile

from moothall.identity.signatures import verify
from moothall.wire.mesh.envelope import NO_RECIPIENT, Envelope, decode
from moothall.wire.mesh.faults import EnvelopeRefused, Fault, PayloadParseError
from moothall.wire.mesh.msg_types import BROADCAST_TOPIC, NAMED_TOPIC, NOTARY_TOPIC, REPUTATION_TOPIC, MsgType
from moothall.wire.mesh.nonces import ReplayGuard
from moothall.wire.mesh.validation import admit, prove, topic_of, validate
from tests.support.mesh import AGENTS, ENVELOPES, VECTORS, altered, vector_envelope, with_payload

PROPOSE: Final = vector_envelope("PROPOSE")
BEACON: Final = vector_envelope("BEACON")
BROADCAST: Final = vector_envelope("BROADCAST")


def fault_of(
    envelope: Envelope, *, topic: str | None = None, now: int | None = None, guard: ReplayGuard | None = None
) -> Fault | None:
    guard = guard or ReplayGuard()
    try:
        validate(envelope, topic=topic, verify=verify, guard=guard, now=now or envelope.timestamp)
    except EnvelopeRefused as refusal:
        return refusal.fault
    return None


@pytest.mark.parametrize("vector", VECTORS["envelopes"], ids=lambda vector: vector["name"])
def test_the_vectors_are_valid_where_they_belong_and_once(vector: dict[str, Any]) -> None:
    envelope = decode(bytes.fromhex(vector["envelope_cbor_hex"]))
    guard = ReplayGuard()
    assert topic_of(envelope) == vector["topic"]
    assert fault_of(envelope, topic=vector["topic"], guard=guard) is None
    assert fault_of(envelope, topic=vector["topic"], guard=guard) is Fault.NONCE_REPLAY


# The reference takes the last three; the specification says what ours do.
OURS = {
    "trailing byte after the array": Fault.CBOR_DECODE,
    "non-minimal nonce encoding": Fault.CBOR_DECODE,
    "BEACON key substitution: sender=A, payload verifying key=B, signed by B": Fault.INVALID_SIGNATURE,
}


@pytest.mark.parametrize("vector", VECTORS["negative"], ids=lambda vector: vector["name"])
def test_negatives_are_refused_for_their_stated_reason(vector: dict[str, Any]) -> None:
    stated = OURS.get(vector["name"]) or Fault(vector["expect"].split()[0])
    guard = ReplayGuard()
    with pytest.raises(EnvelopeRefused) as caught:
        receive(bytes.fromhex(vector["envelope_cbor_hex"]), guard)
    assert caught.value.fault is stated
    assert guard.windows == 0


def receive(data: bytes, guard: ReplayGuard) -> None:
    envelope = decode(data)
    validate(envelope, topic=topic_of(envelope), verify=verify, guard=guard, now=envelope.timestamp)


# -- the order of the rules ----------------------------------------------------------------------------

# Each breaks one rule. In the order of the specification; the two that are not signed anew are the signature's.
BREAKS: Final[dict[Fault, dict[str, Any]]] = {
    Fault.UNSUPPORTED_VERSION: {"version": 2},
    Fault.INVALID_SIGNATURE: {"sender": AGENTS["B"]},
    Fault.NONCE_REPLAY: {"nonce": 0},
    Fault.TIMESTAMP_OUT_OF_TOLERANCE: {"timestamp": PROPOSE.timestamp - 31_000_000},
    Fault.PAYLOAD_HASH_MISMATCH: {"payload_hash": bytes(32)},
    Fault.PAYLOAD_LENGTH_MISMATCH: {"payload_len": 1},
    Fault.WRONG_ROUTE: {"recipient": NO_RECIPIENT},
}


@pytest.mark.parametrize("first", range(len(BREAKS)), ids=[str(fault) for fault in BREAKS])
def test_the_first_rule_that_is_broken_is_the_fault(first: int) -> None:
    order = list(BREAKS)
    assert fault_of(altered(PROPOSE, **BREAKS[order[first]]), now=PROPOSE.timestamp) is order[first]
    all_after = {name: value for fault in order[first:] for name, value in BREAKS[fault].items()}
    assert fault_of(altered(PROPOSE, **all_after), now=PROPOSE.timestamp) is order[first]


@pytest.mark.parametrize("fault", BREAKS)
def test_a_refused_envelope_does_not_use_its_nonce(fault: Fault) -> None:
    guard = ReplayGuard()
    assert fault_of(altered(PROPOSE, **BREAKS[fault]), now=PROPOSE.timestamp, guard=guard) is fault
    assert fault_of(PROPOSE, guard=guard) is None


def test_both_halves_are_the_whole() -> None:
    """A gateway proves envelopes in one place and admits them in another."""
    guard = ReplayGuard()
    prove(PROPOSE, verify)
    admit(PROPOSE, topic=None, guard=guard, now=PROPOSE.timestamp)
    assert guard.is_replay(PROPOSE, PROPOSE.timestamp)


# -- what the reference does not check ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "payload",
    [
        AGENTS["A"] + AGENTS["B"] + b"name",
        AGENTS["B"] + AGENTS["A"] + b"name",
        AGENTS["B"] * 2,
        AGENTS["A"],
        b"",
    ],
)
def test_a_beacon_names_the_key_that_signed_it(payload: bytes) -> None:
    fault = fault_of(with_payload(BEACON, payload), topic=BROADCAST_TOPIC)
    assert fault is Fault.BEACON_KEY_MISMATCH


PLACES: Final = (None, BROADCAST_TOPIC, NOTARY_TOPIC, REPUTATION_TOPIC, "/0x01/v1/t/data:demo", "/other")


@pytest.mark.parametrize("topic", PLACES)
@pytest.mark.parametrize("name", ENVELOPES)
def test_a_type_belongs_in_one_place(name: str, topic: str | None) -> None:
    expected = None if topic == ENVELOPES[name]["topic"] else Fault.WRONG_ROUTE
    assert fault_of(vector_envelope(name), topic=topic) is expected


@pytest.mark.parametrize("name", ENVELOPES)
def test_a_recipient_is_there_if_and_only_if_it_is_bilateral(name: str) -> None:
    envelope, by = vector_envelope(name), ENVELOPES[name]["signer"]
    wrong = AGENTS["B"] if envelope.recipient == NO_RECIPIENT else NO_RECIPIENT
    fault = fault_of(altered(envelope, by, recipient=wrong), topic=ENVELOPES[name]["topic"])
    assert fault is Fault.WRONG_ROUTE


def test_a_broadcast_belongs_on_the_topic_that_it_names() -> None:
    assert fault_of(BROADCAST, topic=NAMED_TOPIC + "other") is Fault.WRONG_ROUTE


def test_a_broadcast_that_cannot_be_read_is_passed_on_where_it_is() -> None:
    """A payload never invalidates its envelope."""
    unreadable = with_payload(BROADCAST, b"unreadable")
    assert fault_of(unreadable, topic=NAMED_TOPIC + "any") is None
    assert fault_of(unreadable, topic=BROADCAST_TOPIC) is Fault.WRONG_ROUTE
    with pytest.raises(PayloadParseError):
        topic_of(unreadable)


@pytest.mark.parametrize("name", [name for name in ENVELOPES if name != "BEACON"])
def test_a_payload_that_does_not_parse_invalidates_no_envelope(name: str) -> None:
    envelope = with_payload(vector_envelope(name), b"\xff", ENVELOPES[name]["signer"])
    assert fault_of(envelope, topic=ENVELOPES[name]["topic"]) is None


def test_a_sender_with_a_key_of_small_order_signs_nothing() -> None:
    """Such a key would verify one signature for any message."""
    weak = bytes([1]) + bytes(31)
    envelope = altered(PROPOSE, sender=weak, msg_type=MsgType.REJECT)
    assert fault_of(envelope) is Fault.INVALID_SIGNATURE


def test_hostile_envelopes_are_refused_or_read() -> None:
    """Some of those that benchmarks/hostile_envelopes.py makes by the million."""
    ends = Counter(type(receive_hostile(number, 0)) for number in range(1500))
    assert ends.keys() == {Fault, PayloadParseError, type(None)}


def test_the_docs_have_every_fault_in_the_order_of_the_checks() -> None:
    page = (Path(__file__).parents[3] / "docs" / "wire-mesh.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \|", page.partition("## Checks")[2].partition("\n## ")[0], re.MULTILINE)
    assert rows == [str(fault) for fault in Fault]
