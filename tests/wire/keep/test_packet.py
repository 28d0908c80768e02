"""The packet codec: the vectors, what protobuf allows, and whatever bytes there may be."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.wire.keep.codec import (
    MAX_FIELDS,
    MalformedPacket,
    _decode,
    decode,
    encode,
    open_packet,
    signing_bytes,
)
from moothall.wire.keep.packet import MAX_PACKET, Packet
from tests.support.keep import VECTORS

UINT32, UINT64 = (1 << 32) - 1, (1 << 64) - 1

packets = st.builds(
    Packet,
    sig=st.binary(max_size=64) | st.binary(min_size=64, max_size=64),
    pk=st.binary(max_size=32) | st.binary(min_size=32, max_size=32),
    typ=st.integers(0, UINT32),
    id=st.text(max_size=40),
    src=st.text(max_size=40),
    dst=st.text(max_size=40),
    body=st.text(max_size=300),
    fee=st.integers(0, UINT64),
    ttl=st.integers(0, UINT32),
    scar=st.binary(max_size=300),
)


def build(vector: dict[str, Any]) -> Packet:
    fields = dict(vector["fields"])
    if "scar" in fields:
        fields["scar"] = bytes.fromhex(fields["scar"])
    return Packet(**fields)


def tag(field: int, wire_type: int) -> bytes:
    return varint(field << 3 | wire_type)


def varint(number: int, padding: int = 0) -> bytes:
    digits = b""
    while number >= 0x80 or padding:
        padding -= not number >> 7
        digits += bytes((number & 0x7F | 0x80,))
        number >>= 7
    return digits + bytes((number,))


# -- vectors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", VECTORS["packets"], ids=lambda vector: vector["name"])
def test_packets_are_written_and_read_as_the_vectors_say(vector: dict[str, Any]) -> None:
    packet = build(vector)
    assert signing_bytes(packet).hex() == vector["signing_bytes_hex"]
    packet.sig = bytes.fromhex(vector["signature_hex"])
    packet.pk = bytes.fromhex(VECTORS["keys"][vector["signer"]]["public_key_hex"])
    payload = bytes.fromhex(vector["packet_hex"])
    assert encode(packet) == payload
    assert decode(payload) == packet
    assert open_packet(payload) == (packet, signing_bytes(packet), payload)


@pytest.mark.parametrize("vector", VECTORS["replies"], ids=lambda vector: vector["name"])
def test_replies_are_written_as_the_vectors_say(vector: dict[str, Any]) -> None:
    assert encode(build(vector)).hex() == vector["packet_hex"]


def test_the_limit_is_that_of_the_vectors() -> None:
    assert VECTORS["max_packet"] == MAX_PACKET


# -- the two ways of reading ---------------------------------------------------------------------------


@given(packets)
def test_what_is_written_can_be_read(packet: Packet) -> None:
    assert decode(encode(packet)) == packet


@given(packets)
def test_both_ways_of_reading_agree(packet: Packet) -> None:
    payload = encode(packet)
    assert open_packet(payload) == (packet, signing_bytes(packet), payload)
    assert _decode(payload) == packet


@given(packets, st.randoms(use_true_random=False))
def test_mutated_packets_are_read_alike_or_refused_alike(packet: Packet, dice: random.Random) -> None:
    payload = mutated(encode(packet), dice)
    try:
        slowly = _decode(payload)
    except MalformedPacket:
        with pytest.raises(MalformedPacket):
            open_packet(payload)
    else:
        assert open_packet(payload) == (slowly, signing_bytes(slowly), encode(slowly))


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(payload: bytes) -> None:
    try:
        packet = decode(payload)
    except MalformedPacket:
        return
    assert decode(encode(packet)) == packet


def mutated(payload: bytes, dice: random.Random) -> bytes:
    """A few bytes changed, taken out or put in."""
    changed = bytearray(payload)
    for _ in range(dice.randint(1, 4)):
        place = dice.randrange(len(changed) + 1)
        kind = dice.randrange(4)
        if kind == 0:
            changed.insert(place, dice.randrange(256))
        elif kind == 1:
            del changed[place : place + dice.randint(1, 8)]
        elif kind == 2 and place < len(changed):
            changed[place] = dice.randrange(256)
        else:
            changed[place:place] = changed[dice.randrange(len(changed) + 1) :][:20]
    return bytes(changed)


# -- what protobuf allows (keep wire 3) ----------------------------------------------------------------

SIGNED = encode(Packet(sig=b"s" * 64, pk=b"p" * 32, id="i", body="b", ttl=60))


def test_the_last_of_two_counts() -> None:
    assert decode(SIGNED + tag(7, 2) + b"\x01c").body == "c"


def test_an_explicit_zero_is_no_value() -> None:
    packet, signed, forwarded = open_packet(SIGNED + tag(8, 0) + b"\x00")
    assert packet == decode(SIGNED)
    assert signed == SIGNED[100:]
    assert forwarded == SIGNED


@pytest.mark.parametrize(("number", "field"), [(3, "typ"), (9, "ttl")])
def test_the_low_32_bits_count(number: int, field: str) -> None:
    assert getattr(decode(tag(number, 0) + varint((1 << 32) + 5)), field) == 5


def test_numbers_may_be_longer_than_they_need_be() -> None:
    packet, _, forwarded = open_packet(SIGNED[:-2] + tag(9, 0) + varint(60, padding=3))
    assert packet.ttl == 60
    assert forwarded == SIGNED
    assert open_packet(SIGNED + varint(9 << 3, padding=4) + varint(60, padding=8))[2] == SIGNED


@pytest.mark.parametrize(
    "unknown",
    [
        tag(11, 2) + b"\x02zz",
        tag(11, 0) + b"\x05",
        tag(11, 5) + b"1234",
        tag(11, 1) + b"12345678",
        tag(3, 2) + b"\x01a",  # a known number with another wire type
        tag(7, 0) + b"\x01",
        tag(11, 3) + tag(1, 0) + b"\x01" + tag(12, 3) + tag(12, 4) + tag(11, 4),  # a group in a group
        tag((1 << 29) - 1, 0) + b"\x01",
    ],
)
def test_unknown_fields_are_kept_behind_the_known_ones_and_never_signed(unknown: bytes) -> None:
    packet, signed, forwarded = open_packet(unknown + SIGNED)
    assert packet.unknown == unknown
    assert signed == SIGNED[100:]
    assert forwarded == SIGNED + unknown


@pytest.mark.parametrize(
    "broken",
    [
        b"\x0a",
        b"\x0a\x05abc",
        tag(0, 0) + b"\x01",
        tag(1 << 29, 0) + b"\x01",
        tag(11, 6),
        tag(11, 7),
        tag(11, 4),
        varint(11 << 3, padding=5) + b"\x01",  # what Google's parsers refuse must not be passed on
        tag(11, 3) + varint(1 << 3, padding=5) + b"\x01" + tag(11, 4),
        tag(11, 2) + varint(1, padding=5) + b"z",
        tag(11, 3),
        tag(11, 3) + tag(12, 4),
        tag(11, 1) + b"1234567",
        tag(11, 5) + b"123",
        tag(3, 0) + b"\xff" * 10 + b"\x01",
        tag(3, 0) + b"\xff" * 9 + b"\x02",
        tag(11, 3) * 200 + tag(11, 4) * 200,
        tag(4, 2) + b"\x01\xff",
        tag(5, 2) + b"\x02\xc3\x28",
        tag(6, 2) + b"\x03\xed\xa0\x80",  # half a surrogate pair
        tag(7, 2) + b"\x01\x80",
    ],
)
def test_what_is_not_protobuf_or_not_utf8_is_malformed(broken: bytes) -> None:
    for payload in (broken, SIGNED + broken):
        with pytest.raises(MalformedPacket):
            decode(payload)


@pytest.mark.parametrize(
    ("before", "field", "after"),
    [
        (b"", tag(4, 2) + b"\x00", b""),
        (b"", tag(8, 0) + b"\x00", b""),
        (b"", tag(12, 0) + b"\x00", b""),
        (tag(11, 3), tag(12, 0) + b"\x00", tag(11, 4)),
        (tag(11, 3), tag(12, 3) + tag(12, 4), tag(11, 4)),
    ],
)
def test_a_packet_has_so_many_fields_at_most(before: bytes, field: bytes, after: bytes) -> None:
    """Or one of 64 KiB takes 30 ms to read."""
    most = MAX_FIELDS - bool(before)
    decode(before + field * most + after)
    with pytest.raises(MalformedPacket, match="fields"):
        decode(before + field * (most + 1) + after)


def test_numbers_out_of_range_are_not_written() -> None:
    for packet in (Packet(typ=-1), Packet(ttl=1 << 32), Packet(fee=1 << 64)):
        with pytest.raises(ValueError, match="is not between"):
            encode(packet)


# -- the object ----------------------------------------------------------------------------------------


def test_a_packet_shows_what_it_says() -> None:
    packet = Packet(src="bot:alice", body="hi", ttl=60)
    assert repr(packet) == "Packet(src='bot:alice', body='hi', ttl=60)"
    assert packet == Packet(src="bot:alice", body="hi", ttl=60)
    assert packet != Packet(src="bot:alice", body="ho", ttl=60)
    assert packet != "Packet"
