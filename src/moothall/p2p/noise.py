"""Noise_XX_25519_ChaChaPoly_SHA256: the rules of the Noise protocol framework for one pattern (revision 34).

    -> e                  the initiator's ephemeral key
    <- e, ee, s, es       the responder's ephemeral and static keys
    -> s, se              the initiator's static key

Each message also carries a payload. From the second message on, payloads and static keys are encrypted. After the
third, each direction has a cipher of its own. `handshake.py` says what libp2p puts into the payloads.

Ciphers are those of `cryptography`: a frame of 64 bytes takes 1.5 us, and 5 to 7 with PyNaCl, which copies the key
for each. Keys are multiplied by libsodium, through PyNaCl.
"""

import hashlib
import hmac
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from nacl.bindings import crypto_scalarmult, crypto_scalarmult_base
from nacl.exceptions import RuntimeError as SodiumError

from moothall.p2p.faults import HandshakeFailed

KEY_BYTES: Final = 32
TAG_BYTES: Final = 16
_NAME: Final = b"Noise_XX_25519_ChaChaPoly_SHA256"  # as long as a hash, so it is the first hash
_NONCE_HEAD: Final = bytes(4)


class Cipher:
    """A key and the number of the next message. Encrypts or decrypts the messages of one direction, in order."""

    __slots__ = ("_cipher", "_count")

    def __init__(self, key: bytes) -> None:
        self._cipher = ChaCha20Poly1305(key)
        self._count = 0

    def encrypt(self, data: bytes, associated: bytes | None = None) -> bytes:
        nonce = _NONCE_HEAD + self._count.to_bytes(8, "little")
        self._count += 1
        return self._cipher.encrypt(nonce, data, associated)

    def decrypt(self, data: bytes, associated: bytes | None = None) -> bytes | None:
        """None if the message was changed, or is not the next one of its direction."""
        nonce = _NONCE_HEAD + self._count.to_bytes(8, "little")
        try:
            plain = self._cipher.decrypt(nonce, data, associated)
        except InvalidTag:
            return None
        self._count += 1
        return plain


class KeyPair:
    """An X25519 key and its public part. `private` is 32 bytes of randomness."""

    __slots__ = ("private", "public")

    def __init__(self, private: bytes) -> None:
        self.private = private
        self.public = crypto_scalarmult_base(private)

    def agree(self, public: bytes) -> bytes:
        """The secret that both keys share. Raises HandshakeFailed for a key that would make it known to all."""
        try:
            return crypto_scalarmult(self.private, public)
        except SodiumError:
            raise HandshakeFailed("the peer sent a key of small order") from None


class Transcript:
    """What both sides have seen so far, as a hash, and the keys that follow from it (`SymmetricState`)."""

    def __init__(self, prologue: bytes) -> None:
        self._chain = _NAME
        self._cipher: Cipher | None = None
        self.hash = _NAME
        self.mix_hash(prologue)

    def mix_hash(self, data: bytes) -> None:
        self.hash = hashlib.sha256(self.hash + data).digest()

    def mix_key(self, secret: bytes) -> None:
        self._chain, key = self._derived(secret)
        self._cipher = Cipher(key)

    def encrypt(self, data: bytes) -> bytes:
        sent = data if self._cipher is None else self._cipher.encrypt(data, self.hash)
        self.mix_hash(sent)
        return sent

    def decrypt(self, data: bytes) -> bytes:
        plain = data if self._cipher is None else self._cipher.decrypt(data, self.hash)
        if plain is None:
            raise HandshakeFailed("a message of the handshake does not decrypt")
        self.mix_hash(data)
        return plain

    def split(self) -> tuple[Cipher, Cipher]:
        """The ciphers of initiator and responder."""
        first, second = self._derived(b"")
        return Cipher(first), Cipher(second)

    def _derived(self, secret: bytes) -> tuple[bytes, bytes]:
        root = hmac.digest(self._chain, secret, "sha256")
        first = hmac.digest(root, b"\x01", "sha256")
        return first, hmac.digest(root, first + b"\x02", "sha256")


class NoiseXX:
    """One side of the handshake. Calls alternate between `write` and `read`; the initiator begins with `write`.

    After three messages `ciphers` is what this side sends and receives with.
    """

    def __init__(
        self, *, initiator: bool, static: KeyPair, ephemeral: KeyPair, prologue: bytes = b""
    ) -> None:
        self._initiator = initiator
        self._static = static
        self._ephemeral = ephemeral
        self._transcript = Transcript(prologue)
        self._messages = 0
        self._remote_ephemeral = b""
        self.remote_static = b""
        self.ciphers: tuple[Cipher, Cipher] | None = None

    def write(self, payload: bytes) -> bytes:
        transcript, parts = self._transcript, list[bytes]()
        if self._messages < 2:
            parts.append(self._ephemeral.public)
            transcript.mix_hash(self._ephemeral.public)
        if self._messages == 1:
            transcript.mix_key(self._ephemeral.agree(self._remote_ephemeral))
        if self._messages > 0:
            parts.append(transcript.encrypt(self._static.public))
            transcript.mix_key(self._static.agree(self._remote_ephemeral))
        parts.append(transcript.encrypt(payload))
        self._count()
        return b"".join(parts)

    def read(self, message: bytes) -> bytes:
        """The payload of a message. Raises HandshakeFailed."""
        transcript, position = self._transcript, 0
        if self._messages < 2:
            self._remote_ephemeral, position = _cut(message, position, KEY_BYTES)
            transcript.mix_hash(self._remote_ephemeral)
        if self._messages == 1:
            transcript.mix_key(self._ephemeral.agree(self._remote_ephemeral))
        if self._messages > 0:
            static, position = _cut(message, position, KEY_BYTES + TAG_BYTES)
            self.remote_static = transcript.decrypt(static)
            transcript.mix_key(self._ephemeral.agree(self.remote_static))
        payload = transcript.decrypt(message[position:])
        self._count()
        return payload

    def _count(self) -> None:
        self._messages += 1
        if self._messages == 3:
            first, second = self._transcript.split()
            self.ciphers = (first, second) if self._initiator else (second, first)


def _cut(message: bytes, position: int, size: int) -> tuple[bytes, int]:
    end = position + size
    if end > len(message):
        raise HandshakeFailed("a message of the handshake is cut off")
    return message[position:end], end
