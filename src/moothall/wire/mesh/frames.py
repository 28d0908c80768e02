"""An envelope after its length in four bytes, little-endian: on bilateral streams and in epoch logs (mesh wire
6.3, 12)."""

from collections.abc import Iterator
from typing import Final

from moothall.wire.mesh.envelope import MAX_ENVELOPE

HEADER: Final = 4
ACK: Final = b"\x03\x00\x00\x00ACK"  # the answer on a bilateral stream: the bytes have arrived, no more


def frame(envelope: bytes) -> bytes:
    size = len(envelope)
    if not 0 < size <= MAX_ENVELOPE:
        raise ValueError(f"an envelope has 1 to {MAX_ENVELOPE:,} bytes, not {size:,}")
    return size.to_bytes(HEADER, "little") + envelope


def frames(data: bytes) -> Iterator[bytes]:
    """The envelopes of a log, up to the first one that is cut off or has a length that no envelope has.

    A crash can cut off the last one. Each envelope takes its own length and `HEADER` bytes, so the caller knows
    where the rest begins.
    """
    position = 0
    while position + HEADER <= len(data):
        start = position + HEADER
        size = int.from_bytes(data[position:start], "little")
        position = start + size
        if not 0 < size <= MAX_ENVELOPE or position > len(data):
            return
        yield data[start:position]
