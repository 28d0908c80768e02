"""What the nodes of one hall need between them: messages, and a registry. Both are handed in.

The bus keeps the order of what one node publishes to one subject. It promises nothing else. A message may be lost,
and messages of two subjects, or of two nodes, may come in another order at each node. What nodes must agree on is
in the registry.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

Received = Callable[[bytes], None]
Failed = Callable[[BaseException], None]
Stop = Callable[[], None]

Bucket = Literal["nodes", "ids", "homes"]


class Entry(NamedTuple):
    key: str
    value: bytes  # empty: the entry was deleted
    revision: int  # grows with every change of its bucket


class Registry(Protocol):
    """Entries that change one at a time. A node changes an entry only if it knows its last revision.

    Every call is answered later, by one of two calls back. `failed` means that the outcome is unknown. Calls fail
    while the bus is down.
    """

    def get(self, bucket: Bucket, key: str, done: Callable[[Entry | None], None], failed: Failed) -> None: ...

    def put(
        self,
        bucket: Bucket,
        key: str,
        value: bytes,
        revision: int,
        done: Callable[[int | None], None],
        failed: Failed,
    ) -> None:
        """Set the entry if its revision is still this one; 0: if there is no entry.

        `done` gets the new revision. None: another node has changed the entry meanwhile.
        """

    def delete(
        self, bucket: Bucket, key: str, revision: int, done: Callable[[bool], None], failed: Failed
    ) -> None:
        """Delete the entry if its revision is still this one. `done` gets False if it is another one."""

    def watch(self, bucket: Bucket, told: Callable[[Entry], None], ready: Callable[[], None]) -> Stop:
        """Call `told` with each entry that there is, then `ready`, then `told` with each change, in their order."""


@dataclass
class Traffic:
    """What has gone over a bus since it was opened."""

    received: int = 0  # messages
    published: int = 0
    lost: int = 0  # published while the bus was down, or not yet written when it went down
    refused: int = 0  # too large, or with a part missing
    overruns: int = 0  # times that the bus went down because this node or the bus could not keep up
    connections: int = 0


class Bus(Protocol):
    @property
    def is_up(self) -> bool: ...

    @property
    def registry(self) -> Registry: ...

    def publish(self, subject: str, payload: bytes) -> None:
        """To the other nodes that listen to this subject. While the bus is down, the message is lost."""

    def subscribe(self, subject: str, received: Received) -> Stop:
        """Call `received` with what other nodes publish, until the returned function is called. A subscription
        outlives a failure of the bus; messages of that time do not come."""

    def on_change(self, told: Callable[[bool], None]) -> None:
        """Call `told` with True when the bus is up again, and with False when it is down."""
