"""The bilateral stream: one envelope, and three letters for it (mesh wire 6.3).

The initiator sends an envelope after its length and finishes; the responder answers ACK. The reference does so at
once, before it looks at the envelope. Ours does it when the envelope is safe, or was refused for good. The answer
never says that it was accepted. An initiator without the answer may send the envelope's content again, with a new
nonce.
"""

from typing import Final

from moothall.p2p.faults import MalformedMessage
from moothall.wire.mesh.envelope import MAX_ENVELOPE
from moothall.wire.mesh.frames import ACK, HEADER

PROTOCOL: Final = "/0x01/bilateral/1.0.0"


class Request:
    """The responder's side. `envelope` is there when it is complete: then ACK is due, and the stream ends."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self.envelope: bytes | None = None

    def receive(self, data: bytes) -> None:
        """Raises MalformedMessage if the length is one that no envelope has, or more follows."""
        if self.envelope is not None and data:
            raise MalformedMessage("a bilateral stream goes on after its envelope")
        self._buffer += data
        if self.envelope is not None or len(self._buffer) < HEADER:
            return
        size = int.from_bytes(self._buffer[:HEADER], "little")
        if not 0 < size <= MAX_ENVELOPE:
            raise MalformedMessage(f"an envelope of {size:,} bytes on a bilateral stream")
        if len(self._buffer) > HEADER + size:
            raise MalformedMessage("a bilateral stream goes on after its envelope")
        if len(self._buffer) == HEADER + size:
            self.envelope = bytes(self._buffer[HEADER:])
            self._buffer.clear()


class Answer:
    """The initiator's side: waits for exactly ACK."""

    def __init__(self) -> None:
        self._missing = ACK

    @property
    def is_complete(self) -> bool:
        return not self._missing

    def receive(self, data: bytes) -> None:
        """Raises MalformedMessage if the answer is another one. An answer that ends before ACK is a failure too."""
        if not self._missing.startswith(data):
            raise MalformedMessage("a bilateral stream was answered with something else than ACK")
        self._missing = self._missing[len(data) :]
