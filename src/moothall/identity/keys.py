"""Ed25519 keys: reading them, writing them, and the ids that follow from them.

A public key is parsed and written anew before it is hashed, so that one key has one id however its PEM
text was spelled (the reference hashes the text as it came, agentchat wire 3.2). On the canonical spelling,
which is what clients send, both ways give the same id.

A private key shows its fingerprint and nothing else, wherever Python might print, copy or pickle it.
"""

import re
from binascii import Error as NotBase64
from binascii import a2b_base64, b2a_base64
from hashlib import sha256
from typing import Final, NoReturn, Self

from moothall.errors import InvalidKey
from moothall.identity.signatures import (
    KEY_BYTES,
    SEED_BYTES,
    decode_signature,
    encode_signature,
    expand,
    sign_expanded,
    verify,
)
from moothall.wire.agentchat.jstext import utf8

FINGERPRINT_LENGTH: Final = 16  # agentchat wire 3.2
AGENT_ID_LENGTH: Final = 8  # seed 001, identity
MAX_PEM_LENGTH: Final = 8192  # a canonical text has 113 characters; the rest is room for text around it

# The DER of an Ed25519 key is one fixed prefix and 32 bytes (RFC 8410; agentchat wire 3.1), so neither
# reading nor writing it needs a parser.
_SPKI_PREFIX: Final = bytes.fromhex("302a300506032b6570032100")
_PKCS8_PREFIX: Final = bytes.fromhex("302e020100300506032b657004220420")

# The SPKI prefix fills 16 base64 digits exactly, so a canonical text differs only in 44 places.
_PEM_HEAD: Final = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA"
_PEM_TAIL: Final = "\n-----END PUBLIC KEY-----\n"
_PEM_HEAD_BYTES: Final = _PEM_HEAD.encode()
_PEM_TAIL_BYTES: Final = _PEM_TAIL.encode()
_PEM_LENGTH: Final = len(_PEM_HEAD) + 44 + len(_PEM_TAIL)
_DIGITS: Final = slice(len(_PEM_HEAD), -len(_PEM_TAIL))

_PUBLIC_BLOCK: Final = re.compile(
    r"-----BEGIN PUBLIC KEY-----([A-Za-z0-9+/=\s]*)-----END PUBLIC KEY-----", re.ASCII
)
_PRIVATE_BLOCK: Final = re.compile(
    r"-----BEGIN PRIVATE KEY-----([A-Za-z0-9+/=\s]*)-----END PRIVATE KEY-----", re.ASCII
)
_PRIVATE_LABEL: Final = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----")


class PublicKey:
    """An Ed25519 public key. Equal keys are equal objects, whatever text they came from. `raw` is its 32 bytes,
    `fingerprint` 16 hex digits of its hash.
    """

    __slots__ = ("fingerprint", "raw")

    raw: bytes
    fingerprint: str

    def __init__(self, raw: bytes) -> None:
        if len(raw) != KEY_BYTES:
            raise InvalidKey(f"an Ed25519 public key has {KEY_BYTES} bytes, not {len(raw)}")
        object.__setattr__(self, "raw", raw)
        object.__setattr__(self, "fingerprint", sha256(_pem_bytes(raw)).hexdigest()[:FINGERPRINT_LENGTH])

    @classmethod
    def from_pem(cls, text: str) -> Self:
        """Return the key in the PEM `text`. Raises InvalidKey when there is none in it."""
        return cls(_usual_raw(text) or _tolerant_raw(text))

    @property
    def pem(self) -> str:
        """The key as PEM text, in its one canonical spelling."""
        return _pem_bytes(self.raw).decode()

    def agent_id(self, length: int = AGENT_ID_LENGTH) -> str:
        """Return its id without @, with `length` digits: 8 to 16. Raises ValueError for another length."""
        if not AGENT_ID_LENGTH <= length <= FINGERPRINT_LENGTH:
            raise ValueError(f"an agent id has {AGENT_ID_LENGTH} to {FINGERPRINT_LENGTH} digits")
        return self.fingerprint[:length]

    def verifies(self, text: str, signature: str) -> bool:
        """Return whether this key made the base64 `signature` of `text`."""
        raw = decode_signature(signature)
        return raw is not None and verify(self.raw, utf8(text), raw)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PublicKey) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(self.raw)

    def __repr__(self) -> str:
        return f"PublicKey({self.fingerprint})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a public key does not change")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("a public key does not change")

    def __reduce__(self) -> tuple[type["PublicKey"], tuple[bytes]]:
        return PublicKey, (self.raw,)


