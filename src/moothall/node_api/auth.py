"""Who may use the API of a node: the master secret, read keys, and the secret that a node makes for itself.

Three levels: MASTER for what acts in the agent's name, READ for what only looks, OPEN for all (mesh wire 13).
Keys are compared as hashes, all of them, so that the time it takes says nothing about any.
"""

import hmac
import re
import secrets
import stat
import string
from collections.abc import Collection, Mapping
from enum import Enum, auto
from hashlib import sha256
from pathlib import Path
from typing import Final

from moothall.errors import NodeRefused, UsageError
from moothall.identity.keyfile import put_file
from moothall.wire.authority import Authority, parse_authority
from moothall.wire.origins import is_loopback

TOKEN_FILE: Final = "dashboard_token"  # noqa: S105  # its name, which programs around the reference know
TOKEN_LENGTH: Final = 32
LEAST_SECRET: Final = 8  # characters

_ALPHABET: Final = string.ascii_letters + string.digits
_is_token: Final = re.compile(rf"[A-Za-z0-9]{{{TOKEN_LENGTH}}}").fullmatch
_BEARER: Final = "Bearer "


class Level(Enum):
    MASTER = auto()
    READ = auto()
    OPEN = auto()


class Keys:
    def __init__(self, master: str, read: Collection[str] = ()) -> None:
        self._master = _hash(master)
        self._read = [_hash(key) for key in read]

    def require(self, given: str | None, level: Level) -> None:
        """Raises NodeRefused (401)."""
        if not self.admits(given, level):
            key = "the secret" if level is Level.MASTER else "the secret or a read key"
            raise NodeRefused(401, f"unauthorized: send {key} of this node as `Authorization: Bearer KEY`")

    def admits(self, given: str | None, level: Level) -> bool:
        if level is Level.OPEN:
            return True
        hashed = _hash(given or "")
        is_master = hmac.compare_digest(hashed, self._master)
        fitting = [key for key in self._read if hmac.compare_digest(hashed, key)]
        return is_master or (bool(fitting) and level is Level.READ)


def bearer(headers: Mapping[str, str]) -> str | None:
    """The key in the Authorization header. The word Bearer has the reference's spelling."""
    header = headers.get("authorization", "")
    return header[len(_BEARER) :] if header.startswith(_BEARER) else None


def api_place(text: str) -> Authority:
    """Where the API listens, from `127.0.0.1:9090`. Raises UsageError."""
    place = parse_authority(text, secure=False)
    _, colon, port = text.rpartition(":")
    if place is None or not colon or not (port.isascii() and port.isdigit()):
        raise UsageError(
            f"--api-addr {text[:80]!r} is not an address and a port; write it like 127.0.0.1:9090"
        )
    return place


def master_secret(given: str | None, place: Authority, log_dir: Path) -> tuple[str, Path | None]:
    """The secret that the API asks for, and the file that holds it if the node made it.

    A file of an earlier start is used again, unless others can read it. Raises UsageError for an address that other
    machines reach without a secret, for a secret that is too short, and for a folder that cannot be written to.
    """
    if given:
        if len(given) < LEAST_SECRET or not given.isascii() or not given.isprintable():
            raise UsageError(
                f"the secret of the API needs at least {LEAST_SECRET} characters, all of them printable ASCII;"
                " set another one in ZX01_API_SECRET"
            )
        return given, None
    if not is_loopback(place.host):
        raise UsageError(
            f"{place.host} can be reached from other machines, so the API needs a secret: set ZX01_API_SECRET,"
            " or use --api-addr 127.0.0.1:9090"
        )
    path = log_dir / TOKEN_FILE
    token = _kept(path)
    if token is None:
        token = "".join(secrets.choice(_ALPHABET) for _ in range(TOKEN_LENGTH))
        try:
            put_file(token.encode(), path, overwrite=True)
        except OSError as error:
            raise UsageError(
                f"{path}: {error.strerror}. Choose a folder that you can write to with --log-dir"
            ) from None
    return token, path


def _kept(path: Path) -> str | None:
    """The token of an earlier start, unless others could have read it."""
    try:
        text = path.read_text("ascii").strip()
        is_private = not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
    except (OSError, UnicodeDecodeError):
        return None
    return text if is_private and _is_token(text) else None


def _hash(key: str) -> bytes:
    return sha256(key.encode("utf-8", "surrogateescape")).digest()
