"""The one message of the keep wire: a signed protobuf `Packet`, read and written by hand (keep wire 2, 3).

Ten fields need no schema compiler and no descriptor pool, which other programs in this process may have filled
with a `Packet` of their own. For what a server asks of a packet, its fields and the bytes that were signed, these
lines take no longer than protobuf's C parser and encoder: most packets arrive in canonical form, and then what was
signed is simply the end of what was received, and what is forwarded is what came in.

What a packet's bytes may look like is wider than what we write: fields in any order, twice, with zero values,
with long varints, with unknown fields. All of it is read as the reference reads it, because the signature
is checked over the canonical form, whatever form arrived.
"""

from typing import Final

from moothall.wire.keep.packet import Packet

# Field numbers with their wire types: tag bytes, all of them one byte long.
_SIG: Final = 0x0A
_PK: Final = 0x12
_TYP: Final = 0x18
_ID: Final = 0x22
_SRC: Final = 0x2A
_DST: Final = 0x32
_BODY: Final = 0x3A
_FEE: Final = 0x40
_TTL: Final = 0x48
_SCAR: Final = 0x52

_UINT32: Final = (1 << 32) - 1
_UINT64: Final = (1 << 64) - 1
_MAX_FIELD: Final = (1 << 29) - 1
_MAX_HEAD: Final = 5  # bytes of a tag or a length in what is passed on as it came; see `_head`
_MAX_DEPTH: Final = 100  # of groups in groups: no known client sends any, and each costs a level
# Fields of a packet that is not in canonical form, those in groups too: known ones, repeated ones, unknown ones. A
# packet of 64 KiB has room for 32,000 of them, and would take as long to read as 500 signatures take to check.
MAX_FIELDS: Final = 64

# A canonical signed packet begins with 0a 40, 64 bytes, 12 20, 32 bytes (keep wire 3).
_SIG_HEAD: Final = b"\x0a\x40"
_PK_HEAD: Final = b"\x12\x20"
_SIGNED_FROM: Final = 100

_VARINT, _FIXED64, _BYTES, _GROUP, _GROUP_END, _FIXED32 = range(6)


class MalformedPacket(ValueError):
    """Not a protobuf message, or a text in it is not UTF-8."""


def decode(payload: bytes) -> Packet:
    return _decode_canonical(payload) or _decode(payload)


def open_packet(payload: bytes) -> tuple[Packet, bytes, bytes]:
    """The packet, the bytes its signature covers and the bytes in which it travels on (keep wire 3, 6).

    Nothing is encoded again that came in canonical form.
    """
    packet = _decode_canonical(payload)
    if packet is not None:
        return packet, payload[_SIGNED_FROM:], payload
    packet = _decode(payload)
    return packet, signing_bytes(packet), encode(packet)


def encode(packet: Packet) -> bytes:
    """The canonical form, then the unknown fields (keep wire 6, forwarding)."""
    head = b""
    if packet.sig:
        head = b"\x0a" + _varint(len(packet.sig)) + packet.sig
    if packet.pk:
        head += b"\x12" + _varint(len(packet.pk)) + packet.pk
    return head + signing_bytes(packet) + packet.unknown


def signing_bytes(packet: Packet) -> bytes:
    """What the signature covers: the canonical form without `sig` and `pk` (keep wire 3)."""
    parts: list[bytes] = []
    if packet.typ:
        parts += b"\x18", _unsigned(packet.typ, _UINT32)
    for tag, text in (
        (b"\x22", packet.id),
        (b"\x2a", packet.src),
        (b"\x32", packet.dst),
        (b"\x3a", packet.body),
    ):
        if text:
            encoded = text.encode()
            parts += tag, _varint(len(encoded)), encoded
    if packet.fee:
        parts += b"\x40", _unsigned(packet.fee, _UINT64)
    if packet.ttl:
        parts += b"\x48", _unsigned(packet.ttl, _UINT32)
    if packet.scar:
        parts += b"\x52", _varint(len(packet.scar)), packet.scar
    return b"".join(parts)


def _unsigned(number: int, most: int) -> bytes:
    if not 0 < number <= most:
        raise ValueError(f"{number} is not between 0 and {most}")
    return _varint(number)


def _varint(number: int) -> bytes:
    if number < 0x80:
        return _SHORT[number]
    digits = bytearray()
    while number >= 0x80:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


_SHORT: Final = tuple(bytes((number,)) for number in range(0x80))


# -- what honest clients send ----------------------------------------------------------------------------


