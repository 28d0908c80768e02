"""The backlog of a keep connection: packets that its peer has not read yet, bounded in bytes. No clock, no sockets.

Each packet waits with its sender. Over the soft mark no packets of others are taken: their senders learn it at
once, and their packets to other peers go on.
"""

from collections import deque
from typing import Final, NamedTuple

from moothall.hall.keep.registry import Peer

# Times the soft mark: for what comes from the hall itself, lines of channels and answers. Packets of others fill no
# more than a quarter of it, so they cannot get their receiver closed.
HARD_MARK: Final = 4
PER_PACKET: Final = 100  # bytes that a waiting packet costs besides its own, so that tiny ones count too


class Waiting(NamedTuple):
    frame: bytes
    sender: Peer | None  # None: the hall itself
    message_id: str
    expires: float | None


class Backlog:
    __slots__ = ("_packets", "_soft_mark", "bytes")

    def __init__(self, soft_mark: int) -> None:
        self._packets: deque[Waiting] = deque()
        self._soft_mark = soft_mark
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._packets)

    @property
    def is_over_soft_mark(self) -> bool:
        return self.bytes > self._soft_mark

    @property
    def has_room(self) -> bool:
        """True if it is half empty again: then a peer that left answers unread is read from again."""
        return self.bytes <= self._soft_mark // 2

    def add(self, packet: Waiting, *, is_own: bool) -> bool:
        """False if it is full. `is_own`: it comes from the hall, or answers the peer itself."""
        after = self.bytes + len(packet.frame) + PER_PACKET
        if after > self._soft_mark * (HARD_MARK if is_own else 1):
            return False
        self._packets.append(packet)
        self.bytes = after
        return True

    def take(self, most: int, now: float) -> tuple[list[bytes], list[Waiting]]:
        """Take frames from the front until they have this many bytes, and what expired between them."""
        frames: list[bytes] = []
        expired: list[Waiting] = []
        size = 0
        while self._packets and size < most:
            packet = self._packets.popleft()
            self.bytes -= len(packet.frame) + PER_PACKET
            if packet.expires is not None and packet.expires < now:
                expired.append(packet)
            else:
                frames.append(packet.frame)
                size += len(packet.frame)
        return frames, expired

    def clear(self) -> deque[Waiting]:
        """Return what was waiting."""
        undelivered, self._packets = self._packets, deque()
        self.bytes = 0
        return undelivered
