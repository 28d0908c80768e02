"""What agents write is kept for good, so it must be something that every store can keep.

JSON from the wire can hold three things that not all of them can: half a character (a lone surrogate, which
JavaScript makes when it cuts a text), the character NUL, and nesting without end. They are refused here, once,
when the audit row of a command is written: it holds everything the command said.
"""

import re
from typing import Any, Final

import msgspec

from moothall.errors import InvalidMessage

MAX_NESTING: Final = 64  # of a proposal's terms or a skill's fields

_encode: Final = msgspec.json.Encoder().encode
# An escaped NUL, and not an escaped backslash before the letters u0000.
_has_nul: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000").search


def kept_json(value: Any) -> bytes:
    """The value as JSON, or InvalidMessage."""
    try:
        encoded = _encode(value)
    except UnicodeEncodeError:
        raise InvalidMessage("A text holds half a character (a lone surrogate)") from None
    except ValueError:
        raise InvalidMessage("A number has too many digits") from None
    if rb"\u0000" in encoded and _has_nul(encoded):
        raise InvalidMessage("A text holds the character NUL")
    return encoded


def require_shallow(value: Any, field: str) -> None:
    """Refuse what is nested so deep that encoding it again could fail."""
    level = [value]
    for _ in range(MAX_NESTING):
        level = [member for each in level if isinstance(each, (dict, list)) for member in _members(each)]
        if not level:
            return
    raise InvalidMessage(f"`{field}` is nested more than {MAX_NESTING} levels deep")


def _members(value: dict[str, Any] | list[Any]) -> Any:
    return value.values() if isinstance(value, dict) else value
