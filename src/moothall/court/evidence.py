"""Evidence: how much of it there can be, and the hash that stands for an item (agentchat wire 13.5)."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

from moothall.errors import InvalidMessage
from moothall.market.storable import bounded_json, require_bounded
from moothall.wire.agentchat.jstext import json_text, utf8, utf16_length

MAX_ITEMS: Final = 10  # seed 000, submit evidence 2
MAX_STATEMENT: Final = 2000  # agentchat wire 13.1
MAX_REASONING: Final = 500
# What one frame can hold (seed 001, transport), written out: 1e15 comes as four characters and leaves as eighteen.
# Many WebSocket clients hang up on more than a mebibyte, and CASE_READY carries the evidence of both parties.
MAX_EVIDENCE: Final = 256 * 1024  # bytes


def require_presentable(items: Sequence[dict[str, Any]], statement: str) -> None:
    """Cheap checks first, and all of them before a text is built that is signed or hashed."""
    if len(items) > MAX_ITEMS:
        raise InvalidMessage(f"Invalid `items`: at most {MAX_ITEMS}")
    if utf16_length(statement) > MAX_STATEMENT:
        raise InvalidMessage(f"Invalid `statement`: at most {MAX_STATEMENT} characters")
    require_bounded(items, "items")
    bounded_json(items, "items", MAX_EVIDENCE)


def require_short(text: str, field: str, most: int = MAX_REASONING) -> None:
    """What parties and arbiters say stays in the file of the case, and that has to remain of a size that clients
    take, however many arbiters there were."""
    if utf16_length(text) > most:
        raise InvalidMessage(f"Invalid `{field}`: at most {most} characters")


def item_hash(item: dict[str, Any]) -> str:
    return sha256(utf8(canonical_text(item))).hexdigest()


def canonical_text(item: dict[str, Any]) -> str:
    """The item's JSON with its keys sorted. The same list of keys also picks and orders the members of objects
    inside it: that is what JSON.stringify does with such a list, and what the reference hashes."""
    return json_text(item, sorted(item, key=_utf16))


def _utf16(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")
