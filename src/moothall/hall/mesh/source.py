"""Where envelopes come from: a connection to `/mesh` (`Guest`), or a peer of the network (`Relay`).

What a source sent waits in the order of arrival until signatures are checked (`moothall.hall.checking`). A source
that is over a limit is not refused: it has its turn later. What happens meanwhile is where the two differ. Nothing
more is read from a connection. A peer is read on, and what exceeds its queue is dropped.
"""

from collections import Counter
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from moothall.hall import checking
from moothall.hall.budgets import Meter, Price
from moothall.hall.checking import Proof
from moothall.hall.mesh.arrival import Arrival
from moothall.hall.mesh.frames import Frame, Refused
from moothall.hall.mesh.market import Payer
from moothall.hall.mesh.network import Settle, ignore
from moothall.wire.mesh.envelope import VERSION, decode, signing_bytes
from moothall.wire.mesh.faults import EnvelopeRefused

if TYPE_CHECKING:
    from moothall.hall.mesh.room import MeshRoom

BYTES_OF_ONE: Final = 2048  # a longer envelope counts as several of those that wait for the disk

Way = TypeVar("Way")  # how a frame came


class Source(Generic[Way]):
    __slots__ = (
        "_most_in_flight",
        "_owes",
        "_rests",
        "_room",
        "_waiting",
        "_waits_for_disk",
        "acks",
        "checked",
        "closing",
        "gone",
        "held",
        "in_flight",
        "is_proven",
        "key",
        "listed",
        "meter",
        "payer",
        "peer",
        "received",
        "receives",
        "refused",
        "waiting_bytes",
    )

    def __init__(
        self,
        room: "MeshRoom",
        payer: Payer,
        meter: Meter | None,
        *,
        most_in_flight: int,
        received: Counter[str],
        refused: Counter[str],
        peer: bytes | None = None,
    ) -> None:
        self._room = room
        self.payer = payer
        self.meter = meter  # counts what it costs; None without limits
        self.peer = peer  # of the network; None for a connection to `/mesh`
        self.received = received  # envelopes that passed all checks, by type: of all sources of its kind
        self.refused = refused  # by fault
        self.key: bytes | None = None  # of its envelopes; it has no other from then on
        self.is_proven = False
        self.receives = True  # envelopes to its key
        self.acks = False  # it wants to know of each envelope that was accepted
        self.in_flight = 0  # what waits for the disk
        self._most_in_flight = most_in_flight
        self.held = 0  # reasons to leave its frames alone
        self.listed = False  # among those whose frames are checked next
        self.closing = False  # nothing more of it is handled
        self.gone = False  # it has ended; what it had sent is still handled
        self.checked: list[Arrival] = []  # whose turn came while it was held
        self._waiting: list[tuple[bytes, Way]] = []
        self.waiting_bytes = 0
        self._waits_for_disk = False
        self._owes = False  # it is held because it cannot pay for what it has sent
        self._rests = False  # it cannot pay for its next frame; those before it are handled

    @property
    def ip(self) -> str:
        return self.payer.ip

    # -- what is different ---------------------------------------------------------------------------

    def tell(self, frame: Frame) -> None:
        """Send a text frame, if the source has a wire for them."""

    def fail(self) -> None:
        """A bug of ours: only this source pays for it."""
        raise NotImplementedError

    def _pay_frame(self, payload: bytes, way: Way) -> bool:
        """False: the source waits until it can."""
        raise NotImplementedError

    def _read(self, payload: bytes, way: Way) -> Arrival:
        raise NotImplementedError

    def _pause(self) -> None:
        """Read nothing more, if reading can be stopped."""

    def _read_on(self) -> None:
        """Read again, if nothing is in the way of it."""

    # -- what it sends -------------------------------------------------------------------------------

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting) and not self._rests

    def take(self, batch: list[checking.Arrival], most: int) -> int:
        taken = 0
        while most and self._waiting:
            payload, way = self._waiting[0]
            if not self._pay_frame(payload, way):
                break
            del self._waiting[0]
            self.waiting_bytes -= len(payload)
            batch.append(self._read(payload, way))
            taken += len(payload)
            most -= 1
        self._read_on()
        return taken

    def handle(self, arrival: Arrival) -> None:
        if not self.closing:
            self._room.handle(self, arrival)

    def is_busy(self, arrival: Arrival) -> bool:
        """True: the envelope waits, because too many of the source are under way."""
        if self.in_flight < self._most_in_flight:
            return False
        self.wait_for_disk()
        self.put_back(arrival)
        return True

    def pays_for(self, arrival: Arrival, price: Price) -> bool:
        """False: the frame waits until the source can pay."""
        arrival.is_paid = self.pay(price)
        if not arrival.is_paid:
            self.put_back(arrival)
        return arrival.is_paid

    def put_back(self, arrival: Arrival) -> None:
        """Handle it when the source is released, before all others."""
        self.checked.insert(0, arrival)

    def _read_envelope(self, payload: bytes, topic: str | None = None, settle: Settle = ignore) -> Arrival:
        try:
            envelope = decode(payload)
        except EnvelopeRefused as refused:
            fault = Refused(fault=refused.fault, reason=str(refused))
            return Arrival(self, fault=fault, settle=settle)
        proof = None
        if envelope.version == VERSION:
            proof = Proof(envelope.sender, signing_bytes(envelope), envelope.signature)
        return Arrival(self, proof, raw=payload, envelope=envelope, topic=topic, settle=settle)

    # -- what it costs -------------------------------------------------------------------------------

    def pay(self, price: Price) -> bool:
        """False: the source is held until it can pay."""
        if self.meter is None:
            return True
        shortage = self.meter.charge(price, self._room.now())
        if shortage is None:
            return True
        self.hold_for(shortage.seconds)
        return False

    def hold_for(self, seconds: float) -> None:
        if self.gone:
            self.drop()  # to keep what it left until it can pay would fill the memory
            return
        self._owes = True
        self.hold()
        self._room.throttle(seconds, self._pay_back)

    def _pay_back(self) -> None:
        self._owes = False
        self.release()

    def _rest_for(self, seconds: float) -> None:
        """Take no more frames for this time."""
        if self.gone:
            self._waiting.clear()
            return
        self._rests = True
        self._pause()
        self._room.throttle(seconds, self._wake)

    def _wake(self) -> None:
        self._rests = False
        self._go_on()
        self._read_on()

    # -- waiting -------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Handle nothing more of it, and read nothing more, until it is released as often."""
        self.held += 1
        self._pause()

    def release(self) -> None:
        self.held -= 1
        while self.checked and not self.held:
            self.handle(self.checked.pop(0))
        self._go_on()
        self._read_on()

    def _go_on(self) -> None:
        if self._waiting and not self.held and not self._rests and not self.closing:
            self._room.checks.ready(self)

    def wait_for_disk(self) -> None:
        """Handle nothing more of it until half of its envelopes are committed."""
        if not self._waits_for_disk:
            self._waits_for_disk = True
            self.hold()

    def disk_is_done(self) -> None:
        if self._waits_for_disk and self.in_flight <= self._most_in_flight // 2:
            self._waits_for_disk = False
            self.release()

    def end(self) -> None:
        """It has ended. What it had sent is still handled, as far as it is paid for."""
        self.gone = True
        if self._owes:
            self.drop()
        elif self._rests:
            self._waiting.clear()

    def drop(self) -> None:
        self.closing = True
        self._waiting.clear()
        self.checked.clear()
        self.waiting_bytes = 0
