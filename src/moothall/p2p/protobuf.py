"""Fields of protobuf messages, read and written one by one: no schema, no runtime.

What is written is canonical: the caller writes fields in the order of their numbers. What is read may have fields
in any order, unknown ones, and repeated ones. Groups, which protobuf itself gave up, are refused. A message of
64 KiB has room for 32,000 empty fields, so a reader says how many it takes.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

from moothall.p2p import varint
from moothall.p2p.faults import MalformedMessage

_VARINT, _FIXED64, _BYTES, _, _, _FIXED32 = range(6)
_MAX_FIELD: Final = (1 << 29) - 1

Field: TypeAlias = tuple[int, int | bytes]


def number_field(field: int, number: int) -> bytes:
    return varint.encode(field << 3) + varint.encode(number)


def bytes_field(field: int, data: bytes) -> bytes:
    return varint.encode(field << 3 | _BYTES) + varint.encode(len(data)) + data


def text_field(field: int, text: str) -> bytes:
    return bytes_field(field, text.encode())


def fields(data: bytes, *, most: int) -> Iterator[Field]:
    """The fields of a message with their values: a number, or bytes. Fields of fixed width are skipped.

    Raises MalformedMessage if the message has more than `most` fields, or is not protobuf.
    """
    position, end = 0, len(data)
    for _ in range(most):
        if position == end:
            return
        tag, position = _number(data, position)
        field, kind = tag >> 3, tag & 7
        if not 0 < field <= _MAX_FIELD:
            raise MalformedMessage(f"protobuf has no field {field}")
        if kind == _BYTES:
            size, start = _number(data, position)
            position = start + size
            if position > end:
                raise MalformedMessage("a field is cut off")
            yield field, data[start:position]
        elif kind == _VARINT:
            number, position = _number(data, position)
            yield field, number
        elif kind in (_FIXED64, _FIXED32):
            position += 8 if kind == _FIXED64 else 4
            if position > end:
                raise MalformedMessage("a field is cut off")
        else:
            raise MalformedMessage(f"a field has the wire type {kind}")
    if position < end:
        raise MalformedMessage(f"a message has more than {most:,} fields")


def _number(data: bytes, position: int) -> tuple[int, int]:
    try:
        octet = data[position]
    except IndexError:
        raise MalformedMessage("a field is cut off") from None
    if octet < 0x80:
        return octet, position + 1
    found = varint.read(data, position, widest=varint.WIDEST_PROTOBUF)
    if found is None:
        raise MalformedMessage("a number is cut off")
    return found


def as_bytes(value: int | bytes) -> bytes:
    """The value of a field that must be bytes. Raises MalformedMessage."""
    if isinstance(value, int):
        raise MalformedMessage("a number is where bytes should be")
    return value


def as_number(value: int | bytes) -> int:
    """The value of a field that must be a number. Raises MalformedMessage."""
    if isinstance(value, bytes):
        raise MalformedMessage("bytes are where a number should be")
    return value


def as_text(value: int | bytes) -> str:
    """The value of a field that must be a text. Raises MalformedMessage."""
    try:
        return as_bytes(value).decode()
    except UnicodeDecodeError:
        raise MalformedMessage("a text is not UTF-8") from None
