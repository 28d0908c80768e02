"""NKeys: the Ed25519 keys of NATS, as text in base 32 with a prefix and a checksum. And the files that have them.

nats-py leaves this to a package that has no wheels; the keys are those that moothall uses anyway.
"""

import re
from base64 import b32decode, b32encode
from binascii import Error as NotBase32
from binascii import crc_hqx
from pathlib import Path
from typing import Final, NamedTuple

from moothall.errors import UsageError
from moothall.identity import PrivateKey, PublicKey

SEED: Final = 18 << 3  # S
USER: Final = 20 << 3  # U
SEED_LENGTH: Final = 36  # two bytes of prefix, 32 of the key, two of the checksum

_JWT: Final = re.compile(r"-+BEGIN NATS USER JWT-+\s+(\S+)\s")
_KEY: Final = re.compile(r"-+BEGIN USER NKEY SEED-+\s+(\S+)\s")


class Signer(NamedTuple):
    """A user of NATS. With a JWT, an account vouches for it; without one, NATS knows its key."""

    key: PrivateKey
    jwt: str = ""


def read_nkey(path: Path) -> Signer:
    """A file with a seed. Raises UsageError."""
    return Signer(_seed(_text(path), path))


def read_credentials(path: Path) -> Signer:
    """A file with a JWT and a seed, as `nsc` writes them. Raises UsageError."""
    text = _text(path)
    jwt, key = _JWT.search(text), _KEY.search(text)
    if jwt is None or key is None:
        raise UsageError(f"{path} has no JWT and seed of a user of NATS, as `nsc generate creds` writes them")
    return Signer(_seed(key[1], path), jwt[1])


def public_nkey(key: PublicKey) -> str:
    raw = bytes((USER,)) + key.raw
    return b32encode(raw + crc_hqx(raw, 0).to_bytes(2, "little")).decode().rstrip("=")


def _seed(text: str, path: Path) -> PrivateKey:
    wrong = UsageError(f"{path} has no seed of a user of NATS; one begins with SU")
    try:
        raw = b32decode(text.strip() + "=" * (-len(text.strip()) % 8))
    except (NotBase32, ValueError):
        raise wrong from None
    if len(raw) != SEED_LENGTH or crc_hqx(raw[:-2], 0).to_bytes(2, "little") != raw[-2:]:
        raise wrong
    if raw[0] & 0xF8 != SEED or ((raw[0] & 7) << 5 | (raw[1] & 0xF8) >> 3) != USER:
        raise wrong
    return PrivateKey(raw[2:-2])


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii") + "\n"
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not a text of NATS") from None
