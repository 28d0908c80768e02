"""The envelope: every vector byte for byte, and no second form of any."""

import random
from typing import Any

import cbor2
import pytest
from benchmarks.hostile_envelopes import changed_bytes
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from moothall.identity.signatures import verify
from moothall.wire.mesh.envelope import (
    MAX_ENVELOPE,
    MAX_PUBLISHED,
    MICROSECONDS,
    NO_CONVERSATION,
    NO_RECIPIENT,
    Envelope,
    _decode,
    _decode_usual,
    decode,
    encode,
    is_beacon,
    is_offer,
    read_signing_bytes,
    seal,
    sender_of,
    signing_bytes,
)
from moothall.wire.mesh.faults import EnvelopeRefused, Fault
from moothall.wire.mesh.keccak import keccak256
from moothall.wire.mesh.msg_types import BILATERAL, MsgType
from tests.support.mesh import AGENTS, ENVELOPES, VECTORS, signer, vector_envelope

UINT64 = st.integers(0, (1 << 64) - 1) | st.integers(0, 300) | st.integers(1 << 32, (1 << 32) + 9)
NOW = 1_767_225_600_123_456

envelopes = st.builds(
    Envelope,
    version=st.integers(0, 255),
    msg_type=st.sampled_from(MsgType),
    sender=st.binary(min_size=32, max_size=32),
    recipient=st.binary(min_size=32, max_size=32),
    timestamp=UINT64,
    block_ref=UINT64,
    nonce=UINT64,
    conversation_id=st.binary(min_size=16, max_size=16),
    payload_hash=st.binary(min_size=32, max_size=32),
    payload_len=st.integers(0, (1 << 32) - 1),
    payload=st.binary(max_size=300),
    signature=st.binary(min_size=64, max_size=64),
)
# As senders make them: times, and the true length.
usual_envelopes = st.builds(
    lambda envelope, time, nonce: structs.replace(
        envelope,
        version=1,
        timestamp=time,
        block_ref=time // MICROSECONDS,
        nonce=nonce,
        payload_len=len(envelope.payload),
    ),
    envelopes,
    st.integers(NOW, 2 * NOW),
    st.integers(NOW, 2 * NOW),
)


@pytest.mark.parametrize("vector", VECTORS["envelopes"], ids=lambda vector: vector["name"])
def test_envelopes_are_made_as_the_vectors_say(vector: dict[str, Any]) -> None:
    fields = vector["fields"]
    envelope = seal(
        MsgType[vector["name"]],
        bytes.fromhex(vector["payload_hex"]),
        sender=AGENTS[vector["signer"]],
        sign=signer(vector["signer"]),
        nonce=fields["nonce"],
        now=fields["timestamp"],
        recipient=bytes.fromhex(fields["recipient"]),
        conversation_id=bytes.fromhex(fields["conversation_id"]),
    )
    assert signing_bytes(envelope).hex() == vector["signing_bytes_hex"]
    assert len(signing_bytes(envelope)) == vector["signing_bytes_len"]
    assert envelope.signature.hex() == vector["signature_hex"]
    assert encode(envelope).hex() == vector["envelope_cbor_hex"]
    assert len(encode(envelope)) == vector["envelope_len"]


@pytest.mark.parametrize("vector", VECTORS["envelopes"], ids=lambda vector: vector["name"])
def test_envelopes_are_read_as_the_vectors_say(vector: dict[str, Any]) -> None:
    envelope = decode(bytes.fromhex(vector["envelope_cbor_hex"]))
    for name, value in vector["fields"].items():
        field = getattr(envelope, name)
        assert (field.hex() if isinstance(field, bytes) else field) == value
    assert envelope.payload.hex() == vector["payload_hex"]
    assert verify(envelope.sender, signing_bytes(envelope), envelope.signature)


@pytest.mark.parametrize("vector", VECTORS["envelopes"], ids=lambda vector: vector["name"])
def test_what_was_signed_can_be_read(vector: dict[str, Any]) -> None:
    envelope = decode(bytes.fromhex(vector["envelope_cbor_hex"]))
    unsigned = structs.replace(envelope, signature=b"")
    assert read_signing_bytes(bytes.fromhex(vector["signing_bytes_hex"])) == unsigned


@pytest.mark.parametrize("data", [b"", bytes(152), b"\1\xff\xff" + bytes(200)])
def test_what_was_not_signed_as_an_envelope_is_refused(data: bytes) -> None:
    with pytest.raises(EnvelopeRefused):
        read_signing_bytes(data)


def test_constants_are_those_of_the_vectors() -> None:
    assert NO_RECIPIENT.hex() == VECTORS["constants"]["broadcast_recipient"]
    assert NO_CONVERSATION.hex() == ENVELOPES["BEACON"]["fields"]["conversation_id"]


# -- two ways of reading -------------------------------------------------------------------------------


@given(envelopes)
def test_what_is_written_is_read(envelope: Envelope) -> None:
    data = encode(envelope)
    assert decode(data) == _decode(data) == envelope
    assert cbor2.loads(data) == list(structs.astuple(envelope))


