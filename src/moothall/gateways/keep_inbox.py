"""The inbox of a keep connection: packets that arrived and are not looked at yet. No clock, no sockets."""

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from moothall.gateways.keep_backlog import PER_PACKET
from moothall.settings.limits import Rate


class Received(NamedTuple):
    payload: bytes | None  # None: the stream ends here
    arrived: float


class Inbox:
    __slots__ = ("_packets", "_period", "_period_packets", "bytes")

    def __init__(self) -> None:
        self._packets: deque[Received] = deque()
        self._period = 0.0  # when the current period of the rate limit began
        self._period_packets = 0
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._packets)

    def extend(self, payloads: Iterable[bytes], now: float) -> None:
        for payload in payloads:
            self._packets.append(Received(payload, now))
            self.bytes += len(payload) + PER_PACKET

    def end(self, now: float) -> None:
        """The peer will send no more."""
        self._packets.append(Received(None, now))

    def pop(self) -> Received:
        received = self._packets.popleft()
        if received.payload is not None:
            self.bytes -= len(received.payload) + PER_PACKET
        return received

    def clear(self) -> None:
        self._packets.clear()
        self.bytes = 0

    def size_of(self, packets: int) -> int:
        """Bytes of this many packets, from the front."""
        return sum(len(payload or b"") for payload, _ in islice(self._packets, packets))

    def allow(self, wanted: int, rate: Rate, now: float) -> tuple[int, float]:
        """How many of the wanted packets the rate allows now, and in how many seconds it allows more."""
        if not rate.limit:
            return wanted, 0.0
        if now - self._period >= rate.seconds:
            self._period = now
            self._period_packets = 0
        allowed = min(wanted, rate.limit - self._period_packets)
        self._period_packets += allowed
        return allowed, self._period + rate.seconds - now
