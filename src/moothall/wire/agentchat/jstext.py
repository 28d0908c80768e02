"""The JavaScript rules for text and numbers that leak onto the wire (agentchat wire 2).

Whatever is hashed or signed was once turned into text by a JavaScript program, so a hall that wants to
check the signature has to write the same text, byte for byte. Nothing here recurses: a value nested as
deep as the JSON parser allows is still only a value.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from json.encoder import encode_basestring
from typing import Final

# Beyond this a double no longer holds every integer (agentchat wire 2.1).
MAX_SAFE_INTEGER: Final = 2**53
# Number::toString leaves plain notation here, on either side (agentchat wire 2.1).
_PLAIN_DIGITS: Final = 21
_PLAIN_ZEROS: Final = 6
# The last array index of ECMAScript: larger numerals are ordinary keys.
_LAST_INDEX: Final = 2**32 - 2

_INDEX: Final = re.compile(r"(?:0|[1-9][0-9]{0,9})\Z")
_SURROGATE: Final = re.compile(r"[\ud800-\udfff]")
# TAB LF VT FF CR, BOM, the two separators and the Zs category (agentchat wire 2.6). Python's own
# strip() would also take U+001C to U+001F and U+0085, and leave U+FEFF.
_BLANKS: Final = (
    "\t\n\v\f\r \xa0\ufeff\u2028\u2029\u1680"
    "\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
)


def number_text(value: int | float) -> str:
    """What `String(value)` gives once JavaScript has read the number into a double."""
    if isinstance(value, int) and -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
        return str(int(value))
    double = _double(value)
    if not math.isfinite(double):
        return _infinity_text(double)
    if -MAX_SAFE_INTEGER < double < MAX_SAFE_INTEGER and double.is_integer():
        return str(int(double))
    return _decimal_text(double)


def _double(value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _infinity_text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _decimal_text(value: float) -> str:
    # repr() finds the same shortest round-trip digits as ECMAScript; only the notation differs.
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    written = (whole + fraction).lstrip("0")
    leading_zeros = len(whole + fraction) - len(written)
    # The value is 0.DIGITS times ten to the power of `point`.
    point = len(whole) - leading_zeros + int(exponent or 0)
    digits = written.rstrip("0")
    return sign + _notation(digits, point)


def _notation(digits: str, point: int) -> str:
    if len(digits) <= point <= _PLAIN_DIGITS:
        return digits.ljust(point, "0")
    if 0 < point <= _PLAIN_DIGITS:
        return f"{digits[:point]}.{digits[point:]}"
    if -_PLAIN_ZEROS < point <= 0:
        return f"0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{point - 1:+d}"


def json_text(value: object, keys: Sequence[str] | None = None) -> str:
    """What `JSON.stringify(value, keys)` gives for a value that came out of a JSON parser.

    A list of keys picks and orders the members of every object, however deep. The cost is that of the value: an
    object is asked for its own members, never for each of the keys.
    """
    ranks = None if keys is None else {key: rank for rank, key in enumerate(dict.fromkeys(keys))}
    return "".join(_json_pieces(value, ranks))


def _json_pieces(value: object, ranks: Mapping[str, int] | None) -> Iterator[str]:
    # Each open array or object is one frame: its remaining members and the bracket that closes it.
    frames: list[tuple[Iterator[tuple[str, object]], str]] = [(iter([("", value)]), "")]
    separator = ""
    while frames:
        members, closing = frames[-1]
        for prefix, member in members:
            yield separator
            yield prefix
            if isinstance(member, dict):
                yield "{"
                frames.append((_object_members(member, ranks), "}"))
                separator = ""
                break
            if isinstance(member, (list, tuple)):
                yield "["
                frames.append((iter([("", item) for item in member]), "]"))
                separator = ""
                break
            yield _scalar_text(member)
            separator = ","
        else:
            yield closing
            frames.pop()
            separator = ","


def _object_members(
    members: dict[str, object], ranks: Mapping[str, int] | None
) -> Iterator[tuple[str, object]]:
    """Without a list of keys, those that are array indices come first, ascending; the others keep their order
    (agentchat wire 2.2)."""
    if ranks is not None:
        for key in sorted((key for key in members if key in ranks), key=ranks.__getitem__):
            yield f"{_string_text(key)}:", members[key]
        return
    indices = sorted((key for key in members if _is_index(key)), key=int)
    names = (key for key in members if not _is_index(key)) if indices else members
    for key in (*indices, *names):
        yield f"{_string_text(key)}:", members[key]


def _is_index(key: str) -> bool:
    return _INDEX.match(key) is not None and int(key) <= _LAST_INDEX


def _scalar_text(value: object) -> str:
    if isinstance(value, str):
        return _string_text(value)
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, (int, float)):
        double = _double(value)
        return number_text(value) if math.isfinite(double) else "null"
    raise TypeError(f"{type(value).__name__} has no JSON text")


def _string_text(text: str) -> str:
    quoted = encode_basestring(text)
    if quoted.isascii() or not _SURROGATE.search(quoted):
        return quoted
    return _SURROGATE.sub(lambda lone: f"\\u{ord(lone[0]):04x}", _join_surrogates(quoted))


def _join_surrogates(text: str) -> str:
    """A high and a low surrogate side by side are one character, as they are in JavaScript."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def utf8(text: str) -> bytes:
    """The bytes JavaScript signs and hashes: a lone surrogate becomes U+FFFD instead of an error."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", _join_surrogates(text)).encode()


def utf16_length(text: str) -> int:
    """`text.length` in JavaScript (agentchat wire 2.4)."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def trim(text: str) -> str:
    """`text.trim()` in JavaScript (agentchat wire 2.6)."""
    return text.strip(_BLANKS)


def round_half_up(x: float) -> int:
    """`Math.round(x)` of a finite number: ties go towards positive infinity (agentchat wire 2.3)."""
    below = math.floor(x)
    # floor(x + 0.5) would be wrong where the sum rounds: 0.49999999999999994 rounds to 0.
    return below + 1 if x - below >= 0.5 else below


def field_text(value: object) -> str:
    """`value || ''` put into a signing text (agentchat wire 2.7)."""
    if isinstance(value, str):
        return value
    # Unlike in Python, an empty array or object is true and NaN is false.
    if value is None or value == 0 or (isinstance(value, float) and math.isnan(value)):
        return ""
    if not isinstance(value, (list, tuple)):
        return _leaf_text(value)
    return ",".join(_leaf_text(leaf) for leaf in _leaves(value))


def _leaves(value: object) -> Iterator[object]:
    """An array turns into its elements joined by commas, nested ones too; an empty one is a blank element."""
    waiting = [value]
    while waiting:
        element = waiting.pop()
        if isinstance(element, (list, tuple)) and element:
            waiting.extend(reversed(element))
        else:
            yield element


def _leaf_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, (list, tuple)):
        return ""
    if isinstance(value, dict):
        return "[object Object]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return number_text(value)
    raise TypeError(f"{type(value).__name__} has no place in a signing text")
