"""Nonces: each sender counts its envelopes, and a receiver takes each number once (mesh wire 3.2).

A receiver keeps the highest nonce of a sender, and which of the 1,024 up to it were seen. So envelopes may
overtake each other, and none is taken twice. BEACONs have a window of their own, because a node may lose its
counter and still has to be seen.

An envelope is refused by its timestamp when it is older than the tolerance. So a window is needed only until
the newest envelope in it is that old, and then it is forgotten. Windows are bounded in number: if one has to
make way earlier, the newest timestamp in it becomes the floor. An envelope of a sender without a window may have
been seen if it is not later than the floor, and is refused. A new window remembers the floor at its start.

A relay can bring envelopes of as many senders as it likes, because keys are free. Their windows must not raise the
floor for others. So relays have a share of the windows, and each relay has a share of that.
"""

from collections import Counter
from typing import Final

from moothall.wire.mesh.cbor import UINT64_MAX
from moothall.wire.mesh.envelope import MICROSECONDS, Envelope
from moothall.wire.mesh.msg_types import MsgType

TOLERANCE: Final = 30  # seconds between the clocks of sender and receiver (mesh wire 3.1)
WINDOW: Final = 1024  # nonces
MAX_WINDOWS: Final = 65_536  # 25 MB when all are in use
RELAYED_SHARE: Final = 3 / 4  # of them, for senders that relays bring
RELAY_SHARE: Final = 1 / 3  # of them, for those of one relay: 10,000 agents have two lanes each

_BEACON: Final = MsgType.BEACON
_ALL: Final = (1 << WINDOW) - 1
_MAX_FORGOTTEN: Final = 2  # windows at a time: more than the one that may be added
_MOST_FORGOTTEN: Final = 64  # at a time, if a relay has used up its share


