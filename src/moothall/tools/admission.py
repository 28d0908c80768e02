"""Which HTTP requests reach the MCP server: where they came from, and what they prove.

A page in a browser can send requests to this machine. It names itself in Origin, and a page whose name was made to
point here (DNS rebinding) sends that name as Host. So only loopback names, the address that the connection arrived
at, and hosts that the user has allowed are answered. A token keeps out other machines and other users.
"""

import hmac
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, NamedTuple

from moothall.errors import UsageError
from moothall.wire.authority import Authority, parse_authority
from moothall.wire.origins import is_known_host, is_loopback, may_connect

LEAST_TOKEN: Final = 16  # characters
_ONCE: Final = frozenset((b"host", b"origin", b"authorization"))
_BEARER: Final = "bearer "


class Denial(NamedTuple):
    status: int
    text: str


@dataclass(frozen=True, slots=True)
class Admission:
    """`hosts` are names that a proxy passes on as Host. Without a token, requests need none."""

    token: str | None = field(default=None, repr=False)
    hosts: Collection[str] = frozenset()

    def denial(self, headers: Iterable[tuple[bytes, bytes]], arrived_at: str) -> Denial | None:
        """Why a request is not answered, or None. `arrived_at` is the address at our end of its connection."""
        given: dict[bytes, str] = {}
        for name, value in headers:
            if name in _ONCE:
                if name in given:
                    return Denial(400, f"There are two {name.decode()} headers.")
                given[name] = value.decode("latin-1")
        host = given.get(b"host")
        if not is_known_host(host, {*self.hosts, arrived_at.lower()}):
            return Denial(
                421, "This Host is not known here. Use a loopback name, or allow it with --allow-host."
            )
        origins = {f"{scheme}://{name}" for name in self.hosts for scheme in ("http", "https")}
        on_loopback = is_loopback(arrived_at)
        if not may_connect(
            given.get(b"origin"), host or "", secure=False, on_loopback=on_loopback, allowed=origins
        ):
            return Denial(403, "Pages of this Origin may not use this server.")
        if self.token is not None and not _is_same(given.get(b"authorization", ""), self.token):
            return Denial(401, "Send the token of this server as `Authorization: Bearer TOKEN`.")
        return None


def _is_same(header: str, token: str) -> bool:
    """Compares hashes, so that the time it takes says nothing about the token."""
    kind, given = header[: len(_BEARER)], header[len(_BEARER) :]
    same = hmac.compare_digest(sha256(given.strip().encode()).digest(), sha256(token.encode()).digest())
    return same and kind.lower() == _BEARER


def listening_place(text: str, token: str | None) -> Authority:
    """Where to listen, from `127.0.0.1:8765`.

    Raises UsageError for what is not host and port, for a place that other machines reach without a token, and for
    a token that can be guessed.
    """
    place = parse_authority(text, secure=False)
    _, colon, port = text.rpartition(":")
    if place is None or not colon or not port.isascii() or not port.isdigit():
        raise UsageError(f"--http {text[:80]!r} is not an address and a port; write it like 127.0.0.1:8765")
    if token is None and not is_loopback(place.host):
        raise UsageError(
            f"{place.host} can be reached from other machines, so a token is needed: set MOOTHALL_MCP_TOKEN or"
            " --token-file, or listen on 127.0.0.1"
        )
    if token is not None and (len(token) < LEAST_TOKEN or not token.isascii() or not token.isprintable()):
        raise UsageError(f"the token needs at least {LEAST_TOKEN} characters, all of them printable ASCII")
    return place
