"""A made-up world with keep and mesh agents in it: see `tests.hall.keep.town`. It has no topics of its own."""

from collections.abc import Callable
from typing import Any

from moothall.errors import Refusal
from moothall.hall.gate import Gate
from moothall.hall.mesh.bridge import Bridge
from moothall.hall.mesh.own_envelopes import OwnEnvelopes
from moothall.identity import PrivateKey
from moothall.identity.signatures import verify
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.envelope import Envelope, decode, encode, seal, signing_bytes
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.websocket import BINARY, encode_frame
from tests.hall.keep.town import Town
from tests.support.world import HALL_KEY, Guest


class FakeCaller:
    """One connection of the mesh: takes what it is given, until it is full or closed."""

    def __init__(self, ip: str = "192.0.2.8") -> None:
        self.ip = ip
        self.frames: list[bytes] = []
        self.published: list[tuple[bytes | None, bool]] = []
        self.refused: list[Refusal] = []
        self.full = False
        self.closed: tuple[int, str] | None = None
        self.on_close: Callable[[], None] = lambda: None

    def put_frame(self, frame: bytes) -> bool:
        if self.full or self.closed is not None:
            return False
        self.frames.append(frame)
        return True

    def close(self, code: int, reason: str) -> None:
        self.closed = (code, reason)
        self.on_close()

    def publish(self, envelope: bytes | None, *, is_chat: bool) -> None:
        self.published.append((envelope, is_chat))

    def read(self) -> list[Broadcast]:
        """What the hall said to it, each with a signature of the hall."""
        frames, self.frames = self.frames, []
        return [hall_broadcast(payload(frame)) for frame in frames]


def payload(frame: bytes) -> bytes:
    """Of an unmasked binary frame."""
    size = len(frame)
    data = next(frame[head:] for head in (2, 4, 10) if encode_frame(BINARY, frame[head:]) == frame)
    assert len(data) < size
    return data


def hall_broadcast(raw: bytes) -> Broadcast:
    envelope = decode(raw)
    assert envelope.msg_type is MsgType.BROADCAST
    assert envelope.sender == HALL_KEY.public.raw
    assert verify(envelope.sender, signing_bytes(envelope), envelope.signature)
    return Broadcast.decode(envelope.payload)


class Square(Town):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        own = OwnEnvelopes(HALL_KEY.public.raw, HALL_KEY.sign_bytes, self.clock.time)
        self.mesh = Bridge(Gate(self.hall), own)
        self._nonce = 0

    def caller(self, key: PrivateKey, name: str = "meshy", *topics: str, proven: bool = False) -> FakeCaller:
        """A connection that has sent a BEACON and subscribed to these topics."""
        caller = FakeCaller()
        self.mesh.admit(key.public.raw)
        self.mesh.arrive(caller, key.public.raw, name, proven=proven)
        for topic in topics:
            self.mesh.subscribe(caller, topic)
        return caller

    def broadcast(self, caller: FakeCaller, key: PrivateKey, topic: str, text: str, **fields: Any) -> bytes:
        """The encoded envelope. What became of it is in `caller.published` or `caller.refused`."""
        message = Broadcast(**{"topic": topic, "title": "", "content": text.encode(), **fields})
        raw = encode(self.envelope(key, message))
        self.mesh.broadcast(caller, message, raw, caller.publish, caller.refused.append)
        return raw

    def envelope(self, key: PrivateKey, message: Broadcast) -> Envelope:
        self._nonce += 1
        return seal(
            MsgType.BROADCAST,
            message.encode(),
            sender=key.public.raw,
            sign=key.sign_bytes,
            nonce=self._nonce,
            now=int(self.clock.time() * 1_000_000),
        )

    def listed(self, guest: Guest, **asked: Any) -> dict[str, dict[str, Any]]:
        """LIST_AGENTS, by name."""
        guest.read()
        self.send(guest, "LIST_AGENTS", **asked)
        return {entry["name"]: entry for entry in guest.read()[-1]["list"]}
