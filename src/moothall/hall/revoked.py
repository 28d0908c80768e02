"""Keys that were revoked: with their notices in the store, and in the hall's memory (agentchat wire 3.7)."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from moothall.errors import InvalidKey, UsageError
from moothall.identity import PublicKey

# What the signature covers, and the signature. The rotations behind a key say nothing about its end.
NOTICE_FIELDS: Final[tuple[str, ...]] = (
    "type",
    "pubkey",
    "agent_id",
    "fingerprint",
    "reason",
    "timestamp",
    "signature",
)

Notice = Mapping[str, Any]


class RevokedKeys:
    """None is ever taken out. There are no more of them than keys that the store knows."""

    def __init__(self, numbered: Iterable[tuple[int, bytes]] = ()) -> None:
        """`numbered` are rows of the store, in their order."""
        self._keys: set[bytes] = set()
        self.last_number = 0  # of the rows that were read
        self.read(numbered)

    def __contains__(self, raw: object) -> bool:
        return raw in self._keys

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._keys)

    def add(self, raw: bytes) -> None:
        self._keys.add(raw)

    def read(self, numbered: Iterable[tuple[int, bytes]]) -> list[bytes]:
        """Learn from rows of the store. Returns the keys that were not known."""
        news: list[bytes] = []
        for number, raw in numbered:
            self.last_number = max(self.last_number, number)
            if raw not in self._keys:
                self._keys.add(raw)
                news.append(raw)
        return news


def encode_notice(notice: Notice) -> bytes:
    return json.dumps(notice).encode()


def decode_notices(content: bytes) -> dict[bytes, Notice]:
    """The list that former versions kept in a file: the first notice of each key."""
    try:
        notices = json.loads(content)
    except (ValueError, RecursionError):
        notices = None
    if not isinstance(notices, list) or not all(map(_is_notice, notices)):
        raise UsageError("not a list of revocation notices")
    try:
        return {PublicKey.from_pem(notice["pubkey"]).raw: notice for notice in reversed(notices)}
    except InvalidKey as error:
        raise UsageError(str(error)) from None


def _is_notice(found: object) -> bool:
    return isinstance(found, dict) and isinstance(found.get("pubkey"), str)
