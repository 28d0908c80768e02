"""Messages after their length, as a varint: how identify and pubsub put protobuf on a stream."""

from moothall.p2p import varint
from moothall.p2p.faults import MalformedMessage


def delimit(message: bytes) -> bytes:
    return varint.encode(len(message)) + message


class Delimited:
    """Cuts a stream into its messages. Keeps no more than one message of at most `limit` bytes, and its length."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._wanted = 0  # bytes of the buffer that must be there before it is worth another look

    @property
    def is_between_messages(self) -> bool:
        """False while the end of a message is missing: the stream must not end here."""
        return not self._buffer

    @property
    def size(self) -> int:
        """Bytes that are kept."""
        return len(self._buffer)

    def clear(self) -> None:
        """Forgets a message that will not be complete."""
        self._buffer.clear()
        self._wanted = 0

    def receive(self, data: bytes) -> list[bytes]:
        """The messages that are complete. Raises MalformedMessage if the next one is longer than the limit."""
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._wanted:
                return []
            data = bytes(self._buffer)
            self._buffer.clear()
        messages: list[bytes] = []
        position, end = 0, len(data)
        self._wanted = 0
        while position < end:
            head = varint.read(data, position)
            if head is None:
                break
            size, start = head
            if size > self._limit:
                raise MalformedMessage(f"a message of {size:,} bytes is longer than {self._limit:,}")
            if start + size > end:
                self._wanted = start + size - position
                break
            position = start + size
            messages.append(data[start:position])
        if position < end:
            self._buffer += data[position:]
        return messages
