"""Agents that are connected elsewhere: how market and court tell them something, wherever they are.

A hall that has its store to itself tells `Nowhere`. Halls that share a PostgreSQL tell each other through it
(`other_halls`).
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from moothall.wire.agentchat.server import ServerMessage

EXPIRY_SECONDS: Final = 10.0  # without a pulse, after which a hall and its agents count as gone
ON_THE_MESH: Final = "mesh"  # the presence of an agent that is connected by the mesh alone

Carried = Callable[[bytes, bytes, int], None]


class Addressed(NamedTuple):
    """A message for the agents with these keys."""

    to: Sequence[bytes]
    message: ServerMessage


class Connected(NamedTuple):
    """How the agent with a key is connected to a hall."""

    presence: str  # ON_THE_MESH, or that of agentchat
    on_mesh: bool = False


class PostBooks(Protocol):
    """One unit of work."""

    def also_elsewhere(self, keys: Collection[bytes]) -> Collection[bytes]:
        """Those of these keys that agents of other halls have proven."""

    def on_mesh_elsewhere(self, keys: Collection[bytes]) -> Collection[bytes]:
        """Those of these keys whose envelopes of the mesh go to another hall."""

    def post(self, to: Collection[bytes], body: bytes) -> None:
        """Post a message to the agents with these keys that are connected to other halls."""


class Elsewhere(Protocol):
    def tell(self, books: PostBooks, messages: Iterable[Addressed]) -> None:
        """In the unit of work that decided it: agents that are connected to other halls hear of it once the unit is
        committed. Agents of this hall are told by the hall itself. `messages` are made only if there is another
        hall."""

    def is_on_mesh(self, books: PostBooks, key: bytes) -> bool:
        """True if this agent is on the mesh of another hall."""

    def carry(self, books: PostBooks, to: bytes, envelope: bytes, kept: int = 0) -> bool:
        """In the unit of work that took it: bring an envelope of the mesh to an agent that is not here. False if it
        is on the mesh of no other hall. `kept` is its number in the inbox in the store, 0 if it is not there."""

    def notify(self, books: PostBooks, to: Sequence[bytes], frame: bytes) -> None:
        """Likewise, a text frame of the mesh."""

    def present(self, key: bytes, *, is_here: bool) -> None:
        """An agent of the mesh has come or gone."""

    def changed(self) -> None:
        """A conversation of the mesh has changed here: other halls count theirs again."""

    def on_mesh(self, carried: Carried, told: Callable[[bytes, bytes], None]) -> None:
        """Call `carried` with each envelope that another hall took for an agent that is here, or was a moment ago:
        the recipient, the envelope, and its number in the inbox in the store. Call `told` with each text frame."""


class Nowhere:
    """There is no other hall."""

    def tell(self, books: PostBooks, messages: Iterable[Addressed]) -> None:
        pass

    def is_on_mesh(self, books: PostBooks, key: bytes) -> bool:
        return False

    def carry(self, books: PostBooks, to: bytes, envelope: bytes, kept: int = 0) -> bool:
        return False

    def notify(self, books: PostBooks, to: Sequence[bytes], frame: bytes) -> None:
        pass

    def present(self, key: bytes, *, is_here: bool) -> None:
        pass

    def changed(self) -> None:
        pass

    def on_mesh(self, carried: Carried, told: Callable[[bytes, bytes], None]) -> None:
        pass


NOWHERE: Final = Nowhere()
