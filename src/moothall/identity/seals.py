"""What the hall vouches for: a record, and the hall's signature over all of it.

A record is a JSON object: a receipt, the file of a case, or the root of an epoch of the mesh's log. Its member
`hall_key` is the hall's public key, in hex, and `hall_sig` is the signature. Signed is the text

    <kind>|1|<SHA-256, in hex, of the canonical JSON of the record without `hall_sig`>

where the kind is MOOTHALL_RECEIPT, MOOTHALL_COURT_CASE or MOOTHALL_MESH_EPOCH. No other text that is signed in this
project begins with one of these and has two bars, and read as a keep packet each is malformed. So the signature is
good for nothing else.

A hall is known by its key. There is a shorter form, the key id: the first 32 hex digits of the SHA-256 of its PEM
text. Finding another key with the same id takes 2**128 attempts; 16 digits would be too few.
"""

import re
from binascii import a2b_base64
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final, Literal

from moothall.errors import InvalidKey
from moothall.identity.keys import PrivateKey, PublicKey
from moothall.wire.canonical import NotCanonical, canonical_json

Kind = Literal["MOOTHALL_RECEIPT", "MOOTHALL_COURT_CASE", "MOOTHALL_MESH_EPOCH"]
RECEIPT: Final = "MOOTHALL_RECEIPT"
CASE: Final = "MOOTHALL_COURT_CASE"
MESH_EPOCH: Final = "MOOTHALL_MESH_EPOCH"
VERSION: Final = 1

HALL_KEY: Final = "hall_key"
HALL_SIG: Final = "hall_sig"
KEY_ID_LENGTH: Final = 32  # hex digits

_KEY_ID: Final = re.compile(r"[0-9a-f]{32}\Z")
_HEX_KEY: Final = re.compile(r"[0-9a-f]{64}\Z")
_BASE64_KEY: Final = re.compile(r"[A-Za-z0-9+/]{43}=?\Z")
FORMS: Final = "a PEM text, 64 hex digits or 44 base64 digits of the key, or its key id of 32 hex digits"


class NoSeal(ValueError):
    """The record does not carry a signature of a hall that fits it."""


class Seal:
    """The hall's key, for signing records and nothing else."""

    __slots__ = ("_key", "hall_key")

    def __init__(self, key: PrivateKey) -> None:
        self._key = key
        self.hall_key = key.public.raw.hex()

    def sign(self, kind: Kind, canonical: bytes) -> str:
        """`canonical` is the canonical JSON of a record that names this key as `hall_key`."""
        return self._key.sign(seal_text(kind, canonical))


def seal_text(kind: Kind, canonical: bytes) -> str:
    return f"{kind}|{VERSION}|{sha256(canonical).hexdigest()}"


def sealed_by(kind: Kind, record: Mapping[str, Any]) -> PublicKey:
    """The key of the hall that signed this record. Raises NoSeal, which says why nothing is vouched for."""
    key, sig = record.get(HALL_KEY), record.get(HALL_SIG)
    if key is None or sig is None:
        raise NoSeal("there is no hall signature")
    if not isinstance(key, str) or not isinstance(sig, str):
        raise NoSeal("the hall signature is not a text")
    if not _HEX_KEY.match(key):
        raise NoSeal("the hall's key is not 64 lower-case hex digits")
    hall = PublicKey(bytes.fromhex(key))
    try:
        canonical = canonical_json({name: value for name, value in record.items() if name != HALL_SIG})
    except NotCanonical as error:
        raise NoSeal(f"the record cannot be checked: {error}") from None
    if not hall.verifies(seal_text(kind, canonical), sig):
        raise NoSeal("the hall signature does not fit: the record was changed after the hall signed it")
    return hall


def key_id(key: PublicKey) -> str:
    """A key, short enough for people to compare and too long to be forged. An agent's id is its beginning."""
    return sha256(key.pem.encode()).hexdigest()[:KEY_ID_LENGTH]


def read_hall(text: str) -> str:
    """The key id of the hall that a user names, in any of the `FORMS`. Raises InvalidKey."""
    text = text.strip()
    if "-----BEGIN" in text:
        return key_id(PublicKey.from_pem(text))
    if _HEX_KEY.match(text.lower()):
        return key_id(PublicKey(bytes.fromhex(text)))
    if _BASE64_KEY.match(text):
        return key_id(PublicKey(a2b_base64(text.removesuffix("=") + "=")))
    if _KEY_ID.match(text.lower()):
        return text.lower()
    raise InvalidKey(f"not the key of a hall: give {FORMS}")