@given(usual_envelopes)
def test_usual_envelopes_are_read_in_the_quick_way(envelope: Envelope) -> None:
    data = encode(envelope)
    assert _decode_usual(data) == _decode(data) == envelope


@pytest.mark.parametrize("length", [0, 23, 24, 255, 256, 257, 65_000])
def test_both_ways_agree_where_lengths_change_their_form(length: int) -> None:
    payload = bytes(length)
    data = encode(
        structs.replace(
            vector_envelope("REJECT"), nonce=NOW, payload=payload, payload_len=length, payload_hash=bytes(32)
        )
    )
    assert _decode_usual(data) == _decode(data)
    for other in (data[:-1], data + b"\0", data[:145] + b"\0" + data[145:]):
        assert _decode_usual(other) is None


@given(envelopes | usual_envelopes, st.randoms(use_true_random=False))
def test_changed_envelopes_are_read_alike_or_refused(envelope: Envelope, dice: random.Random) -> None:
    data = changed_bytes(encode(envelope), dice)
    try:
        found = decode(data)
    except EnvelopeRefused:
        return
    assert encode(found) == data
    assert cbor2.loads(data) == list(structs.astuple(found))


@given(st.binary(max_size=400))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    with pytest.raises(EnvelopeRefused):
        decode(data)


# -- what is refused -----------------------------------------------------------------------------------


def refused(data: bytes) -> Fault:
    with pytest.raises(EnvelopeRefused) as caught:
        decode(data)
    return caught.value.fault


def test_an_envelope_has_at_most_65536_bytes() -> None:
    envelope = structs.replace(vector_envelope("REJECT"), nonce=NOW)
    room = MAX_ENVELOPE - len(encode(structs.replace(envelope, payload=bytes(60_000), payload_len=60_000)))
    size = 60_000 + room
    largest = encode(structs.replace(envelope, payload=bytes(size), payload_len=size))
    assert len(largest) == MAX_ENVELOPE == 65_536
    assert len(decode(largest).payload) == size
    size += 1
    assert refused(encode(structs.replace(envelope, payload=bytes(size), payload_len=size))) is (
        Fault.ENVELOPE_TOO_LARGE
    )


# Each of these is read by a general parser, and the first ones as this very envelope.
def other_forms(data: bytes) -> dict[str, bytes]:
    return {
        "a long version": b"\x8c\x18\x01" + data[2:],
        "a long type": b"\x8c\x01\x18\x03" + data[3:],
        "a long array": b"\x98\x0c" + data[1:],
        "an indefinite array": b"\x9f" + data[1:] + b"\xff",
        "a long byte string": data[:3] + b"\x59\x00" + data[4:],
        "an indefinite byte string": data[:3] + b"\x5f" + data[3:37] + b"\xff" + data[37:],
        "a tag": b"\xd9\xd9\xf7" + data,
        "a byte after it": data + b"\0",
        "11 items": b"\x8b" + data[1:-66],
        "another array": b"\x8d" + data[1:],
        "a version of 256": b"\x8c\x19\x01\x00" + data[2:],
        "a type of 65536": b"\x8c\x01\x1a\x00\x01\x00\x00" + data[3:],
        "a sender in text": data[:3] + b"\x78" + data[4:],
        "a recipient in text": data[:37] + b"\x78" + data[38:],
        "a signature in text": data[:-66] + b"\x78" + data[-65:],
        "a negative version": b"\x8c\x20" + data[2:],
        "a negative timestamp": data[:71] + b"\x3b" + data[72:],
        "a map": b"\xa6" + data[1:],
        "the first half": data[:140],
        "no signature": data[:-66],
        "no bytes": b"",
    }


VECTOR = bytes.fromhex(ENVELOPES["PROPOSE"]["envelope_cbor_hex"])
USUAL = encode(structs.replace(vector_envelope("PROPOSE"), nonce=NOW))
FORMS = {
    f"{name}, {base}": form
    for base, data in (("a vector", VECTOR), ("the usual", USUAL))
    for name, form in other_forms(data).items()
}


@pytest.mark.parametrize("data", FORMS.values(), ids=FORMS)
def test_only_the_canonical_form_is_read(data: bytes) -> None:
    assert refused(data) is Fault.CBOR_DECODE


# Where the usual layout has a number of a fixed width: the offset of its bytes, their count, and the least value.
WIDE = {"timestamp": (72, 8, 1 << 32), "block_ref": (81, 4, 1 << 16), "nonce": (86, 8, 1 << 32)}
HEADS = (71, 80, 85, 94, 111, 112)


@pytest.mark.parametrize("name", WIDE)
def test_a_number_of_the_usual_width_is_not_too_small_for_it(name: str) -> None:
    start, width, least = WIDE[name]

    def holding(number: int) -> bytes:
        return USUAL[:start] + number.to_bytes(width, "big") + USUAL[start + width :]

    for number in (0, least - 1):
        assert refused(holding(number)) is Fault.CBOR_DECODE
    assert _decode_usual(holding(least)) == _decode(holding(least))
    assert getattr(decode(holding(least)), name) == least


