"""The inbox of a keep connection: packets that arrived and are not looked at yet. No clock, no sockets."""

from collections import deque
from collections.abc import Sequence
from itertools import islice

from moothall.gateways.keep_backlog import PER_PACKET
from moothall.settings.limits import Rate

Received = tuple[bytes | None, float]  # None: the stream ends here; and when it arrived


class Inbox:
    __slots__ = ("_packets", "_period", "_period_packets", "bytes")

    def __init__(self) -> None:
        self._packets: deque[Received] = deque()
        self._period = 0.0  # when the current period of the rate limit began
        self._period_packets = 0
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._packets)

    def extend(self, payloads: Sequence[bytes], now: float) -> None:
        self._packets.extend([(payload, now) for payload in payloads])
        self.bytes += sum(map(len, payloads)) + PER_PACKET * len(payloads)

    def end(self, now: float) -> None:
        """The peer will send no more."""
        self._packets.append((None, now))

    def take(self, most: int) -> list[Received]:
        """Remove up to this many from the front."""
        taken = [self._packets.popleft() for _ in range(min(most, len(self._packets)))]
        self.bytes -= sum([len(payload) + PER_PACKET for payload, _ in taken if payload is not None])
        return taken

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
