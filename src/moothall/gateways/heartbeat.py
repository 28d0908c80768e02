"""Which connections are pinged when, and which of them are silent (agentchat wire 1.4). No clock, no sockets.

Connections are pinged in groups, one group after the other, so that thousands of pings do not leave at once. A peer
that missed two pings gets a time of grace. It is dropped if it is silent until then.
"""

from typing import Final, Generic, Protocol, TypeVar

from moothall.wire.websocket import PING, encode_frame

MAX_GROUPS: Final = 30  # connections are pinged in groups, so that thousands of pings never leave at once
MOST_MISSED: Final = 2  # pings without an answer
PING_FRAME: Final = encode_frame(PING, b"")


class Pinged(Protocol):
    heard: bool  # something arrived since the last ping
    missed: int  # pings without an answer
    paused: bool  # nothing is read from it
    group: int | None  # the one it is pinged with, while it is pinged

    def put_frame(self, frame: bytes) -> None: ...


Peer = TypeVar("Peer", bound=Pinged)


class Heartbeat(Generic[Peer]):
    def __init__(self, interval: float) -> None:
        """`interval` is how many seconds are between two pings of one connection."""
        count = max(1, min(MAX_GROUPS, int(interval)))
        self._groups: list[set[Peer]] = [set() for _ in range(count)]
        self._spread = max(1, count // 2)  # how many of them newcomers are put into
        self._arrivals = 0
        self._next = 0  # which one is pinged next
        self.seconds = interval / count  # between two groups

    def __len__(self) -> int:
        """The number of connections that are pinged."""
        return sum(map(len, self._groups))

    def join(self, peer: Peer) -> None:
        """Into one of the groups pinged last: no connection is pinged just after it arrived."""
        self._arrivals += 1
        behind = 1 + self._arrivals % self._spread
        peer.group = (self._next - behind) % len(self._groups)
        self._groups[peer.group].add(peer)

    def leave(self, peer: Peer) -> None:
        if peer.group is not None:
            self._groups[peer.group].discard(peer)
            peer.group = None

    def beat(self) -> list[Peer]:
        """Ping the next group. Returns those that missed too many: look again after their time of grace."""
        group = self._groups[self._next]
        self._next = (self._next + 1) % len(self._groups)
        suspects: list[Peer] = []
        for peer in group:
            if peer.paused:
                continue  # it may have answered, and we do not read it
            peer.missed = 0 if peer.heard else peer.missed + 1
            peer.heard = False
            if peer.missed >= MOST_MISSED:
                suspects.append(peer)
            peer.put_frame(PING_FRAME)
        return suspects

    def is_silent(self, peer: Peer) -> bool:
        """True if it is still here and has not answered."""
        # `missed` too: it may have answered since, and be asked once more just now.
        missed_too_many = peer.missed >= MOST_MISSED and not peer.heard
        return missed_too_many and not peer.paused and peer.group is not None
