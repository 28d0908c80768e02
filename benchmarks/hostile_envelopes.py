"""Give the codec of the mesh envelopes that another agent made up to do harm, and look for anything but a refusal.

    python -m benchmarks.hostile_envelopes [COUNT] [--seed N]

Each envelope starts as one of the vectors. Then its bytes, its fields or its payload are changed; the last two
are signed anew, so that they get past the signature. What is accepted must be written as the same bytes, must
be read alike by another library, and must be refused as a replay when it comes again. The first envelope that
raises anything else is printed with its number, and ends the run with 1.
"""

import argparse
import json
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import cbor2
from msgspec import structs

from moothall.identity.signatures import sign, verify
from moothall.wire.mesh.envelope import Envelope, decode, encode, signing_bytes
from moothall.wire.mesh.faults import EnvelopeRefused, Fault, PayloadParseError
from moothall.wire.mesh.keccak import keccak256
from moothall.wire.mesh.msg_types import TOPICS, MsgType
from moothall.wire.mesh.nonces import ReplayGuard
from moothall.wire.mesh.payloads import decode_payload
from moothall.wire.mesh.validation import topic_of, validate

_VECTORS: Final[dict[str, Any]] = json.loads(
    (Path(__file__).parent.parent / "tests" / "vectors" / "mesh.json").read_text()
)
_SEEDS: Final = {
    bytes.fromhex(key["agent_id"]): bytes.fromhex(key["seed_hex"]) for key in _VECTORS["keys"].values()
}
_HONEST: Final = tuple(decode(bytes.fromhex(vector["envelope_cbor_hex"])) for vector in _VECTORS["envelopes"])
_NUMBERS: Final = (0, 1, 23, 24, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**53, 2**63, 2**64 - 1)
_PIECES: Final = (
    *(b"", b"{", b"}", b"[" * 2000, b'{"a":' * 2000, b'"\\ud800"', b"1e999", b"9" * 5000, b"null", b"NaN"),
    *(
        b"\xf6",
        b"\xf7",
        b"\x9f",
        b"\xff",
        b"\x5f",
        b"\xd8\x1c",
        b"\xd8\x1d\x00",
        b"\xc2\x41\x01",
        b"\xf9\x3c\x00",
    ),
    *(b"\x1b" + b"\xff" * 8, b"\x5b" + b"\xff" * 8, b"\x9b" + b"\xff" * 8, b"\x18\x17", b"\x61\xff", b"\xa0"),
    *(bytes(16), bytes(32), b"JSON{}", b"CBOR", b"CUST", "é😀".encode(), b"\0" * 1000),
)


def changed_bytes(data: bytes, luck: random.Random) -> bytes:
    """Some bytes changed, taken out, put in or repeated."""
    changed = bytearray(data)
    for _ in range(luck.randint(1, 4)):
        place = luck.randrange(len(changed) + 1)
        kind = luck.randrange(5)
        if kind == 0:
            changed[place:place] = luck.choice(_PIECES)
        elif kind == 1:
            del changed[place : place + luck.randint(1, 8)]
        elif kind == 2 and place < len(changed):
            changed[place] = luck.randrange(256)
        elif kind == 3 and place < len(changed):
            changed[place] ^= 1 << luck.randrange(8)
        else:
            changed[place:place] = changed[luck.randrange(len(changed) + 1) :][:40]
    return bytes(changed)


def _signed(envelope: Envelope) -> Envelope:
    return structs.replace(envelope, signature=sign(_SEEDS[envelope.sender], signing_bytes(envelope)))


def _changed_fields(envelope: Envelope, luck: random.Random) -> Envelope:
    number = luck.choice(_NUMBERS)
    changes: tuple[dict[str, Any], ...] = (
        {"version": number & 0xFF},
        {"timestamp": number},
        {"timestamp": envelope.timestamp + luck.randint(-70_000_000, 70_000_000)},
        {"block_ref": number},
        {"nonce": number},
        {"payload_len": number & 0xFFFF_FFFF},
        {"payload_hash": luck.randbytes(32)},
        {"recipient": luck.choice((bytes(32), envelope.sender, luck.randbytes(32)))},
        {"conversation_id": luck.randbytes(16)},
        {"msg_type": luck.choice(tuple(MsgType))},
    )
    for change in luck.sample(changes, luck.randint(1, 2)):
        envelope = structs.replace(envelope, **change)
    return _signed(envelope)


def _changed_payload(envelope: Envelope, luck: random.Random) -> Envelope:
    payload = changed_bytes(envelope.payload, luck)
    return _signed(
        structs.replace(envelope, payload=payload, payload_hash=keccak256(payload), payload_len=len(payload))
    )


def hostile_envelope(luck: random.Random) -> bytes:
    honest = luck.choice(_HONEST)
    if luck.randrange(2):
        honest = _signed(structs.replace(honest, nonce=honest.timestamp + luck.randrange(1000)))
    kind = luck.randrange(4)
    if kind == 0:
        return encode(_changed_fields(honest, luck))
    if kind == 1:
        return encode(_changed_payload(honest, luck))
    return changed_bytes(encode(honest), luck)


def receive_hostile(number: int, seed: int) -> Fault | PayloadParseError | None:
    """Receive one of them, and check all that can be. Raises what goes wrong; returns why it was refused."""
    luck = random.Random(seed * 1_000_000_007 + number)  # noqa: S311  # to be repeated, not to be secret
    data = hostile_envelope(luck)
    now = _HONEST[0].timestamp + 10_000_000
    guard = ReplayGuard()
    try:
        envelope = decode(data)
        assert encode(envelope) == data
        assert cbor2.loads(data) == list(structs.astuple(envelope))
        validate(envelope, topic=_topic(envelope), verify=verify, guard=guard, now=now)
    except EnvelopeRefused as refusal:
        assert guard.windows == 0
        return refusal.fault
    assert guard.is_replay(envelope, now)
    try:
        payload = decode_payload(envelope.msg_type, envelope.payload)
    except PayloadParseError as error:
        return error
    assert type(payload).decode(payload.encode()) == payload
    return None


def _topic(envelope: Envelope) -> str | None:
    try:
        return topic_of(envelope)
    except PayloadParseError:
        return TOPICS[MsgType.ADVERTISE]  # refused there


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hostile_envelopes", description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    began = time.monotonic()
    ends: Counter[str] = Counter()
    for number in range(options.count):
        try:
            end = receive_hostile(number, options.seed)
        except Exception as error:  # noqa: BLE001  # any of them is the finding
            sys.exit(f"envelope {number} of seed {options.seed}: {type(error).__name__}: {error}")
        ends[end if isinstance(end, Fault) else "accepted" if end is None else "PayloadParseError"] += 1
        if (number + 1) % 100_000 == 0:
            print(f"{number + 1:,} envelopes, {time.monotonic() - began:.0f} s", flush=True)
    print(f"{options.count:,} envelopes: " + ", ".join(f"{end} {n:,}" for end, n in ends.most_common()))


if __name__ == "__main__":
    main()