@pytest.mark.parametrize("place", HEADS)
def test_heads_in_the_usual_layout_are_looked_at(place: int) -> None:
    for head in set(range(256)) - {USUAL[place]}:
        data = USUAL[:place] + bytes((head,)) + USUAL[place + 1 :]
        assert refused(data) is Fault.CBOR_DECODE


@pytest.mark.parametrize("place", [1, 2])
def test_a_version_and_a_type_of_24_need_two_bytes(place: int) -> None:
    assert decode(b"\x8c\x17" + USUAL[2:]).version == 23
    for head in range(24, 256):
        assert refused(USUAL[:place] + bytes((head,)) + USUAL[place + 1 :]) is Fault.CBOR_DECODE


@pytest.mark.parametrize(
    ("length", "heads"),
    [
        (24, "1858"),
        (23, "18175817"),
        (23, "175817"),
        (255, "1900ff5900ff"),
        (255, "18ff5900ff"),
        (24, "1900185818"),
        (256, "18ff58ff"),
    ],
)
def test_lengths_of_the_payload_have_one_form(length: int, heads: str) -> None:
    data = USUAL[:145] + bytes.fromhex(heads) + bytes(length) + USUAL[-66:]
    assert refused(data) is Fault.CBOR_DECODE


def test_a_shared_reference_is_no_second_form() -> None:
    """Another library reads it as an envelope whose recipient is its sender."""
    data = VECTOR[:3] + b"\xd8\x1c" + VECTOR[3:37] + b"\xd8\x1d\x00" + VECTOR[71:]
    items = cbor2.loads(data)
    assert items[2] == items[3] == AGENTS["A"]
    assert refused(data) is Fault.CBOR_DECODE


@pytest.mark.parametrize("code", [0, 0x10, 0x18, 0xFF, 0x100, 0xFFFF])
def test_other_types_are_unknown(code: int) -> None:
    head = cbor2.dumps(code)
    assert refused(b"\x8c\x01" + head + VECTOR[3:]) is Fault.UNKNOWN_MSG_TYPE


# -- sealing -------------------------------------------------------------------------------------------


def sealed(msg_type: MsgType, payload: bytes, **others: Any) -> Envelope:
    return seal(msg_type, payload, sender=AGENTS["A"], sign=signer("A"), nonce=NOW, now=NOW, **others)


def test_a_sealed_envelope_has_times_and_a_hash() -> None:
    envelope = sealed(MsgType.DISCOVER, b"{}")
    assert (envelope.timestamp, envelope.block_ref) == (NOW, NOW // 1_000_000)
    assert (envelope.payload_hash, envelope.payload_len) == (keccak256(b"{}"), 2)
    assert (envelope.recipient, envelope.conversation_id) == (NO_RECIPIENT, NO_CONVERSATION)


@pytest.mark.parametrize("msg_type", MsgType)
def test_bilateral_envelopes_have_a_recipient_and_others_have_none(msg_type: MsgType) -> None:
    wrong = {} if msg_type in BILATERAL else {"recipient": AGENTS["B"]}
    with pytest.raises(ValueError, match="recipient"):
        sealed(msg_type, b"", **wrong)


def test_ids_have_their_length() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        sealed(MsgType.REJECT, b"", recipient=b"B")
    with pytest.raises(ValueError, match="conversation id 16"):
        sealed(MsgType.REJECT, b"", recipient=AGENTS["B"], conversation_id=b"1")


def test_published_envelopes_leave_room_for_the_message_around_them() -> None:
    around = len(encode(sealed(MsgType.DISCOVER, bytes(60_000)))) - 60_000
    sealed(MsgType.DISCOVER, bytes(MAX_PUBLISHED - around))
    with pytest.raises(ValueError, match="65,000"):
        sealed(MsgType.DISCOVER, bytes(MAX_PUBLISHED - around + 1))
    sealed(MsgType.REJECT, bytes(MAX_ENVELOPE - around), recipient=AGENTS["B"])
    with pytest.raises(ValueError, match="65,536"):
        sealed(MsgType.REJECT, bytes(MAX_ENVELOPE - around + 1), recipient=AGENTS["B"])


def test_what_agents_say_is_not_in_the_repr() -> None:
    assert "Translate" not in repr(vector_envelope("PROPOSE"))
    assert "PROPOSE" in repr(vector_envelope("PROPOSE"))


@pytest.mark.parametrize("name", ENVELOPES)
def test_sender_and_type_are_in_the_same_place_of_every_envelope(name: str) -> None:
    raw = bytes.fromhex(ENVELOPES[name]["envelope_cbor_hex"])
    envelope = vector_envelope(name)
    assert sender_of(raw) == envelope.sender
    assert is_offer(raw) == (envelope.msg_type in (MsgType.PROPOSE, MsgType.COUNTER))
    assert is_beacon(raw) == (envelope.msg_type is MsgType.BEACON)
