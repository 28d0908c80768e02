"""The hash that stands for an item of evidence (agentchat wire 13.5)."""

from hashlib import sha256
from typing import Any

from moothall.wire.agentchat.jstext import json_text, utf8


def item_hash(item: dict[str, Any]) -> str:
    return sha256(utf8(canonical_text(item))).hexdigest()


def canonical_text(item: dict[str, Any]) -> str:
    """The item's JSON with its keys sorted. The same list of keys also picks and orders the members of objects
    inside it: that is what JSON.stringify does with such a list, and what the reference hashes."""
    return json_text(item, sorted(item, key=_utf16))


def _utf16(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")
