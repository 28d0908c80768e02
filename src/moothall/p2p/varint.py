"""Unsigned varints: numbers and lengths in seven bits per byte, lowest first.

A number has one form, the shortest (multiformats, unsigned-varint). Lengths and codes have at most nine bytes;
protobuf has numbers of 64 bits, which take ten.
"""

from typing import Final

from moothall.p2p.faults import MalformedMessage

WIDEST: Final = 9  # bytes
WIDEST_PROTOBUF: Final = 10
_UINT64: Final = (1 << 64) - 1


def encode(number: int) -> bytes:
    """Raises ValueError if the number is negative or has more than 64 bits."""
    if 0 <= number < 0x80:
        return bytes((number,))
    if not 0 <= number <= _UINT64:
        raise ValueError("a varint has 0 to 64 bits")
    octets = bytearray()
    while number >= 0x80:
        octets.append(number & 0x7F | 0x80)
        number >>= 7
    octets.append(number)
    return bytes(octets)


def read(data: bytes, position: int = 0, *, widest: int = WIDEST) -> tuple[int, int] | None:
    """The number at `position` and the position after it, or None if its end is missing.

    Raises MalformedMessage.
    """
    number = shift = 0
    end = min(position + widest, len(data))
    for index in range(position, end):
        octet = data[index]
        number |= (octet & 0x7F) << shift
        if octet < 0x80:
            if octet == 0 and shift:
                raise MalformedMessage("a varint is longer than it needs to be")
            if number > _UINT64:
                raise MalformedMessage("a varint has more than 64 bits")
            return number, index + 1
        shift += 7
    if end - position == widest:
        raise MalformedMessage(f"a varint has more than {widest} bytes")
    return None
