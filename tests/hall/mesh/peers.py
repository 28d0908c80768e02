"""A made-up network for the room of the mesh: it notes what it is asked, and peers hand envelopes in.

town, network = networked()
peer = Peer(town)
stranger = Distant(town, "stranger")
peer.brings(stranger.beacon())
"""

from collections.abc import Callable
from typing import Any

from moothall.hall.mesh.network import Delivered
from moothall.hall.mesh.relay import Relay
from moothall.wire.mesh.announcements import Beacon
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.envelope import Envelope, decode, encode
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.validation import topic_of
from tests.hall.mesh.town import CONVERSATION, Signer, Town

PEER = b"\x01" * 32


class FakeNetwork:
    """Reaches the keys in `reachable`. What it carries is delivered at once, unless a test says otherwise."""

    def __init__(self) -> None:
        self.published: list[tuple[str, bytes]] = []
        self.carried: list[tuple[Envelope, bytes | None]] = []
        self.watched: list[str] = []  # in the order of asking
        self.here: set[bytes] = set()
        self.senders: list[
            tuple[bytes, bytes]
        ] = []  # of envelopes that were taken, with the peer that brought them
        self.reachable: set[bytes] = set()
        self.delivers: bool | None = True  # None: the answer waits
        self.waiting: list[Delivered] = []

    def publish(self, topic: str, raw: bytes) -> None:
        self.published.append((topic, raw))

    def reaches(self, envelope: Envelope) -> bool:
        return envelope.recipient in self.reachable

    def carry(self, envelope: Envelope, raw: bytes, done: Delivered, *, source: bytes | None = None) -> None:
        assert encode(envelope) == raw
        self.carried.append((envelope, source))
        if self.delivers is None:
            self.waiting.append(done)
        else:
            done(self.delivers)

    def heard(self, envelope: Envelope, peer: bytes) -> None:
        self.senders.append((envelope.sender, peer))

    def watch(self, topic: str) -> None:
        assert topic not in self.watched
        self.watched.append(topic)

    def unwatch(self, topic: str) -> None:
        self.watched.remove(topic)

    def present(self, key: bytes, *, is_here: bool) -> None:
        assert (key in self.here) != is_here
        (self.here.add if is_here else self.here.remove)(key)

    def took(self) -> list[tuple[str, Envelope]]:
        """What was published since the last look."""
        published, self.published = self.published, []
        return [(topic, decode(raw)) for topic, raw in published]


def networked(make: Callable[..., Town] = Town, **settings: Any) -> tuple[Town, FakeNetwork]:
    town, network = make(**settings), FakeNetwork()
    town.room.network = network
    return town, network


class Distant(Signer):
    """An agent that is somewhere on the network."""

    def beacon(self, name: str | None = None) -> Envelope:
        return self.seal(MsgType.BEACON, Beacon(self.id, self.name if name is None else name).encode())

    def broadcast(self, topic: str, text: str = "hello") -> Envelope:
        return self.seal(MsgType.BROADCAST, Broadcast(topic=topic, title="", content=text.encode()).encode())

    def propose(self, to: Signer | bytes, payload: bytes = bytes(16)) -> Envelope:
        return self.seal(MsgType.PROPOSE, payload, to=to, conversation=CONVERSATION)


class Peer:
    """A peer of the network that is connected to the hall."""

    def __init__(
        self, town: Town, name: bytes = PEER, ip: str = "198.51.100.4", *, is_loopback: bool = False
    ) -> None:
        self.relay: Relay = town.room.connect_peer(name, ip, is_loopback=is_loopback)
        self.settled: list[bool] = []  # True where it was told ACK

    def brings(self, envelope: Envelope, topic: str | None = None) -> bool:
        """On the topic where it belongs, unless another is given."""
        return self.relay.receive(encode(envelope), topic or topic_of(envelope), self.settled.append)