def _decode_canonical(payload: bytes) -> Packet | None:
    """The packet if it is signed and in canonical form, else None. This is on the path of every packet."""
    size = len(payload)
    if payload[:2] != _SIG_HEAD or payload[66:68] != _PK_HEAD or size < _SIGNED_FROM:
        return None
    typ = fee = ttl = last = 0
    message_id = src = dst = body = ""
    scar = b""
    position = _SIGNED_FROM
    try:
        while position < size:
            tag = payload[position]
            number = payload[position + 1]
            start = position + 2
            if number >= 0x80:
                number, start = _long_varint(payload, start - 1)
                if payload[start - 1] == 0:
                    return None  # longer than it need be
            if tag <= last or not number:
                return None  # out of order, twice, or a zero that should not be there
            last = tag
            position = start + number
            if tag == _ID:
                message_id = payload[start:position].decode()
            elif tag == _SRC:
                src = payload[start:position].decode()
            elif tag == _DST:
                dst = payload[start:position].decode()
            elif tag == _BODY:
                body = payload[start:position].decode()
            elif tag == _SCAR:
                scar = payload[start:position]
            else:
                position = start
                if tag == _FEE:
                    fee = number
                elif number > _UINT32:
                    return None
                elif tag == _TTL:
                    ttl = number
                elif tag == _TYP:
                    typ = number
                else:
                    return None
    except (IndexError, ValueError):
        return None  # what is wrong with it is found the slow way
    if position > size:
        return None
    # By position: on this path names would take a third longer.
    return Packet(typ, message_id, src, dst, body, fee, ttl, scar, payload[68:_SIGNED_FROM], payload[2:66])


# -- whatever protobuf allows ----------------------------------------------------------------------------


def _decode(payload: bytes) -> Packet:
    packet = Packet()
    unknown: list[bytes] = []
    position, size = 0, len(payload)
    count = _Count()
    try:
        while position < size:
            start = position
            count.one_more()
            tag, position = _head(payload, position)
            if tag in (_TYP, _FEE, _TTL):
                number, position = _long_varint(payload, position)
                _set_number(packet, tag, number)
            elif tag in (_SIG, _PK, _ID, _SRC, _DST, _BODY, _SCAR):
                length, first = _long_varint(payload, position)
                position = first + length
                if position > size:
                    raise MalformedPacket("a field ends after the packet")
                _set_value(packet, tag, payload[first:position])
            else:
                position = _skip(payload, tag, position, 0, count)
                unknown.append(payload[start:position])
    except IndexError:
        raise MalformedPacket("the packet ends inside a field") from None
    except UnicodeDecodeError:
        raise MalformedPacket("a text is not UTF-8") from None
    packet.unknown = b"".join(unknown)
    return packet


def _set_number(packet: Packet, tag: int, number: int) -> None:
    if tag == _FEE:
        packet.fee = number
    elif tag == _TYP:
        packet.typ = number & _UINT32  # keep wire 3: the low 32 bits count
    else:
        packet.ttl = number & _UINT32


def _set_value(packet: Packet, tag: int, value: bytes) -> None:
    if tag == _SIG:
        packet.sig = value
    elif tag == _PK:
        packet.pk = value
    elif tag == _SCAR:
        packet.scar = value
    elif tag == _ID:
        packet.id = value.decode()
    elif tag == _SRC:
        packet.src = value.decode()
    elif tag == _DST:
        packet.dst = value.decode()
    else:
        packet.body = value.decode()


class _Count:
    """How many fields were read."""

    __slots__ = ("_fields",)

    def __init__(self) -> None:
        self._fields = 0

    def one_more(self) -> None:
        self._fields += 1
        if self._fields > MAX_FIELDS:
            raise MalformedPacket(f"more than {MAX_FIELDS} fields")


def _skip(payload: bytes, tag: int, position: int, depth: int, count: _Count) -> int:
    """Where the field ends whose value starts at `position`; IndexError if that is beyond the packet."""
    kind = tag & 7
    if not 1 <= tag >> 3 <= _MAX_FIELD:
        raise MalformedPacket("a field has no valid number")
    if kind == _VARINT:
        return _long_varint(payload, position)[1]
    if kind == _GROUP:
        return _skip_group(payload, tag, position, depth, count)
    if kind == _BYTES:
        length, position = _head(payload, position)
        end = position + length
    elif kind == _FIXED64:
        end = position + 8
    elif kind == _FIXED32:
        end = position + 4
    else:
        raise MalformedPacket("a field has no valid wire type")
    if end > len(payload):
        raise MalformedPacket("a field ends after the packet")
    return end


def _skip_group(payload: bytes, tag: int, position: int, depth: int, count: _Count) -> int:
    if depth >= _MAX_DEPTH:
        raise MalformedPacket("groups are nested too deep")
    closing = tag + (_GROUP_END - _GROUP)
    while True:
        inner, position = _head(payload, position)
        if inner == closing:
            return position
        count.one_more()
        position = _skip(payload, inner, position, depth + 1, count)


def _head(payload: bytes, position: int) -> tuple[int, int]:
    """A tag, or the length of an unknown field. Google's parsers take no longer ones: a receiver that
    uses one would fail on such a packet, and any client could send it."""
    number, end = _long_varint(payload, position)
    if end - position > _MAX_HEAD:
        raise MalformedPacket("a tag or a length is longer than it need be")
    return number, end


def _long_varint(payload: bytes, position: int) -> tuple[int, int]:
    """The number at `position` and where it ends. IndexError if the packet ends first."""
    number = shift = 0
    while True:
        byte = payload[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number > _UINT64:
                raise MalformedPacket("a number is longer than 64 bits")
            return number, position
        shift += 7
        if shift > 63:
            raise MalformedPacket("a number is longer than 64 bits")
