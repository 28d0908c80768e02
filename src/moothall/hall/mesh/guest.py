"""One connection of the mesh: what it has sent and is not handled yet, and what it costs.

Frames wait in the order of arrival until their signatures are checked (`moothall.hall.checking`). A connection that
is over a limit is not refused: its frames wait, and nothing more is read from it.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from moothall.hall import checking
from moothall.hall.budgets import Meter, Price
from moothall.hall.checking import Proof
from moothall.hall.mesh.costs import frame_price
from moothall.hall.mesh.frames import (
    MAX_TEXT,
    AgentFrame,
    Cancel,
    Consent,
    Error,
    Frame,
    HallFrame,
    Prove,
    Refused,
    decode_agent_frame,
    encode_frame,
    proof_text,
    read_head,
)
from moothall.hall.mesh.market import Payer
from moothall.hall.outside import Link
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.envelope import VERSION, Envelope, decode, signing_bytes
from moothall.wire.mesh.faults import EnvelopeRefused
from moothall.wire.outgoing import Bundle
from moothall.wire.websocket import encode_text

if TYPE_CHECKING:
    from moothall.hall.mesh.room import MeshRoom
    from moothall.hall.waiting import WaitingLine

# Frames that were read and are not looked at yet, before reading stops.
MAX_WAITING: Final = 64
MAX_WAITING_BYTES: Final = 128 * 1024
# Envelopes that wait for the disk, before the next one waits. A long one counts as several. The connection goes on
# when half of them are done: then as many go into the next commit together, and it does not stop for each of them.
MAX_IN_FLIGHT: Final = 32
BYTES_OF_ONE: Final = 2048
LONG_ANSWER: Final = 4096  # bytes; what is longer is charged to the connection that asked


class Arrival(checking.Arrival):
    """A frame that was read: an envelope, a text frame, or what is wrong with it."""

    __slots__ = ("broadcast", "challenge", "envelope", "fault", "frame", "is_paid", "raw")

    def __init__(
        self,
        guest: "Guest",
        proof: Proof | None = None,
        *,
        raw: bytes = b"",
        envelope: Envelope | None = None,
        frame: AgentFrame | None = None,
        challenge: "Challenged | None" = None,
        fault: HallFrame | None = None,
    ) -> None:
        self.source = guest
        self.proof = proof
        self.valid = False
        self.raw = raw
        self.envelope = envelope
        self.frame = frame
        self.challenge = challenge  # that the signature in the frame was checked against
        self.fault = fault
        self.broadcast: Broadcast | None = None  # the payload, once it is read
        self.is_paid = False  # what it costs besides the frame was charged


class Challenged(NamedTuple):
    """A key that a connection says it has, and what it has to sign."""

    key: bytes
    challenge: str
    acks: bool
    receives: bool


class Guest:
    __slots__ = (
        "_frames",
        "_owes",
        "_paused",
        "_period",
        "_rests",
        "_room",
        "_waiting",
        "_waits_for_disk",
        "acks",
        "challenged",
        "checked",
        "closing",
        "gone",
        "held",
        "host",
        "in_flight",
        "is_proven",
        "key",
        "line",
        "link",
        "listed",
        "meter",
        "number",
        "payer",
        "receives",
        "waiting_bytes",
    )

    def __init__(
        self,
        room: "MeshRoom",
        link: Link,
        ip: str,
        meter: Meter | None,
        *,
        is_loopback: bool,
        host: str = "",
    ) -> None:
        self._room = room
        self.link = link
        self.payer = Payer(ip, is_loopback)
        self.host = host  # as the client named it
        self.number = 0  # in the order in which connections got their keys
        self.meter = meter  # counts what it costs; None without limits
        self.key: bytes | None = None  # of its envelopes; it has no other from then on
        self.is_proven = False
        self.receives = True  # envelopes to its key
        self.acks = False  # it wants to know of each envelope that was accepted
        self.challenged: Challenged | None = None
        self.line: WaitingLine[Guest] | None = None  # of connections without a key
        self.in_flight = 0  # what waits for the disk: see `MAX_IN_FLIGHT`
        self.held = 0  # reasons to leave its frames alone
        self.listed = False  # among those whose frames are checked next
        self.closing = False  # nothing more of it is handled
        self.gone = False  # it has ended; what it had sent is still handled
        self.checked: list[Arrival] = []  # whose turn came while it was held
        self._waiting: list[tuple[bytes, bool]] = []  # payloads; True for text
        self.waiting_bytes = 0
        self._paused = False
        self._waits_for_disk = False
        self._owes = False  # it is held because it cannot pay for what it has sent
        self._rests = False  # it cannot pay for its next frame; those before it are handled
        self._period = 0.0  # when the current period of the rate limit began
        self._frames = 0  # in this period

    @property
    def ip(self) -> str:
        return self.payer.ip

    # -- what the hall says ------------------------------------------------------------------------

    def tell(self, frame: Frame) -> None:
        """Send a text frame. A long one is charged afterwards, because its length is known only then."""
        text = encode_text(encode_frame(frame))
        self.put_frame(text)
        if len(text) > LONG_ANSWER and self.meter is not None:
            self.meter.owe(Price(bytes=len(text)), self._room.now())

    def put_frame(self, frame: bytes) -> bool:
        """Queue a finished frame, which other connections may share. False: the connection has ended."""
        if self.gone:
            return False
        self.link.put(Bundle((), frame=frame))
        return True

    def close(self, code: int, reason: str) -> None:
        self.link.close(code, reason)
        self._room.disconnect(self)

    # -- what it sends -----------------------------------------------------------------------------

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting) and not self._rests

    def receive(self, payload: bytes, *, is_text: bool) -> None:
        self._waiting.append((payload, is_text))
        self.waiting_bytes += len(payload)
        if len(self._waiting) >= MAX_WAITING or self.waiting_bytes >= MAX_WAITING_BYTES:
            self._pause()
        self._go_on()

    def take(self, batch: list[checking.Arrival], most: int) -> int:
        taken = 0
        while most and self._waiting:
            payload, is_text = self._waiting[0]
            if not self._pay_frame(payload, is_text=is_text):
                break
            del self._waiting[0]
            self.waiting_bytes -= len(payload)
            batch.append(self._read_text(payload) if is_text else self._read_envelope(payload))
            taken += len(payload)
            most -= 1
        self._read_on()
        return taken

    def handle(self, arrival: Arrival) -> None:
        if not self.closing:
            self._room.handle(self, arrival)

    def put_back(self, arrival: Arrival) -> None:
        """Handle it when the connection is released, before all others."""
        self.checked.insert(0, arrival)

    def _read_envelope(self, payload: bytes) -> Arrival:
        try:
            envelope = decode(payload)
        except EnvelopeRefused as refused:
            return Arrival(self, fault=Refused(fault=refused.fault, reason=str(refused)))
        if envelope.version != VERSION:
            return Arrival(self, raw=payload, envelope=envelope)
        proof = Proof(envelope.sender, signing_bytes(envelope), envelope.signature)
        return Arrival(self, proof, raw=payload, envelope=envelope)

    def _read_text(self, payload: bytes) -> Arrival:
        if len(payload) > MAX_TEXT:
            fault = Error(code="TOO_LONG", message=f"A text frame has at most {MAX_TEXT:,} bytes")
            return Arrival(self, fault=fault)
        try:
            frame = decode_agent_frame(payload)
        except (msgspec.DecodeError, RecursionError) as error:
            return Arrival(self, fault=read_head(payload, error))
        challenged = self.challenged
        proof = None
        if isinstance(frame, Prove) and frame.signature is not None and challenged is not None:
            text = proof_text(challenged.challenge, self._room.hall_id, challenged.key.hex())
            proof = Proof(challenged.key, text, bytes.fromhex(frame.signature))
        elif isinstance(frame, Cancel | Consent) and self.is_proven and self.key is not None:
            proof = Proof(self.key, frame.text(self._room.hall_id), bytes.fromhex(frame.signature))
        return Arrival(self, proof, frame=frame, challenge=challenged)

    # -- what it costs -----------------------------------------------------------------------------

    def _pay_frame(self, payload: bytes, *, is_text: bool) -> bool:
        """False: the connection waits until it can."""
        meter = self.meter
        if meter is None:
            return True
        rate, now = self._room.rate, self._room.now()
        if rate.limit:
            if now - self._period >= rate.seconds:
                self._period = now
                self._frames = 0
            if self._frames >= rate.limit:
                self._rest_for(self._period + rate.seconds - now)
                return False
        prepaid = min(meter.prepaid, len(payload))
        shortage = meter.charge(frame_price(len(payload) - prepaid, is_text=is_text), now)
        if shortage is not None:
            self._rest_for(shortage.seconds)
            return False
        meter.prepaid -= prepaid
        self._frames += 1
        return True

    def pay(self, price: Price) -> bool:
        """False: the connection is held until it can pay."""
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

    def pay_control(self, size: int) -> bool:
        """A control frame, or a fragment of a longer message. The connection waits if it cannot pay."""
        return self.pay(frame_price(size, is_text=True))

    def prepay(self, size: int) -> None:
        """Charge a part of a message as it arrives. It is not charged again when the message is complete."""
        if (
            self.meter is not None
            and not self.gone
            and (seconds := self.meter.prepay(size, self._room.now()))
        ):
            self.hold_for(seconds)

    # -- waiting -----------------------------------------------------------------------------------

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
        if self._waits_for_disk and self.in_flight <= MAX_IN_FLIGHT // 2:
            self._waits_for_disk = False
            self.release()

    def end(self) -> None:
        """The connection has ended. What it had sent is still handled, as far as it is paid for."""
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

    def _pause(self) -> None:
        if not self._paused and not self.gone:
            self._paused = True
            self.link.pause()

    def _read_on(self) -> None:
        if self._paused and not (self._waiting or self.held or self._rests or self.gone):
            self._paused = False
            self.link.resume()
