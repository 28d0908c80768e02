"""How packets are told apart in a stream: each follows its length in four bytes, big-endian (keep wire 1)."""

import struct
from typing import Final

from moothall.wire.keep.packet import MAX_PACKET

HEADER: Final = 4

_LENGTH: Final = struct.Struct(">I")


def frame(payload: bytes) -> bytes:
    size = len(payload)
    if not 0 < size <= MAX_PACKET:
        raise ValueError(f"a packet has 1 to {MAX_PACKET} bytes, not {size}")
    return size.to_bytes(HEADER, "big") + payload


class FrameReader:
    """Cuts what arrives into packets.

    After a length that no packet has, `broken` is set and nothing more is read: where the next frame would
    begin cannot be known. What came before it is still returned.
    """

    __slots__ = ("_needed", "_rest", "broken")

    def __init__(self) -> None:
        self._rest = bytearray()
        self._needed = 0  # bytes that have to be there before it is worth looking
        self.broken = False

    def __len__(self) -> int:
        """The bytes of an incomplete packet."""
        return len(self._rest)

    def feed(self, data: bytes) -> list[bytes]:
        if not self._rest and 0 < int.from_bytes(data[:HEADER], "big") == len(data) - HEADER <= MAX_PACKET:
            return [data[HEADER:]]  # one whole frame, as clients that wait for answers send them
        return self._feed(data)

    def _feed(self, data: bytes) -> list[bytes]:
        if self.broken:
            return []
        rest = self._rest
        if rest:
            rest += data
            if len(rest) < self._needed:
                return []
            data = bytes(rest)
            self._rest = bytearray()
        return self._cut(data)

    def _cut(self, data: bytes) -> list[bytes]:
        packets: list[bytes] = []
        position, size = 0, len(data)
        while position + HEADER <= size:
            start = position + HEADER
            (length,) = _LENGTH.unpack_from(data, position)
            if not 0 < length <= MAX_PACKET:
                self.broken = True
                break
            if start + length > size:
                self._needed = HEADER + length
                break
            position = start + length
            packets.append(data[start:position])
        else:
            self._needed = HEADER
        self._rest += data[position:]
        return packets
