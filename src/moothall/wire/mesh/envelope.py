"""The signed envelope in which every message of the mesh travels (mesh wire 2).

On the wire it is a CBOR array of twelve items. What is signed is not CBOR but a fixed layout, big-endian. Only the
canonical encoding is read, so an envelope that was received is forwarded, logged and hashed as the bytes that came.

No key comes in here: the caller hands in the function that signs.
"""

import struct
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from moothall.wire.mesh import cbor
from moothall.wire.mesh.cbor import UINT8_MAX, UINT16_MAX, UINT32_MAX, UINT64_MAX, MalformedCbor, Reader
from moothall.wire.mesh.faults import EnvelopeRefused, Fault
from moothall.wire.mesh.keccak import keccak256
from moothall.wire.mesh.msg_types import BILATERAL, MSG_TYPES, MsgType
from moothall.wire.mesh.usual_envelope import SIGNATURE_BYTES, usual_fields

VERSION: Final = 1
MAX_ENVELOPE: Final = 65_536  # bytes of the encoded envelope (mesh wire 2.3)
MAX_PUBLISHED: Final = 65_000  # on a topic, where the pubsub message around it counts too

AGENT_ID_BYTES: Final = 32
CONVERSATION_ID_BYTES: Final = 16
HASH_BYTES: Final = 32

NO_RECIPIENT: Final = bytes(AGENT_ID_BYTES)  # of every message to a topic
NO_CONVERSATION: Final = bytes(CONVERSATION_ID_BYTES)

MICROSECONDS: Final = 1_000_000  # in a second

# After the heads of the array and of the byte string, and the version and type, of one byte each.
_TYPE: Final = slice(2, 3)
_SENDER: Final = slice(5, 5 + AGENT_ID_BYTES)
_OFFERS: Final = (bytes((MsgType.PROPOSE,)), bytes((MsgType.COUNTER,)))

_BEACON: Final = bytes((MsgType.BEACON,))

_SIGNED_HEAD: Final = struct.Struct(">BH32s32sQQQ16s32sI")


class Envelope(Struct, frozen=True, gc=False):
    """An envelope as its fields say it. `timestamp` is Unix microseconds, `block_ref` Unix seconds."""

    version: int
    msg_type: MsgType
    sender: bytes
    recipient: bytes
    timestamp: int
    block_ref: int
    nonce: int
    conversation_id: bytes
    payload_hash: bytes
    payload_len: int
    payload: bytes
    signature: bytes

    def __repr__(self) -> str:
        """Without the payload: what agents say to each other is not for logs."""
        return (
            f"Envelope({self.msg_type.name}, sender={self.sender.hex()}, nonce={self.nonce},"
            f" payload of {len(self.payload)} bytes)"
        )


def signing_bytes(envelope: Envelope) -> bytes:
    """What the signature covers (mesh wire 2.2)."""
    return (
        _SIGNED_HEAD.pack(
            envelope.version,
            envelope.msg_type,
            envelope.sender,
            envelope.recipient,
            envelope.timestamp,
            envelope.block_ref,
            envelope.nonce,
            envelope.conversation_id,
            envelope.payload_hash,
            envelope.payload_len,
        )
        + envelope.payload
    )


def read_signing_bytes(data: bytes) -> Envelope:
    """The envelope whose signature covers these bytes, without that signature. Raises EnvelopeRefused."""
    if len(data) < _SIGNED_HEAD.size:
        raise EnvelopeRefused(Fault.CBOR_DECODE, "not the signing bytes of an envelope: too short")
    version, msg_type, *fields = _SIGNED_HEAD.unpack_from(data)
    return Envelope(*(version, _known(msg_type), *fields, data[_SIGNED_HEAD.size :], b""))


