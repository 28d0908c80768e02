"""Who you are: Ed25519 keys, the ids that follow from them, key files, rotation and revocation."""

from moothall.identity.certificates import (
    Revocation,
    Rotation,
    revoke,
    rotate,
    verify_chain,
    verify_revocation,
    verify_rotation,
)
from moothall.identity.keyfile import Identity, load, load_or_create, save, save_rotated
from moothall.identity.keys import PrivateKey, PublicKey
from moothall.identity.signatures import decode_signature, encode_signature, sign, verify

__all__ = [
    "Identity",
    "PrivateKey",
    "PublicKey",
    "Revocation",
    "Rotation",
    "decode_signature",
    "encode_signature",
    "load",
    "load_or_create",
    "revoke",
    "rotate",
    "save",
    "save_rotated",
    "sign",
    "verify",
    "verify_chain",
    "verify_revocation",
    "verify_rotation",
]
