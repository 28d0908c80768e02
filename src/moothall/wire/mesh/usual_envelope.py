"""Envelopes whose nonce began as a time, as ours do: their fields are in fixed places (mesh wire 2)."""

import struct
from typing import Final

from moothall.wire.mesh.cbor import UINT8_MAX, UINT16_MAX, UINT32_MAX

SIGNATURE_BYTES: Final = 64

# Everything before `payload_len`, if timestamp and nonce take eight bytes, and the time in seconds takes four.
_USUAL: Final = struct.Struct(">BBBH32sH32sBQBIBQB16sH32s")
# An array of 12; two byte strings of 32; numbers of 8, 4 and 8 bytes; byte strings of 16 and 32.
_HEADS: Final = (0x8C, 0x5820, 0x5820, 0x1B, 0x1A, 0x1B, 0x50, 0x5820)
_SIGNATURE_HEAD: Final = b"\x58\x40"
_AFTER_PAYLOAD: Final = len(_SIGNATURE_HEAD) + SIGNATURE_BYTES
_DIRECT: Final = 24  # smaller numbers and lengths are in the head itself

# In the order of `Envelope`. The type is a number: it need not be known.
Fields = tuple[int, int, bytes, bytes, int, int, int, bytes, bytes, int, bytes, bytes]


def usual_fields(data: bytes) -> Fields | None:
    """The fields if they have the usual places, else None: what is wrong with others is found the slow way."""
    end = len(data) - _AFTER_PAYLOAD
    length, heads = _payload_heads(end - _USUAL.size)
    start = end - length
    if not heads or data[_USUAL.size : start] != heads or data[end : end + 2] != _SIGNATURE_HEAD:
        return None
    (
        array,
        version,
        msg_type,
        head1,
        sender,
        head2,
        recipient,
        head3,
        timestamp,
        head4,
        block_ref,
        head5,
        nonce,
        head6,
        conversation_id,
        head7,
        payload_hash,
    ) = _USUAL.unpack_from(data)
    if (
        (array, head1, head2, head3, head4, head5, head6, head7) != _HEADS
        or version >= _DIRECT
        or msg_type >= _DIRECT
        or timestamp <= UINT32_MAX
        or block_ref <= UINT16_MAX
        or nonce <= UINT32_MAX
    ):
        return None
    return (
        version,
        msg_type,
        sender,
        recipient,
        timestamp,
        block_ref,
        nonce,
        conversation_id,
        payload_hash,
        length,
        data[start:end],
        data[end + 2 :],
    )


def _payload_heads(size: int) -> tuple[int, bytes]:
    """The length of a payload that takes `size` bytes with its two heads, `payload_len` and its own; and these
    heads. They are empty if no canonical payload takes so many."""
    if 2 <= size < 2 + _DIRECT:
        length = size - 2
        return length, bytes((length, 0x40 | length))
    if 4 + _DIRECT <= size <= 4 + UINT8_MAX:
        length = size - 4
        return length, bytes((0x18, length, 0x58, length))
    if size > 6 + UINT8_MAX:
        length = size - 6  # two bytes hold it: an envelope has no room for more
        digits = length.to_bytes(2, "big")
        return length, b"\x19" + digits + b"\x59" + digits
    return 0, b""
