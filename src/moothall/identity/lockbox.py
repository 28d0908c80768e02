"""A private key as it is kept in a store that others may read: encrypted with a secret, or plain.

The record is a JSON object: `version`, `public` (the public key, in hex), and either `private` (PKCS#8, PEM) or a
locked box: `salt`, `nonce` and `box`, in hex. The box of version 1 is XChaCha20-Poly1305 (IETF) of the PEM text.
Its key is Argon2id of the secret and the salt, with the cost below; the associated data name the version and the
public key, so that no box is good for another key. The cost belongs to the version: a record cannot ask for
another one."""

from typing import Final

import msgspec
from nacl.bindings import (
    crypto_aead_xchacha20poly1305_ietf_decrypt,
    crypto_aead_xchacha20poly1305_ietf_encrypt,
)
from nacl.exceptions import CryptoError
from nacl.pwhash import argon2id

from moothall.errors import InvalidKey, UsageError
from moothall.identity.keys import PrivateKey, PublicKey

VERSION: Final = 1
SALT_BYTES: Final = argon2id.SALTBYTES
NONCE_BYTES: Final = 24

_PASSES: Final = 3
_MEMORY: Final = 64 * 1024 * 1024  # bytes; about a tenth of a second, once per start
_KEY_BYTES: Final = 32
_DAMAGED: Final = "the hall's key in the store cannot be read; restore it from a backup"


class _Record(msgspec.Struct, frozen=True, omit_defaults=True):
    version: int
    public: str
    private: str = ""
    salt: str = ""
    nonce: str = ""
    box: str = ""


def is_locked(record: bytes) -> bool:
    return bool(_read(record).box)


def public_of(record: bytes) -> PublicKey:
    """The key of a record, without the secret. Nothing proves it before the record was opened."""
    try:
        return PublicKey(bytes.fromhex(_read(record).public))
    except (ValueError, InvalidKey):
        raise UsageError(_DAMAGED) from None


def plain(key: PrivateKey) -> bytes:
    return msgspec.json.encode(_Record(version=VERSION, public=key.public.raw.hex(), private=key.to_pem()))


def locked(key: PrivateKey, secret: str, *, salt: bytes, nonce: bytes) -> bytes:
    """`salt` and `nonce` are SALT_BYTES and NONCE_BYTES of randomness, drawn for this record."""
    public = key.public.raw
    box = crypto_aead_xchacha20poly1305_ietf_encrypt(
        key.to_pem().encode(), _associated(public), nonce, _derived(secret, salt)
    )
    return msgspec.json.encode(
        _Record(version=VERSION, public=public.hex(), salt=salt.hex(), nonce=nonce.hex(), box=box.hex())
    )


def opened(record: bytes, secret: str) -> PrivateKey:
    """The key of a record, plain or locked. Raises UsageError if the secret is missing or not the right one."""
    found = _read(record)
    if found.box and not secret:
        raise UsageError("the hall's key in the store is encrypted: set `store_secret_file` to open it")
    try:
        key = PrivateKey.from_pem(_unlocked(found, secret) if found.box else found.private)
    except InvalidKey:
        raise UsageError(_DAMAGED) from None
    if key.public.raw.hex() != found.public:
        raise UsageError("the hall's key in the store does not fit its public key; restore it from a backup")
    return key


def _unlocked(found: _Record, secret: str) -> str:
    try:
        salt, nonce, box = (bytes.fromhex(text) for text in (found.salt, found.nonce, found.box))
        public = bytes.fromhex(found.public)
        return crypto_aead_xchacha20poly1305_ietf_decrypt(
            box, _associated(public), nonce, _derived(secret, salt)
        ).decode()
    except (CryptoError, ValueError, TypeError):
        raise UsageError(
            "`store_secret_file` does not hold the secret that the hall's key in the store was encrypted with:"
            " name the right file"
        ) from None


def _read(record: bytes) -> _Record:
    try:
        found = msgspec.json.decode(record, type=_Record)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise UsageError(_DAMAGED) from None
    if found.version != VERSION:
        raise UsageError(
            f"the hall's key in the store has format {found.version}, this program knows {VERSION}:"
            " upgrade moothall"
        )
    return found


def _associated(public: bytes) -> bytes:
    return b"moothall hall key %d " % VERSION + public


def _derived(secret: str, salt: bytes) -> bytes:
    return argon2id.kdf(_KEY_BYTES, secret.encode(), salt, opslimit=_PASSES, memlimit=_MEMORY)
