"""Messages that are larger than NATS takes travel in parts. Smaller ones travel as they are.

The parts of a message leave one after the other. NATS keeps their order, so a part that is missing is noticed at
the next one, and the message is dropped.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

HEADER: Final = "Moothall-Part"  # NAME INDEX COUNT
MOST_BYTES: Final = 64 * 1024 * 1024  # of a message, and of all messages that are still incomplete


_is_number: Final = re.compile("[0-9]{1,9}").fullmatch


class TooLarge(ValueError):
    """More than `MOST_BYTES`."""


def split(name: str, payload: bytes, size: int) -> Iterator[tuple[dict[str, str], bytes]]:
    """Parts of at most this size, each with its headers. `name` is unique among messages under way."""
    if len(payload) > MOST_BYTES:
        raise TooLarge(f"a message of {len(payload)} bytes is too large for the bus")
    count = -(-len(payload) // size)
    for index in range(count):
        yield {HEADER: f"{name} {index} {count}"}, payload[index * size : (index + 1) * size]


class Assembly:
    """Puts the parts that one node receives together."""

    def __init__(self, refuse: Callable[[], None]) -> None:
        """`refuse` is called for each message that cannot be put together."""
        self._refuse = refuse
        self._bytes = 0
        self._incomplete: dict[str, list[bytes]] = {}  # oldest first

    def add(self, header: str, part: bytes) -> bytes | None:
        """The message, if this was its last part."""
        name, _, numbers = header.partition(" ")
        index_text, _, count_text = numbers.partition(" ")
        if not (part and _is_number(index_text) and _is_number(count_text)):
            self._refuse()
            return None
        index, count = int(index_text), int(count_text)
        if index >= count:
            self._refuse()
            return None
        parts = self._incomplete.setdefault(name, []) if index == 0 else self._incomplete.get(name)
        if parts is None:
            self._count_last(index, count)
            return None
        if len(parts) != index:
            self._drop(name)
            self._count_last(index, count)
            return None
        parts.append(part)
        self._bytes += len(part)
        if len(parts) == count:
            del self._incomplete[name]
            message = b"".join(parts)
            self._bytes -= len(message)
            return message
        while self._bytes > MOST_BYTES:
            self._drop(next(iter(self._incomplete)))
        return None

    def clear(self) -> None:
        self._incomplete.clear()
        self._bytes = 0

    def _drop(self, name: str) -> None:
        self._bytes -= sum(map(len, self._incomplete.pop(name)))

    def _count_last(self, index: int, count: int) -> None:
        """A message without one of its parts is counted once, when its last part comes."""
        if index == count - 1:
            self._refuse()
