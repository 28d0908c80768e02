"""One peer of the network, as a source of envelopes of many senders (mesh wire 6).

A peer has no key here, asks nothing and is told nothing: why an envelope is refused is counted, and not said (mesh
wire 3.1). To stop reading from it would stop others behind it. So its queue is bounded, and what exceeds it is
dropped. When half of the queue is taken, a sender with an eighth of it has to wait: one that sends without end
leaves room for others behind the same peer.
"""

from collections import Counter
from typing import TYPE_CHECKING, Final

from moothall.hall.budgets import Meter
from moothall.hall.mesh.arrival import Arrival
from moothall.hall.mesh.costs import frame_price
from moothall.hall.mesh.market import Payer
from moothall.hall.mesh.network import Settle, ignore
from moothall.hall.mesh.replies import INTERNAL
from moothall.hall.mesh.source import Source
from moothall.wire.mesh.envelope import sender_of

if TYPE_CHECKING:
    from moothall.hall.mesh.room import MeshRoom

# A peer carries what many agents send. It pays a quarter of what a connection of its address pays, so with the
# default settings its address brings 2,000 envelopes in a second.
RELAY_FACTOR: Final = 4
# What was received and is not looked at yet, before more is dropped: half a second of those.
MAX_RELAY_WAITING: Final = 1024
MAX_RELAY_WAITING_BYTES: Final = 4 * 1024 * 1024
MAX_SENDER_WAITING: Final = MAX_RELAY_WAITING // 8  # of one sender, when half of the queue is taken
MAX_SENDER_WAITING_BYTES: Final = MAX_RELAY_WAITING_BYTES // 8
# Of what came on topics. Any node can publish there, with ever new keys; the rest is for bilateral envelopes.
MAX_TOPICS_WAITING: Final = 3 * MAX_RELAY_WAITING // 4
MAX_TOPICS_WAITING_BYTES: Final = 3 * MAX_RELAY_WAITING_BYTES // 4
MAX_RELAY_IN_FLIGHT: Final = 256  # envelopes that wait for the disk; see `guest.MAX_IN_FLIGHT`

QUEUE_FULL: Final = "QueueFull"


class Relay(Source[tuple[str | None, Settle]]):
    """Implements `network.Relay`. Its frames are envelopes with the topic on which they came."""

    __slots__ = ("_by_sender", "_bytes_by_sender")

    def __init__(
        self,
        room: "MeshRoom",
        peer: bytes,
        payer: Payer,
        meter: Meter | None,
        *,
        received: Counter[str],
        dropped: Counter[str],
    ) -> None:
        super().__init__(
            room,
            payer,
            meter,
            most_in_flight=MAX_RELAY_IN_FLIGHT,
            received=received,
            refused=dropped,
            peer=peer,
        )
        self._by_sender: Counter[bytes] = Counter()  # of what waits
        self._bytes_by_sender: Counter[bytes] = Counter()

    @property
    def waiting(self) -> int:
        """Envelopes that are not looked at yet."""
        return len(self._waiting)

    def receive(self, raw: bytes, topic: str | None, settle: Settle = ignore) -> bool:
        sender = sender_of(raw)
        if self.gone or not self._has_room(sender, len(raw), is_topic=topic is not None):
            self.refused[QUEUE_FULL] += 1
            return False
        self._waiting.append((raw, (topic, settle)))
        self.waiting_bytes += len(raw)
        self._by_sender[sender] += 1
        self._bytes_by_sender[sender] += len(raw)
        self._go_on()
        return True

    def _has_room(self, sender: bytes, size: int, *, is_topic: bool) -> bool:
        number, total = len(self._waiting) + 1, self.waiting_bytes + size
        if number > MAX_RELAY_WAITING or total > MAX_RELAY_WAITING_BYTES:
            return False
        if is_topic and (number > MAX_TOPICS_WAITING or total > MAX_TOPICS_WAITING_BYTES):
            return False
        if 2 * number <= MAX_RELAY_WAITING and 2 * total <= MAX_RELAY_WAITING_BYTES:
            return True
        return (
            self._by_sender[sender] < MAX_SENDER_WAITING
            and self._bytes_by_sender[sender] + size <= MAX_SENDER_WAITING_BYTES
        )

    def end(self) -> None:
        super().end()
        self._room.disconnect_peer(self)

    def fail(self) -> None:
        self.refused[INTERNAL] += 1

    def _read(self, payload: bytes, way: tuple[str | None, Settle]) -> Arrival:
        sender = sender_of(payload)
        self._by_sender[sender] -= 1
        self._bytes_by_sender[sender] -= len(payload)
        if not self._by_sender[sender]:
            del self._by_sender[sender], self._bytes_by_sender[sender]
        return self._read_envelope(payload, *way)

    def _pay_frame(self, payload: bytes, way: tuple[str | None, Settle]) -> bool:
        if self.meter is None:
            return True
        shortage = self.meter.charge(frame_price(len(payload), is_text=False), self._room.now())
        if shortage is None:
            return True
        self._rest_for(shortage.seconds)
        return False
