"""The one place that makes and checks Ed25519 signatures, so that the library behind it can change.

libsodium refuses what makes Ed25519 ambiguous: a scalar that is not reduced, a key of small order, a key
that is not written canonically. So one message and key have no second signature that a stranger can make.
It does not multiply by the cofactor, as ZIP-215 does: what passes here passes at verifiers of either kind, and a
signer cannot make a signature that the hall takes and the offline verifier of a deal refuses.
"""

from binascii import Error as NotBase64
from binascii import a2b_base64, b2a_base64
from typing import Final

from nacl.bindings import crypto_sign, crypto_sign_open, crypto_sign_seed_keypair
from nacl.exceptions import BadSignatureError

SEED_BYTES: Final = 32
KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64

_SIGNATURE_DIGITS: Final = 86  # 64 bytes in base64, padding left out
_USUAL_DIGITS: Final = 88  # with it
_FROM_URL_SAFE: Final = str.maketrans("-_", "+/")


def verify(key: bytes, message: bytes, signature: bytes) -> bool:
    if len(key) != KEY_BYTES or len(signature) != SIGNATURE_BYTES:
        return False
    try:
        crypto_sign_open(signature + message, key)
    except BadSignatureError:
        return False
    return True


def sign(seed: bytes, message: bytes) -> bytes:
    return sign_expanded(expand(seed), message)


def expand(seed: bytes) -> bytes:
    """The seed followed by its public key, which libsodium signs with: half the work of `sign`."""
    if len(seed) != SEED_BYTES:
        raise ValueError(f"an Ed25519 seed has {SEED_BYTES} bytes")
    _, secret = crypto_sign_seed_keypair(seed)
    return secret


def sign_expanded(secret: bytes, message: bytes) -> bytes:
    """`secret` must come from `expand`: a seed joined to a foreign public key would give the seed away."""
    return crypto_sign(message, secret)[:SIGNATURE_BYTES]


def encode_signature(signature: bytes) -> str:
    return b2a_base64(signature, newline=False).decode()


def decode_signature(text: str) -> bytes | None:
    """Base64 as lenient as the reference reads it (agentchat wire 3.1); None unless it is 64 bytes."""
    if len(text) == _USUAL_DIGITS and text.endswith("=="):
        try:
            return a2b_base64(text, strict_mode=True)
        except (NotBase64, ValueError):
            pass  # perhaps the other alphabet
    digits = "".join(text.split()).rstrip("=").translate(_FROM_URL_SAFE)
    if len(digits) != _SIGNATURE_DIGITS:
        return None
    try:
        return a2b_base64(digits + "==", strict_mode=True)
    except (NotBase64, ValueError):
        return None
