"""JSON objects in payloads: UTF-8, no blanks, names in alphabetical order, as the reference node writes them."""

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from moothall.wire.mesh.faults import PayloadParseError

T = TypeVar("T")

_write: Final = msgspec.json.Encoder(order="sorted").encode
_read: Final = msgspec.json.Decoder(dict[str, Any]).decode
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def write_object(members: Mapping[str, Any]) -> bytes:
    """Members that are None are left out. Raises ValueError for what JSON cannot hold."""
    try:
        return _write({name: value for name, value in members.items() if value is not None})
    except (TypeError, RecursionError) as error:
        raise ValueError(f"JSON cannot hold this payload: {error}") from None


def read_object(text: bytes) -> dict[str, Any] | None:
    """The members of an object, or None if the text is none."""
    try:
        return _read(text)
    except _UNREADABLE:
        return None


def convert(members: dict[str, Any] | None, kind: type[T]) -> T:
    """The members that `kind` has. Raises PayloadParseError if one of them is of another type or out of range."""
    if members is None:
        raise PayloadParseError("not a JSON object")
    try:
        return msgspec.convert(members, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise PayloadParseError(str(error)) from None
