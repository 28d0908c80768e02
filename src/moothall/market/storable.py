"""What agents write is kept for good, so it must be something that every store can keep.

JSON from the wire can hold three things that not all of them can: a lone surrogate (half a character, which
JavaScript makes when it cuts a text), the character NUL, and nesting without end. They are refused here, once,
when the audit row of a command is written: it holds everything the command said.

JSON of any shape that is signed or hashed is bounded here too, before its text is built: `require_bounded` limits
its depth and its number of values, `bounded_json` its bytes.
"""

import re
from typing import Any, Final

import msgspec

from moothall.errors import InvalidMessage

MAX_NESTING: Final = 64  # levels, of a proposal's terms, a skill's fields or an item of evidence
# Members of objects and elements of arrays, together: a text of that many costs milliseconds, and evidence of ten
# thousand values is nothing that arbiters read. A frame can hold 130,000.
MAX_VALUES: Final = 10_000

_encode: Final = msgspec.json.Encoder().encode
# An escaped NUL, and not an escaped backslash before the letters u0000.
_has_nul: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000").search


def kept_json(value: Any) -> bytes:
    """The value as JSON, or InvalidMessage."""
    try:
        encoded = _encode(value)
    except UnicodeEncodeError:
        raise InvalidMessage("A text holds a lone surrogate") from None
    except ValueError:
        raise InvalidMessage("A number has too many digits") from None
    if rb"\u0000" in encoded and _has_nul(encoded):
        raise InvalidMessage("A text holds the character NUL")
    return encoded


def bounded_json(value: Any, field: str, most: int) -> bytes:
    """The value as JSON of at most so many bytes, or InvalidMessage. Ask `require_bounded` first."""
    encoded = kept_json(value)
    if len(encoded) > most:
        raise InvalidMessage(f"`{field}` has more than {most} bytes of JSON, with all numbers written out")
    return encoded


def require_bounded(value: Any, field: str, most: int = MAX_VALUES) -> None:
    """Refuse a value that is nested so deep that encoding it again could fail, or that holds too many others."""
    level, found = [value], 0
    for _ in range(MAX_NESTING):
        containers = [each for each in level if isinstance(each, (dict, list))]
        found += sum(map(len, containers))
        if found > most:
            raise InvalidMessage(f"`{field}` holds more than {most} values")
        level = [member for each in containers for member in _members(each)]
        if not level:
            return
    raise InvalidMessage(f"`{field}` is nested more than {MAX_NESTING} levels deep")


def _members(value: dict[str, Any] | list[Any]) -> Any:
    return value.values() if isinstance(value, dict) else value
