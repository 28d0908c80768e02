"""The subset of CBOR that the mesh uses, in its one canonical form (mesh wire 2.1, 5, 12; RFC 8949, 4.2.1).

A number and a length have the shortest head that holds them, lengths are definite, and there are no tags and no
floats. So one value has one encoding: what was signed, hashed and logged by one node is the same for all. The
reader knows no other form, and refuses what a general parser would take: `Reader` is asked for the items of a
known shape one by one, so nothing recurses, and a hostile text costs no more than its length.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

Value: TypeAlias = int | bytes | str | bool | Sequence["Value"] | Mapping[str, "Value"] | None

UINT8_MAX: Final = (1 << 8) - 1
UINT16_MAX: Final = (1 << 16) - 1
UINT32_MAX: Final = (1 << 32) - 1
UINT64_MAX: Final = (1 << 64) - 1

_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _ARRAY, _MAP = (major << 5 for major in range(6))
_MAJOR: Final = 0xE0
_FALSE: Final = 0xF4
_TRUE: Final = 0xF5
_NULL: Final = b"\xf6"

_DIRECT: Final = 24  # smaller arguments are in the head itself
# The last five bits of a head: bytes of the argument that follows, and what is too small for so many.
_WIDTHS: Final = {24: (1, _DIRECT), 25: (2, 1 << 8), 26: (4, 1 << 16), 27: (8, 1 << 32)}


class MalformedCbor(ValueError):
    """The bytes are not the canonical encoding of a value of the expected shape."""


# -- writing ---------------------------------------------------------------------------------------------


def encode(value: Value) -> bytes:
    """The canonical encoding, except that the members of a map keep their order (mesh wire 12).

    Raises ValueError for a number beyond 64 bits and for a text with a lone surrogate.
    """
    parts: list[bytes] = []
    _write(value, parts)
    return b"".join(parts)


def _write(value: Value, parts: list[bytes]) -> None:
    if value is None:
        parts.append(_NULL)
    elif isinstance(value, bool):
        parts.append(b"\xf5" if value else b"\xf4")
    elif isinstance(value, int):
        parts.append(_head(_UNSIGNED, value) if value >= 0 else _head(_NEGATIVE, -1 - value))
    elif isinstance(value, bytes):
        parts += _head(_BYTES, len(value)), value
    elif isinstance(value, str):
        text = value.encode()
        parts += _head(_TEXT, len(text)), text
    elif isinstance(value, Mapping):
        parts.append(_head(_MAP, len(value)))
        for name, member in value.items():
            _write(name, parts)
            _write(member, parts)
    else:
        parts.append(_head(_ARRAY, len(value)))
        for item in value:
            _write(item, parts)


def _head(major: int, argument: int) -> bytes:
    if argument < _DIRECT:
        return bytes((major | argument,))
    for bits, (width, _) in _WIDTHS.items():
        if argument >> 8 * width == 0:
            return bytes((major | bits,)) + argument.to_bytes(width, "big")
    raise ValueError("a number is longer than 64 bits")


# -- reading ---------------------------------------------------------------------------------------------


class Reader:
    """Reads the items of a canonical encoding in their order. Every method raises MalformedCbor."""

    __slots__ = ("_data", "_position")

    def __init__(self, data: bytes, position: int = 0) -> None:
        self._data = data
        self._position = position

    def array(self, most: int) -> int:
        """The number of items that follow."""
        length = self._argument(_ARRAY)
        if length > most:
            raise MalformedCbor(f"an array has more than {most} items")
        return length

    def array_of(self, length: int) -> None:
        if self._argument(_ARRAY) != length:
            raise MalformedCbor(f"an array does not have {length} items")

    def uint(self, most: int) -> int:
        number = self._argument(_UNSIGNED)
        if number > most:
            raise MalformedCbor(f"a number is more than {most}")
        return number

    def integer(self) -> int:
        if self._peek() & _MAJOR == _NEGATIVE:
            return -1 - self._argument(_NEGATIVE)
        return self._argument(_UNSIGNED)

    def bytes_of(self, length: int) -> bytes:
        data = self.bytes_()
        if len(data) != length:
            raise MalformedCbor(f"a byte string does not have {length} bytes")
        return data

    def bytes_(self) -> bytes:
        return self._string(_BYTES)

    def text(self) -> str:
        try:
            return self._string(_TEXT).decode()
        except UnicodeDecodeError:
            raise MalformedCbor("a text is not UTF-8") from None

    def boolean(self) -> bool:
        head = self._peek()
        if head not in (_FALSE, _TRUE):
            raise MalformedCbor("an item is not a truth value")
        self._position += 1
        return head == _TRUE

    def null(self) -> bool:
        """True if the next item is null, which is then read."""
        is_null = self._data.startswith(_NULL, self._position)
        self._position += is_null
        return is_null

    def skips(self, items: bytes) -> bool:
        """True if these encoded items come next, which are then read."""
        if not self._data.startswith(items, self._position):
            return False
        self._position += len(items)
        return True

    def end(self) -> None:
        if self._position != len(self._data):
            raise MalformedCbor("bytes follow the last item")

    def _peek(self) -> int:
        try:
            return self._data[self._position]
        except IndexError:
            raise MalformedCbor("the encoding ends too early") from None

    def _argument(self, major: int) -> int:
        try:
            head = self._data[self._position]
        except IndexError:
            raise MalformedCbor("the encoding ends too early") from None
        if head & _MAJOR != major:
            raise MalformedCbor("an item is of another type")
        self._position += 1
        bits = head & ~_MAJOR
        if bits < _DIRECT:
            return bits
        if bits not in _WIDTHS:
            raise MalformedCbor("a length is indefinite or reserved")
        width, least = _WIDTHS[bits]
        number = int.from_bytes(self._take(width), "big")
        if number < least:
            raise MalformedCbor("a number is not in its shortest form")
        return number

    def _string(self, major: int) -> bytes:
        """Most are short: their length is in the head, or in the byte after it."""
        data, start = self._data, self._position + 1
        length = data[start - 1] - major if start <= len(data) else -1
        if length == _DIRECT and start < len(data) and data[start] >= _DIRECT:
            length = data[start]
            start += 1
        elif not 0 <= length < _DIRECT:
            return self._take(self._argument(major))
        self._position = stop = start + length
        if stop > len(data):
            raise MalformedCbor("the encoding ends too early")
        return data[start:stop]

    def _take(self, length: int) -> bytes:
        start = self._position
        self._position = start + length
        if self._position > len(self._data):
            raise MalformedCbor("the encoding ends too early")
        return self._data[start : self._position]
