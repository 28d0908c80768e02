"""Canonical JSON: one text for one value, however the file that holds it is laid out (RFC 8785).

There are no blanks. The members of an object are sorted by the UTF-16 code units of their names. A text is escaped
only where JSON demands it. A number is a double, and written as JavaScript writes it: 1.0, 1e0 and 1 are all `1`.
RFC 8785 has no text for a number that no double holds; here it is `Infinity` or `-Infinity`, so that two records
that differ never share a text with `null`.
"""

import json
from collections import Counter
from typing import Any, Final, NoReturn

import msgspec

from moothall.wire.agentchat.jstext import MAX_SAFE_INTEGER, number_text

MAX_DEPTH: Final = 128  # levels; what halls keep has fewer than 80
MAX_BYTES: Final = 16 * 1024 * 1024

_encode: Final = msgspec.json.Encoder().encode
# Writes the same text, for values in which every number `is_plain` and every name is ASCII.
encode_plain: Final = msgspec.json.Encoder(order="sorted").encode


class NotCanonical(ValueError):
    """The value has no canonical text within the limits."""


def read_json(text: bytes | str) -> Any:
    """The value of a JSON text that a stranger may have written. Raises ValueError or RecursionError.

    An object with two members of one name is refused: two programs could read two records out of one file.
    """
    return json.loads(text, object_pairs_hook=_members, parse_constant=_refuse_constant)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"an object has two members {twice[:64]!r}")
    return members


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number")


def canonical_json(value: object) -> bytes:
    """The canonical text of a value that came out of a JSON parser, in UTF-8. Raises NotCanonical."""
    try:
        text = _encode(_ordered(value))
    except UnicodeEncodeError:
        raise NotCanonical("a text holds a lone surrogate") from None
    if len(text) > MAX_BYTES:
        raise NotCanonical(f"it has more than {MAX_BYTES} bytes")
    return text


def is_plain(value: object) -> bool:
    """True for everything but numbers whose canonical text may differ from the one that an encoder writes, and for
    arrays and objects, which may hold such numbers."""
    if isinstance(value, int):
        return -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER
    return value is None or isinstance(value, str)


def _ordered(value: object) -> object:
    """A copy with sorted names, and with numbers as they are to be written. Level by level: nothing recurses."""
    root = [value]
    level: list[Any] = [root]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for container in level:
            for place, member in container.items() if isinstance(container, dict) else enumerate(container):
                if isinstance(member, dict):
                    container[place] = {name: member[name] for name in sorted(member, key=_utf16)}
                    below.append(container[place])
                elif isinstance(member, list):
                    container[place] = list(member)
                    below.append(container[place])
                elif not is_plain(member) and isinstance(member, (int, float)):
                    container[place] = msgspec.Raw(number_text(member).encode())
        if not below:
            return root[0]
        level = below
    raise NotCanonical(f"it is nested more than {MAX_DEPTH} levels deep")


def _utf16(name: str) -> bytes:
    return name.encode("utf-16-be", "surrogatepass")
