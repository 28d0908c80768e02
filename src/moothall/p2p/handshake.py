"""The secure channel of libp2p (`/noise`): who the peer is, and frames that only it can read (mesh wire 6.1).

Every message, in the handshake and after it, follows its length in two bytes, big-endian. In the second and the
third message each side sends its identity key, and a signature of that key over the X25519 key that it uses here.
So the signature proves: the holder of the identity key made this channel's key. The handshake itself proves that
the other end of the channel holds that.
"""

from typing import Final

from moothall.identity.signatures import KEY_BYTES, sign_expanded, verify
from moothall.p2p import protobuf
from moothall.p2p.faults import BrokenChannel, HandshakeFailed, MalformedMessage
from moothall.p2p.keys import decode_key, encode_key
from moothall.p2p.noise import TAG_BYTES, Cipher, KeyPair, NoiseXX
from moothall.wire.mesh.peer_ids import peer_id

PROTOCOL: Final = "/noise"
MAX_FRAME: Final = 65_535  # bytes, without the length
MAX_PLAIN: Final = MAX_FRAME - TAG_BYTES
# Messages of the handshake have 250 bytes with Ed25519 keys; extensions for other transports need some more.
MAX_HANDSHAKE_FRAME: Final = 4096

_LENGTH: Final = 2
_SIGNED: Final = b"noise-libp2p-static-key:"
_IDENTITY_KEY, _IDENTITY_SIG = 1, 2
_MAX_FIELDS: Final = 16


class Credentials:
    """What one node proves itself with, in all of its handshakes.

    `secret` comes from `identity.signatures.expand`. `static` is 32 bytes of randomness, drawn once per process:
    the signature over it is made once.
    """

    def __init__(self, secret: bytes, static: bytes) -> None:
        self.agent_id = secret[KEY_BYTES:]
        self.static = KeyPair(static)
        self.payload = protobuf.bytes_field(_IDENTITY_KEY, encode_key(self.agent_id)) + protobuf.bytes_field(
            _IDENTITY_SIG, sign_expanded(secret, _SIGNED + self.static.public)
        )


class Channel:
    """The two directions after the handshake."""

    def __init__(self, sending: Cipher, receiving: Cipher) -> None:
        self._sending = sending
        self._receiving = receiving
        self._buffer = bytearray()
        self._wanted = 0  # bytes of the buffer that make the next frame, once its length is known

    def seal(self, data: bytes) -> bytes:
        """The frames of `data`, in as few as possible."""
        if len(data) <= MAX_PLAIN:
            sealed = self._sending.encrypt(data)
            return len(sealed).to_bytes(_LENGTH, "big") + sealed
        return b"".join(
            self.seal(data[start : start + MAX_PLAIN]) for start in range(0, len(data), MAX_PLAIN)
        )

    def open(self, data: bytes) -> bytes:
        """What the frames say that are complete; the rest waits. Raises BrokenChannel."""
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._wanted:
                return b""
            data = bytes(self._buffer)
            self._buffer.clear()
        self._wanted = 0
        position, end = 0, len(data)
        pieces: list[bytes] = []
        while position + _LENGTH <= end:
            start = position + _LENGTH
            size = int.from_bytes(data[position:start], "big")
            if start + size > end:
                self._wanted = _LENGTH + size
                break
            position = start + size
            plain = self._receiving.decrypt(data[start:position])
            if plain is None:
                raise BrokenChannel("a frame of the secure channel does not decrypt")
            pieces.append(plain)
        if position < end:
            self._buffer += data[position:]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class Handshake:
    """One side of the handshake. The initiator sends `start()` first.

    When `channel` is there, `agent_id` is the key that the peer has proven, and `rest()` has what arrived for the
    channel already. `expected` is the key that the peer must have, if the initiator knows it. `ephemeral` is
    32 bytes of randomness, drawn for this handshake.
    """

    def __init__(
        self, credentials: Credentials, ephemeral: bytes, *, initiator: bool, expected: bytes | None = None
    ) -> None:
        self._credentials = credentials
        self._expected = expected
        self._initiator = initiator
        self._noise = NoiseXX(initiator=initiator, static=credentials.static, ephemeral=KeyPair(ephemeral))
        self._received = 0
        self._buffer = b""
        self.agent_id = b""
        self.channel: Channel | None = None

    def start(self) -> bytes:
        return _framed(self._noise.write(b""))

    def receive(self, data: bytes) -> bytes:
        """Takes what the peer sent; returns what to send next. Raises HandshakeFailed."""
        self._buffer += data
        answer = b""
        while self.channel is None and (message := self._next()) is not None:
            answer += self._take(message)
        return answer

    def rest(self) -> bytes:
        rest, self._buffer = self._buffer, b""
        return rest

    def _next(self) -> bytes | None:
        if len(self._buffer) < _LENGTH:
            return None
        size = int.from_bytes(self._buffer[:_LENGTH], "big")
        if size > MAX_HANDSHAKE_FRAME:
            raise HandshakeFailed(
                f"a message of {size:,} bytes; those of a handshake have {MAX_HANDSHAKE_FRAME:,}"
            )
        end = _LENGTH + size
        if len(self._buffer) < end:
            return None
        message, self._buffer = self._buffer[_LENGTH:end], self._buffer[end:]
        return message

    def _take(self, message: bytes) -> bytes:
        payload = self._noise.read(message)
        self._received += 1
        # The payload of the initiator's first message is not encrypted and proves nothing: it is not looked at.
        if self._initiator or self._received > 1:
            self._prove(payload)
        answer = _framed(self._noise.write(self._credentials.payload)) if self._received == 1 else b""
        if self._noise.ciphers is not None:
            self.channel = Channel(*self._noise.ciphers)
        return answer

    def _prove(self, payload: bytes) -> None:
        key, signature = b"", b""
        try:
            for field, value in protobuf.fields(payload, most=_MAX_FIELDS):
                if field == _IDENTITY_KEY:
                    key = protobuf.as_bytes(value)
                elif field == _IDENTITY_SIG:
                    signature = protobuf.as_bytes(value)
            agent_id = decode_key(key)
        except MalformedMessage as fault:
            raise HandshakeFailed(str(fault)) from None
        if not verify(agent_id, _SIGNED + self._noise.remote_static, signature):
            raise HandshakeFailed("the peer did not prove its key")
        if self._expected is not None and agent_id != self._expected:
            raise HandshakeFailed(
                f"the peer there is {peer_id(agent_id)}, and {peer_id(self._expected)} was expected;"
                " correct the peer id in its address"
            )
        self.agent_id = agent_id


def _framed(message: bytes) -> bytes:
    return len(message).to_bytes(_LENGTH, "big") + message
