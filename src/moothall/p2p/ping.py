"""Ping: 32 bytes that come back (`/ipfs/ping/1.0.0`). One stream serves many pings, one after the other."""

from typing import Final

from moothall.p2p.faults import MalformedMessage

PROTOCOL: Final = "/ipfs/ping/1.0.0"
PAYLOAD: Final = 32  # bytes


class Echo:
    """The side that answers."""

    def __init__(self) -> None:
        self._buffer = b""

    def receive(self, data: bytes) -> bytes:
        """What to send back: payloads that are complete."""
        self._buffer += data
        size = len(self._buffer) - len(self._buffer) % PAYLOAD
        answer, self._buffer = self._buffer[:size], self._buffer[size:]
        return answer


class Pinger:
    """The side that asks, one ping at a time."""

    def __init__(self) -> None:
        self._missing = b""

    @property
    def is_waiting(self) -> bool:
        return bool(self._missing)

    def ask(self, payload: bytes) -> bytes:
        """What to send: 32 bytes of randomness. Raises ValueError while the last answer is missing."""
        if len(payload) != PAYLOAD or self._missing:
            raise ValueError(f"a ping has {PAYLOAD} bytes, and waits for the answer to the one before")
        self._missing = payload
        return payload

    def receive(self, data: bytes) -> bool:
        """True when the answer is complete. Raises MalformedMessage if it is another one."""
        if not data:
            return False
        if not self._missing.startswith(data):
            raise MalformedMessage("a ping came back changed")
        self._missing = self._missing[len(data) :]
        return not self._missing
