"""One connection of the mesh: a source of envelopes and of text frames, which has one key and gets answers.

A connection that is over a limit is not refused: its frames wait, and nothing more is read from it.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from moothall.hall.budgets import Meter, Price
from moothall.hall.checking import Proof
from moothall.hall.mesh.arrival import Arrival
from moothall.hall.mesh.costs import frame_price
from moothall.hall.mesh.frames import (
    MAX_TEXT,
    Cancel,
    Consent,
    Error,
    Frame,
    Prove,
    decode_agent_frame,
    encode_frame,
    proof_text,
    read_head,
)
from moothall.hall.mesh.market import Payer
from moothall.hall.mesh.source import Source
from moothall.hall.outside import Link
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
LONG_ANSWER: Final = 4096  # bytes; what is longer is charged to the connection that asked


class Challenged(NamedTuple):
    """A key that a connection says it has, and what it has to sign."""

    key: bytes
    challenge: str
    acks: bool
    receives: bool


class Guest(Source[bool]):
    """Its frames are payloads with True for text."""

    __slots__ = (
        "_frames",
        "_paused",
        "_period",
        "challenged",
        "host",
        "line",
        "link",
        "number",
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
        super().__init__(
            room,
            Payer(ip, is_loopback),
            meter,
            most_in_flight=MAX_IN_FLIGHT,
            received=room.received,
            refused=room.refused,
        )
        self.link = link
        self.host = host  # as the client named it
        self.number = 0  # in the order in which connections got their keys
        self.challenged: Challenged | None = None
        self.line: WaitingLine[Guest] | None = None  # of connections without a key
        self._paused = False
        self._period = 0.0  # when the current period of the rate limit began
        self._frames = 0  # in this period

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

    def fail(self) -> None:
        self._room.fail(self)

    # -- what it sends -----------------------------------------------------------------------------

    def receive(self, payload: bytes, *, is_text: bool) -> None:
        self._waiting.append((payload, is_text))
        self.waiting_bytes += len(payload)
        if len(self._waiting) >= MAX_WAITING or self.waiting_bytes >= MAX_WAITING_BYTES:
            self._pause()
        self._go_on()

    def _read(self, payload: bytes, way: bool) -> Arrival:
        return self._read_text(payload) if way else self._read_envelope(payload)

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

    def _pay_frame(self, payload: bytes, way: bool) -> bool:
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
        shortage = meter.charge(frame_price(len(payload) - prepaid, is_text=way), now)
        if shortage is not None:
            self._rest_for(shortage.seconds)
            return False
        meter.prepaid -= prepaid
        self._frames += 1
        return True

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

    def _pause(self) -> None:
        if not self._paused and not self.gone:
            self._paused = True
            self.link.pause()

    def _read_on(self) -> None:
        if self._paused and not (self._waiting or self.held or self._rests or self.gone):
            self._paused = False
            self.link.resume()
