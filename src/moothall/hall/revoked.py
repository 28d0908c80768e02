"""The list of revoked keys: signed notices, as their owners brought them (agentchat wire 3.7)."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from moothall.errors import InvalidKey, UsageError
from moothall.identity import PublicKey

REVOKED_FILE: Final = "revoked.json"

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
    def __init__(self, notices: Iterable[Notice] = ()) -> None:
        self._notices = {PublicKey.from_pem(notice["pubkey"]).raw: notice for notice in notices}
        self.on_disk = len(self._notices)  # how many of them; none is ever taken out

    def __contains__(self, raw: object) -> bool:
        return raw in self._notices

    def __len__(self) -> int:
        return len(self._notices)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._notices)

    def add(self, key: PublicKey, notice: Notice) -> None:
        """The first notice of a key stays."""
        self._notices.setdefault(key.raw, notice)

    def notices(self) -> list[Notice]:
        return list(self._notices.values())


def encode_revoked(notices: list[Notice]) -> bytes:
    return json.dumps(notices, indent=2).encode() + b"\n"


def decode_revoked(content: bytes) -> RevokedKeys:
    try:
        notices = json.loads(content)
    except (ValueError, RecursionError):
        notices = None
    if not isinstance(notices, list) or not all(map(_is_notice, notices)):
        raise UsageError("not a list of revocation notices")
    try:
        return RevokedKeys(notices)
    except InvalidKey as error:
        raise UsageError(str(error)) from None


def _is_notice(found: object) -> bool:
    return isinstance(found, dict) and isinstance(found.get("pubkey"), str)