def within_tolerance(timestamp: int, now: int) -> bool:
    """Both are Unix microseconds, and compared in whole seconds."""
    return abs(timestamp // MICROSECONDS - now // MICROSECONDS) <= TOLERANCE


class _Window:
    """`seen` has a bit for each nonce from `highest` downwards; `newest` is the latest timestamp. Envelopes up to
    `floor` were sent before the window was made, and may have been seen. `relay` brought the first one."""

    __slots__ = ("floor", "highest", "newest", "relay", "seen")

    def __init__(self, floor: int, relay: bytes | None) -> None:
        self.floor = floor
        self.relay = relay
        self.highest = 0
        self.seen = 1  # nonce 0 is never valid
        self.newest = 0

    def has(self, nonce: int, timestamp: int) -> bool:
        """True if the envelope was seen, or is too old to know."""
        return timestamp <= self.floor or self.has_nonce(nonce)

    def has_nonce(self, nonce: int) -> bool:
        """True if the nonce was seen, or is too far behind to know."""
        behind = self.highest - nonce
        return behind >= WINDOW or (behind >= 0 and bool(self.seen >> behind & 1))

    def is_over(self, now: int) -> bool:
        """True if time refuses all envelopes in it."""
        return now // MICROSECONDS - self.newest // MICROSECONDS > TOLERANCE

    def add(self, nonce: int, timestamp: int) -> None:
        ahead = nonce - self.highest
        if ahead <= 0:
            self.seen |= 1 << -ahead
        else:
            self.seen = (self.seen << ahead | 1) & _ALL if ahead < WINDOW else 1
            self.highest = nonce
        self.newest = max(self.newest, timestamp)


class ReplayGuard:
    """Which envelopes were accepted, per sender and lane.

    `floor` is a timestamp. A node that was restarted gives the time of its start: what was sent before may have
    been accepted by the process before.
    """

    __slots__ = ("_floor", "_most", "_of_relays", "_relayed", "_windows")

    def __init__(self, *, floor: int = 0, most: int = MAX_WINDOWS) -> None:
        self._windows: dict[tuple[bytes, bool], _Window] = {}  # that of the last envelope is the last
        self._floor = floor
        self._most = most
        self._of_relays: Counter[bytes] = Counter()  # windows
        self._relayed = 0  # all of these

    @property
    def windows(self) -> int:
        return len(self._windows)

    def is_replay(self, envelope: Envelope, now: int) -> bool:
        """True for an envelope that was accepted before, or may have been, and for the nonce 0. `now` is Unix
        microseconds."""
        window = self._windows.get(_lane(envelope))
        if window is None or window.is_over(now):
            return not envelope.nonce or envelope.timestamp <= self._floor
        return window.has(envelope.nonce, envelope.timestamp)

    def was_taken(self, envelope: Envelope) -> bool:
        """True for an envelope that was accepted here before. This is for one that another node of the hall has
        accepted: its time is right by that node's clock, and nothing else of it may have been seen here."""
        window = self._windows.get(_lane(envelope))
        return (
            window is not None and not window.is_over(envelope.timestamp) and window.has_nonce(envelope.nonce)
        )

    def has_room(self, envelope: Envelope, now: int, relay: bytes) -> bool:
        """False if this relay has brought too many senders lately, or all relays have."""
        window = self._windows.get(_lane(envelope))
        if (window is not None and not window.is_over(now)) or self._is_within_shares(relay):
            return True
        for _ in range(_MOST_FORGOTTEN):
            lane = next(iter(self._windows), None)
            if lane is None or not self._windows[lane].is_over(now):
                break
            self._forget(lane)
        return self._is_within_shares(relay)

    def add(self, envelope: Envelope, now: int, relay: bytes | None = None) -> None:
        """Remember an envelope that was accepted. If a relay brought it, ask `has_room` before."""
        lane = _lane(envelope)
        window = self._windows.get(lane)
        if window is not None and window.is_over(now):
            self._forget(lane)
            window = None
        if window is None:
            self._make_room(now)
            window = _Window(self._floor, relay)
            if relay is not None:
                self._of_relays[relay] += 1
                self._relayed += 1
        else:
            del self._windows[lane]
        self._windows[lane] = window
        window.add(envelope.nonce, envelope.timestamp)

    def release(self, envelope: Envelope) -> None:
        """An envelope that was accepted could not be handled: it may come again."""
        window = self._windows.get(_lane(envelope))
        if window is not None and window.highest - envelope.nonce < WINDOW:
            window.seen &= ~(1 << window.highest - envelope.nonce)

    def _is_within_shares(self, relay: bytes) -> bool:
        return (
            self._relayed < self._most * RELAYED_SHARE and self._of_relays[relay] < self._most * RELAY_SHARE
        )

    def _make_room(self, now: int) -> None:
        for _ in range(_MAX_FORGOTTEN):
            lane = next(iter(self._windows), None)
            if lane is None:
                return
            oldest = self._windows[lane]
            if not oldest.is_over(now):
                if len(self._windows) < self._most:
                    return
                self._floor = max(self._floor, oldest.newest)
            self._forget(lane)

    def _forget(self, lane: tuple[bytes, bool]) -> None:
        relay = self._windows.pop(lane).relay
        if relay is not None:
            self._relayed -= 1
            self._of_relays[relay] -= 1
            if not self._of_relays[relay]:
                del self._of_relays[relay]


def _lane(envelope: Envelope) -> tuple[bytes, bool]:
    return envelope.sender, envelope.msg_type is _BEACON


class NonceCounter:
    """The nonces of one sender. They never go back, whatever the clock does between two runs.

    `last` is the highest nonce that was stored, `now` Unix microseconds.
    """

    __slots__ = ("last",)

    def __init__(self, *, last: int, now: int) -> None:
        self.last = max(last, now)

    def next(self) -> int:
        if self.last >= UINT64_MAX:
            raise ValueError("the nonces of this key are used up; use a new key")
        self.last += 1
        return self.last