def seal(
    msg_type: MsgType,
    payload: bytes,
    *,
    sender: bytes,
    sign: Callable[[bytes], bytes],
    nonce: int,
    now: int,
    recipient: bytes = NO_RECIPIENT,
    conversation_id: bytes = NO_CONVERSATION,
) -> Envelope:
    """Make and sign an envelope.

    `sign` makes the signature of `sender`, and `now` is Unix microseconds. Raises ValueError if the envelope
    would be too long, or goes to a topic with a recipient, or to an agent without one.
    """
    is_bilateral = msg_type in BILATERAL
    if is_bilateral == (recipient == NO_RECIPIENT):
        raise ValueError(f"{msg_type.name} takes {'a' if is_bilateral else 'no'} recipient")
    if len(recipient) != AGENT_ID_BYTES or len(conversation_id) != CONVERSATION_ID_BYTES:
        raise ValueError(
            f"a recipient has {AGENT_ID_BYTES} bytes, and a conversation id {CONVERSATION_ID_BYTES}"
        )
    fields = (
        VERSION,
        msg_type,
        sender,
        recipient,
        now,
        now // MICROSECONDS,
        nonce,
        conversation_id,
        keccak256(payload),
        len(payload),
        payload,
    )
    envelope = Envelope(*fields, signature=sign(signing_bytes(Envelope(*fields, signature=b""))))
    most = MAX_ENVELOPE if is_bilateral else MAX_PUBLISHED
    size = len(encode(envelope))
    if size > most:
        raise ValueError(
            f"the envelope has {size:,} bytes, and {most:,} are allowed; shorten its payload or refer to it"
        )
    return envelope


def encode(envelope: Envelope) -> bytes:
    return cbor.encode(
        (
            envelope.version,
            envelope.msg_type,
            envelope.sender,
            envelope.recipient,
            envelope.timestamp,
            envelope.block_ref,
            envelope.nonce,
            envelope.conversation_id,
            envelope.payload_hash,
            envelope.payload_len,
            envelope.payload,
            envelope.signature,
        )
    )


def sender_of(data: bytes) -> bytes:
    """The sender of an encoded envelope, which was decoded before: all of them have it in the same place."""
    return data[_SENDER]


def is_beacon(data: bytes) -> bool:
    """True for an encoded BEACON."""
    return data[_TYPE] == _BEACON


def is_offer(data: bytes) -> bool:
    """True for an encoded PROPOSE or COUNTER, which any agent may send to any other. All other bilateral messages
    need an answer of the recipient first, or an assignment by the hall."""
    return data[_TYPE] in _OFFERS


def decode(data: bytes) -> Envelope:
    """Raises EnvelopeRefused: too large, not a canonical envelope, or of an unknown type."""
    if len(data) > MAX_ENVELOPE:
        raise EnvelopeRefused(Fault.ENVELOPE_TOO_LARGE, f"an envelope has at most {MAX_ENVELOPE:,} bytes")
    try:
        return _decode_usual(data) or _decode(data)
    except MalformedCbor as error:
        raise EnvelopeRefused(Fault.CBOR_DECODE, f"not an envelope in canonical CBOR: {error}") from None


def _known(msg_type: int) -> MsgType:
    known = MSG_TYPES.get(msg_type)
    if known is None:
        raise EnvelopeRefused(Fault.UNKNOWN_MSG_TYPE, f"there is no message type {msg_type:#04x}")
    return known


def _decode_usual(data: bytes) -> Envelope | None:
    """None: not an envelope, or not the usual one."""
    fields = usual_fields(data)
    return None if fields is None else Envelope(fields[0], _known(fields[1]), *fields[2:])


def _decode(data: bytes) -> Envelope:
    reader = Reader(data)
    reader.array_of(12)
    version = reader.uint(UINT8_MAX)
    msg_type = reader.uint(UINT16_MAX)
    sender = reader.bytes_of(AGENT_ID_BYTES)
    recipient = reader.bytes_of(AGENT_ID_BYTES)
    timestamp = reader.uint(UINT64_MAX)
    block_ref = reader.uint(UINT64_MAX)
    nonce = reader.uint(UINT64_MAX)
    conversation_id = reader.bytes_of(CONVERSATION_ID_BYTES)
    payload_hash = reader.bytes_of(HASH_BYTES)
    payload_len = reader.uint(UINT32_MAX)
    payload = reader.bytes_()
    signature = reader.bytes_of(SIGNATURE_BYTES)
    reader.end()
    return Envelope(
        version,
        _known(msg_type),
        sender,
        recipient,
        timestamp,
        block_ref,
        nonce,
        conversation_id,
        payload_hash,
        payload_len,
        payload,
        signature,
    )
