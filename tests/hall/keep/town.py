"""A made-up world with keep clients in it: see `tests.support.world`.

town = Town()
alice, bob = town.peer(), town.peer()
town.post(alice, "bot:alice", "bot:bob", "hello")
"""

from collections.abc import Callable
from typing import Any

from moothall.hall.budgets import Meter
from moothall.hall.gate import Gate
from moothall.hall.keep.bridge import Bridge, Found
from moothall.hall.keep.registry import Peer, Pins
from moothall.hall.keep.routing import KeepRoom
from moothall.identity.signatures import verify
from moothall.market.directory import SkillDirectory
from moothall.wire.keep.codec import decode, encode, signing_bytes
from moothall.wire.keep.packet import Packet
from tests.support.keep import ALICE, Signer
from tests.support.world import HALL_KEY, PromptStore, World


class FakePeer:
    """Takes what it is given, until it is full or closed."""

    def __init__(self, ip: str = "192.0.2.7") -> None:
        self.ip = ip
        self.is_loopback = False
        self.meter: Meter | None = None
        self.payloads: list[bytes] = []
        self.senders: list[Peer | None] = []
        self.full = False
        self.closed = False
        self.held = 0
        self.is_registered = False

    def answer(self, payload: bytes) -> None:
        if not self.closed:
            self.payloads.append(payload)

    def deliver(self, payload: bytes, sender: Peer | None, message_id: str, ttl: int) -> bool:
        if self.full or self.closed:
            return False
        self.payloads.append(payload)
        self.senders.append(sender)
        return True

    def hold(self) -> None:
        self.held += 1

    def release(self) -> None:
        assert self.held
        self.held -= 1

    def registered(self) -> None:
        self.is_registered = True

    def close(self) -> None:
        self.closed = True

    def read(self) -> list[Packet]:
        payloads, self.payloads = self.payloads, []
        return [decode(payload) for payload in payloads]

    def only(self) -> Packet:
        (packet,) = self.read()
        return packet


class Town(World):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.bridge = Bridge(
            Gate(self.hall), HALL_KEY.sign_bytes, HALL_KEY.public.raw, self.settings.keep_channel
        )
        self.questions: list[str] = []
        self._directory = SkillDirectory(PromptStore(self.books))
        pins = Pins(100) if self.settings.keep_pin else None
        self.room = KeepRoom(self.bridge, self._find, version="1.2.3", pins=pins)
        self.asked_later: list[Callable[[], None]] | None = None  # a list: the directory takes its time

    def peer(self, src: str = "", signer: Signer = ALICE) -> FakePeer:
        """A connection; with a `src`, one that has registered and read the answer."""
        peer = FakePeer()
        if src:
            self.post(peer, src, "server", signer=signer)
            assert peer.only().body == "done"
        return peer

    def post(
        self, peer: FakePeer, src: str, dst: str, body: str = "", signer: Signer = ALICE, **fields: Any
    ) -> Packet:
        packet = signer.packet(src=src, dst=dst, body=body, **fields)
        self.room.accept(peer, packet, encode(packet))
        return packet

    def ask(self, peer: FakePeer, src: str, dst: str, body: str = "", **fields: Any) -> str:
        self.post(peer, src, dst, body, **fields)
        return peer.only().body

    def _find(self, word: str, named: list[bytes], found: Callable[[Found], None], failed: Any) -> None:
        self.questions.append(word)
        if self.asked_later is None:
            self._directory.find(word, named, found, failed)
        else:
            self.asked_later.append(lambda: self._directory.find(word, named, found, failed))


def assert_signed_by_the_hall(packet: Packet) -> None:
    assert packet.pk == HALL_KEY.public.raw
    assert verify(packet.pk, signing_bytes(packet), packet.sig)