def _pem_bytes(raw: bytes) -> bytes:
    return _PEM_HEAD_BYTES + b2a_base64(raw, newline=False) + _PEM_TAIL_BYTES


def _usual_raw(text: str) -> bytes | None:
    """The key in a text laid out as clients write it, or None. This is on the path of every handshake."""
    if len(text) != _PEM_LENGTH or not text.startswith(_PEM_HEAD) or not text.endswith(_PEM_TAIL):
        return None
    raw = _decode_base64(text[_DIGITS])
    return raw if raw is not None and len(raw) == KEY_BYTES else None


def _tolerant_raw(text: str) -> bytes:
    _refuse_odd_text(text)
    if _PRIVATE_LABEL.search(text):
        raise InvalidKey(
            "this is a private key: keep it secret, replace it if it was sent, send the public key"
        )
    block = _PUBLIC_BLOCK.search(text)
    if block is None:
        raise InvalidKey("not a public key in PEM form (BEGIN PUBLIC KEY)")
    der = _decode_base64("".join(block[1].split()))
    if der is None:
        raise InvalidKey("the PEM text between BEGIN PUBLIC KEY and END PUBLIC KEY is not base64")
    if len(der) != len(_SPKI_PREFIX) + KEY_BYTES or not der.startswith(_SPKI_PREFIX):
        raise InvalidKey("not an Ed25519 key: other kinds of key are not used here")
    return der[len(_SPKI_PREFIX) :]


def _refuse_odd_text(text: str) -> None:
    if len(text) > MAX_PEM_LENGTH:
        raise InvalidKey(f"a PEM text longer than {MAX_PEM_LENGTH} characters is not read")
    if not text.isascii() or "\0" in text:
        raise InvalidKey("a PEM text holds ASCII characters only, and no NUL")


def _decode_base64(digits: str) -> bytes | None:
    try:
        return a2b_base64(digits, strict_mode=True)
    except (NotBase64, ValueError):
        return None


class PrivateKey:
    """The signing half of an identity."""

    __slots__ = ("_secret", "public")

    _secret: bytes
    public: PublicKey

    def __init__(self, seed: bytes) -> None:
        """`seed` is 32 bytes from the operating system's random source, or from a key file."""
        if len(seed) != SEED_BYTES:
            raise InvalidKey(f"an Ed25519 private key has {SEED_BYTES} bytes, not {len(seed)}")
        secret = expand(seed)
        object.__setattr__(self, "_secret", secret)
        object.__setattr__(self, "public", PublicKey(secret[SEED_BYTES:]))

    @classmethod
    def from_pem(cls, text: str) -> Self:
        """Return the key in the PEM `text`. Raises InvalidKey when there is none in it."""
        _refuse_odd_text(text)
        block = _PRIVATE_BLOCK.search(text)
        der = block and _decode_base64("".join(block[1].split()))
        if not der:
            raise InvalidKey("not a private key in PKCS#8 PEM form (BEGIN PRIVATE KEY)")
        if len(der) != len(_PKCS8_PREFIX) + SEED_BYTES or not der.startswith(_PKCS8_PREFIX):
            raise InvalidKey("not an Ed25519 private key: other kinds of key are not used here")
        return cls(der[len(_PKCS8_PREFIX) :])

    def to_pem(self) -> str:
        """Return the private key itself as PEM, for a key file: nothing else may see it."""
        digits = b2a_base64(_PKCS8_PREFIX + self._secret[:SEED_BYTES], newline=False).decode()
        return f"-----BEGIN PRIVATE KEY-----\n{digits}\n-----END PRIVATE KEY-----\n"

    def sign(self, text: str) -> str:
        """Return the base64 signature of the UTF-8 bytes of `text` (agentchat wire 3.1)."""
        return encode_signature(sign_expanded(self._secret, utf8(text)))

    def sign_bytes(self, message: bytes) -> bytes:
        """Return the 64 bytes of the signature of `message`, for wires that are not text."""
        return sign_expanded(self._secret, message)

    def __eq__(self, other: object) -> bool:
        # The public half decides, so that comparing takes no time that depends on the secret.
        return isinstance(other, PrivateKey) and self.public == other.public

    def __hash__(self) -> int:
        return hash((PrivateKey, self.public))

    def __repr__(self) -> str:
        return f"PrivateKey({self.public.fingerprint})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a private key does not change")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("a private key does not change")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a private key is not pickled: save it in a key file")


def expanded(key: PrivateKey) -> bytes:
    """The secret as `signatures.expand` makes it, for a host of the mesh: nothing else may see it."""
    return key._secret  # noqa: SLF001  # a method would offer it to every program that has the key
