"""What a node remembers of messages: which it has seen, and the last ones as a whole, for peers that missed them.

Both are bounded. If more arrive than they hold, the oldest make way: a message may then arrive twice, or cannot be
asked for. Envelopes have nonces, so one that arrives twice is dropped behind this layer.
"""

from collections import OrderedDict, deque
from typing import Final

from moothall.p2p.pubsub import Message, publication

SEEN_FOR: Final = 60_000  # ms (mesh wire 6.2, duplicate cache)
MAX_SEEN: Final = 200_000  # messages, with about 350 bytes each
HISTORY: Final = 5  # heartbeats that a message is kept for
GOSSIP: Final = 3  # heartbeats that peers are told of it
MAX_KEPT: Final = 32 * 1024 * 1024  # bytes of messages
OVERHEAD: Final = 300  # bytes that a message takes beside its frame: its id, and its places here


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
    """The messages of the last heartbeats, each as the frame that goes to peers."""

    def __init__(self, most_bytes: int = MAX_KEPT) -> None:
        self._most_bytes = most_bytes
        self._windows: deque[deque[bytes]] = deque([deque()])  # ids; the newest window is the first
        self._messages: dict[bytes, tuple[str, bytes]] = {}  # id: topic and frame
        self.size = 0  # bytes

    def __len__(self) -> int:
        return len(self._messages)

    def add(self, message: Message) -> bytes:
        """Keeps a message, and returns its frame."""
        known = self._messages.get(message.id)
        if known is not None:
            return known[1]
        frame = publication(message)
        self._messages[message.id] = (message.topic, frame)
        self._windows[0].append(message.id)
        self.size += len(frame) + OVERHEAD
        while self.size > self._most_bytes:
            self._drop_oldest()
        return frame

    def ids(self, topic: str) -> list[bytes]:
        """Messages of a topic that peers are told of."""
        return [
            each
            for window in list(self._windows)[:GOSSIP]
            for each in window
            if self._messages[each][0] == topic
        ]

    def frame(self, message_id: bytes) -> bytes | None:
        """The frame of a message, if it is here."""
        found = self._messages.get(message_id)
        return None if found is None else found[1]

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
        self.size -= len(self._messages.pop(message_id)[1]) + OVERHEAD
