"""What channels keep for agents that join later, and how much memory that takes (seed 000, buffering and replay).

A channel keeps its last messages: so many, and so many bytes that an outbox can take all of them at once. All
channels together share a limit. When it is reached, the fullest channels forget their oldest messages, so a channel
with a short history keeps it, however much is said elsewhere.
"""

from collections import deque
from collections.abc import Iterator

from moothall.hall.shared_memory import SharedMemory
from moothall.wire.agentchat.server import Chat
from moothall.wire.outgoing import Bundle, Outgoing


class History:
    """The last messages of one channel. What each takes is counted as its size on the WebSocket or in memory, the
    larger of the two."""

    __slots__ = ("_memory", "_messages", "_most", "_replay", "size")

    def __init__(self, memory: SharedMemory, most: int) -> None:
        self._memory = memory
        self._most = most
        self._messages: deque[tuple[Chat, int]] = deque()  # with its size
        self._replay: Bundle | None = None
        self.size = 0  # bytes
        memory.add(self)

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Chat]:
        return (message for message, _ in self._messages)

    @property
    def last(self) -> Chat | None:
        return self._messages[-1][0] if self._messages else None

    def add(self, message: Chat, size: int) -> None:
        messages, memory = self._messages, self._memory
        messages.append((message, size))
        added = size
        if len(messages) > self._most:
            added -= messages.popleft()[1]
        self.size += added
        memory.used += added
        self._replay = None
        if self.size > memory.per_holder:
            self.shrink(memory.per_holder)
        if memory.used > memory.limit:
            memory.make_room()

    def remove_last(self) -> None:
        """Of a history that is not empty."""
        self._forget(self._messages.pop()[1])

    def shrink(self, size: int) -> None:
        """Forget the oldest messages until the rest has at most this number of bytes."""
        while self.size > size:
            self._forget(self._messages.popleft()[1])

    def _forget(self, size: int) -> None:
        self.size -= size
        self._memory.used -= size
        self._replay = None

    def replay(self) -> Bundle:
        """All of it, encoded once for all agents that join before the next message."""
        if self._replay is None:
            self._replay = Bundle([Outgoing(message) for message in self], is_replay=True)
        return self._replay
