"""What a node remembers of messages: which it has seen, and the last ones as a whole, for peers that missed them.

Both are bounded. If more arrive than they hold, the oldest make way: a message may then arrive twice, or cannot be
asked for. Envelopes have nonces, so one that arrives twice is dropped behind this layer.
"""

from collections import OrderedDict, deque
from typing import Final

from moothall.p2p.pubsub import Message

SEEN_FOR: Final = 60_000  # ms (mesh wire 6.2, duplicate cache)
MAX_SEEN: Final = 200_000  # messages, with about 200 bytes each
HISTORY: Final = 5  # heartbeats that a message is kept for
GOSSIP: Final = 3  # heartbeats that peers are told of it
MAX_KEPT: Final = 16 * 1024 * 1024  # bytes of messages
RETRANSMISSIONS: Final = 3  # of a message to one peer that asks


class Seen:
    """Ids of messages, for a minute each."""

    def __init__(self, most: int = MAX_SEEN) -> None:
        self._most = most
        self._times: OrderedDict[bytes, int] = OrderedDict()

    def __contains__(self, message_id: bytes) -> bool:
        return message_id in self._times

    def __len__(self) -> int:
        return len(self._times)

    def add(self, message_id: bytes, now: int) -> None:
        self._times[message_id] = now
        if len(self._times) > self._most:
            self._times.popitem(last=False)

    def forget(self, now: int) -> None:
        """Forgets what is too old."""
        while self._times and next(iter(self._times.values())) + SEEN_FOR <= now:
            self._times.popitem(last=False)


class History:
    """The messages of the last heartbeats."""

    def __init__(self, most_bytes: int = MAX_KEPT) -> None:
        self._most_bytes = most_bytes
        self._windows: deque[deque[bytes]] = deque([deque()])  # ids; the newest window is the first
        self._messages: dict[bytes, Message] = {}
        self._asked: dict[bytes, dict[bytes, int]] = {}  # id: how often each peer asked
        self.size = 0  # bytes

    def __len__(self) -> int:
        return len(self._messages)

    def add(self, message: Message) -> None:
        if message.id in self._messages:
            return
        self._messages[message.id] = message
        self._windows[0].append(message.id)
        self.size += len(message.encoded)
        while self.size > self._most_bytes:
            self._drop_oldest()

    def ids(self, topic: str) -> list[bytes]:
        """Messages of a topic that peers are told of."""
        return [
            each
            for window in list(self._windows)[:GOSSIP]
            for each in window
            if self._messages[each].topic == topic
        ]

    def ask(self, message_id: bytes, peer: bytes) -> Message | None:
        """The message, if it is here and the peer has not asked too often."""
        message = self._messages.get(message_id)
        if message is None:
            return None
        asked = self._asked.setdefault(message_id, {})
        asked[peer] = asked.get(peer, 0) + 1
        return message if asked[peer] <= RETRANSMISSIONS else None

    def shift(self) -> None:
        """A heartbeat has passed."""
        self._windows.appendleft(deque())
        if len(self._windows) > HISTORY:
            for each in self._windows.pop():
                self._drop(each)

    def _drop_oldest(self) -> None:
        while not self._windows[-1]:
            self._windows.pop()
        self._drop(self._windows[-1].popleft())

    def _drop(self, message_id: bytes) -> None:
        self.size -= len(self._messages.pop(message_id).encoded)
        self._asked.pop(message_id, None)
