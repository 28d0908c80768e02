"""A connection from its first byte on: multistream-select, Noise, multistream-select, yamux (mesh wire 6.1).

The layers follow each other, and a piece of the network may hold the end of one and the beginning of the next. All
that a caller needs besides is a socket and a time limit for the beginning: until `session` is there, a peer can
make this keep some 70 KiB, and can take as long as it likes.
"""

from typing import Final

from moothall.p2p import handshake, yamux_frames
from moothall.p2p.handshake import MAX_PLAIN, Channel, Credentials, Handshake
from moothall.p2p.multistream import Initiator, Responder
from moothall.p2p.noise import TAG_BYTES
from moothall.p2p.yamux import Limits, Session
from moothall.p2p.yamux_streams import Event

_FRAME_OVERHEAD: Final = 2 + TAG_BYTES


class Connection:
    """One end. `is_client` says who dialled.

    `expected` is the key that the peer must have, if it is known. `ephemeral` is 32 bytes of randomness, drawn for
    this connection. When `session` is there, the peer has proven the key `agent_id`.
    """

    def __init__(
        self,
        credentials: Credentials,
        ephemeral: bytes,
        *,
        is_client: bool,
        expected: bytes | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._is_client = is_client
        self._limits = limits
        self._handshake = Handshake(credentials, ephemeral, initiator=is_client, expected=expected)
        self._channel: Channel | None = None
        self._out = bytearray()  # what is to be sent before the session
        self._negotiation = self._negotiate(handshake.PROTOCOL)
        self.session: Session | None = None

    @property
    def agent_id(self) -> bytes:
        """The key that the peer has proven; empty before it has."""
        return self._handshake.agent_id

    @property
    def has_output(self) -> bool:
        """True if `take` has something to give."""
        return bool(self._out) or (self.session is not None and self.session.has_output)

    def receive(self, data: bytes) -> list[Event]:
        """What the peer did on its streams. Raises PeerFault: then the connection must be closed."""
        if self._channel is None:
            data = self._secure(data)
            if self._channel is None:
                return []
        data = self._channel.open(data)
        if self.session is None:
            data = self._multiplex(self._channel, data)
            if self.session is None:
                return []
        return self.session.receive(data)

    def take(self, most: int) -> bytes:
        """The next bytes to send: at most so many, if the session has begun."""
        frames = bytes(self._out)
        self._out.clear()
        if self.session is None or self._channel is None:
            return frames
        while plain := self.session.take(min(most - len(frames) - _FRAME_OVERHEAD, MAX_PLAIN)):
            frames += self._channel.seal(plain)
        return frames

    def _secure(self, data: bytes) -> bytes:
        """Takes bytes until there is a channel. Returns what arrived for the channel."""
        if not self._is_agreed():
            self._out += self._negotiation.receive(data)
            if not self._is_agreed():
                return b""
            data = self._negotiation.rest()
            if self._is_client:
                self._out += self._handshake.start()
        self._out += self._handshake.receive(data)
        self._channel = self._handshake.channel
        if self._channel is None:
            return b""
        self._negotiation = self._negotiate(yamux_frames.PROTOCOL)
        return self._handshake.rest()

    def _multiplex(self, channel: Channel, data: bytes) -> bytes:
        """Takes what the channel says until there is a session. Returns what arrived for the session."""
        answer = self._negotiation.receive(data)
        if answer:
            self._out += channel.seal(answer)
        if not self._is_agreed():
            return b""
        self.session = Session(is_client=self._is_client, limits=self._limits)
        return self._negotiation.rest()

    def _is_agreed(self) -> bool:
        return self._negotiation.agreed is not None

    def _negotiate(self, protocol: str) -> Initiator | Responder:
        if not self._is_client:
            return Responder({protocol})
        initiator = Initiator([protocol])
        start = initiator.start()
        self._out += start if self._channel is None else self._channel.seal(start)
        return initiator
