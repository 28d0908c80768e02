"""Agents that are connected elsewhere: how market and court tell them something, wherever they are.

A hall that has its store to itself tells `Nowhere`. Halls that share a PostgreSQL tell each other through it
(`other_halls`). A bus between machines is another implementation.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from moothall.wire.agentchat.server import ServerMessage


class Addressed(NamedTuple):
    """A message for the agents with these keys."""

    to: Sequence[bytes]
    message: ServerMessage


class PostBooks(Protocol):
    """One unit of work."""

    def also_elsewhere(self, keys: Collection[bytes]) -> Collection[bytes]:
        """Those of these keys that agents of other halls have proven."""

    def post(self, to: Collection[bytes], body: bytes) -> None:
        """Post a message to the agents with these keys that are connected to other halls."""


class Elsewhere(Protocol):
    def tell(self, books: PostBooks, messages: Iterable[Addressed]) -> None:
        """In the unit of work that decided it: agents that are connected to other halls hear of it once the unit is
        committed. Agents of this hall are told by the hall itself. `messages` are made only if there is another
        hall."""


class Nowhere:
    """There is no other hall."""

    def tell(self, books: PostBooks, messages: Iterable[Addressed]) -> None:
        pass


NOWHERE: Final = Nowhere()
