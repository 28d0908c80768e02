"""Which connections of the mesh belong to which key, and which of them get the envelopes to that key.

An envelope can be replayed from elsewhere, so it proves less than the answer to a challenge. A connection that
proved its key comes first: as long as there is one, those that only sent an envelope of the key get none of its
mail. Several connections may prove one key, for instance two processes of an agent. All of them get its mail, but
those that said they do not receive: a command line that sends one envelope for an agent must not take its mail.
"""

from collections.abc import Iterator
from typing import Final, Generic, Protocol, TypeVar

MAX_PER_KEY: Final = 8  # connections of one key that get its mail


class TooManyConnections(Exception):
    """This key has proven as many connections as it may."""


class Keyed(Protocol):
    @property
    def key(self) -> bytes | None: ...


Connection = TypeVar("Connection", bound=Keyed)


class Holder(Generic[Connection]):
    """A key with at least one connection."""

    __slots__ = ("claimed", "name", "proven", "sending", "told_up_to")

    def __init__(self) -> None:
        self.proven: tuple[Connection, ...] = ()
        self.sending: tuple[Connection, ...] = ()  # that proved the key, and get no mail
        self.claimed: tuple[Connection, ...] = ()  # the latest last
        self.name: str | None = None  # of its last BEACON, None before the first
        self.told_up_to = 0  # connections up to this number have a BEACON of it: see `beacons`


class Connections(Generic[Connection]):
    def __init__(self) -> None:
        self._holders: dict[bytes, Holder[Connection]] = {}

    def __len__(self) -> int:
        """Keys that are here."""
        return len(self._holders)

    def named(self) -> Iterator[tuple[bytes, str]]:
        """The keys that sent a BEACON, with the name in the last one."""
        return ((key, holder.name) for key, holder in self._holders.items() if holder.name is not None)

    def holder(self, key: bytes) -> Holder[Connection] | None:
        return self._holders.get(key)

    def receivers(self, key: bytes) -> tuple[Connection, ...]:
        """The connections that get the envelopes to this key."""
        holder = self._holders.get(key)
        return () if holder is None else holder.proven or holder.claimed

    def is_proven(self, key: bytes) -> bool:
        """True if a connection that proved this key, and gets its mail, is here."""
        holder = self._holders.get(key)
        return holder is not None and bool(holder.proven)

    def claim(self, connection: Connection, key: bytes) -> Holder[Connection]:
        """The connection sent an envelope that is signed with this key. If there are too many of them, the oldest
        gets no more mail."""
        holder = self._holders.setdefault(key, Holder())
        holder.claimed = (*holder.claimed, connection)[-MAX_PER_KEY:]
        return holder

    def prove(self, connection: Connection, key: bytes, *, receives: bool = True) -> Holder[Connection]:
        """Raises TooManyConnections."""
        holder = self._holders.get(key)
        if holder is not None and len(holder.proven) + len(holder.sending) >= MAX_PER_KEY:
            raise TooManyConnections(
                f"This key has proven {MAX_PER_KEY} connections, which is the limit. Close one of them"
            )
        if holder is None:
            holder = self._holders[key] = Holder()
        holder.claimed = _without(holder.claimed, connection)
        if receives:
            holder.proven = (*holder.proven, connection)
        else:
            holder.sending = (*holder.sending, connection)
        return holder

    def leave(self, connection: Connection) -> None:
        """The connection has ended. It need not have had a key."""
        key = connection.key
        holder = None if key is None else self._holders.get(key)
        if key is None or holder is None:
            return
        holder.claimed = _without(holder.claimed, connection)
        holder.proven = _without(holder.proven, connection)
        holder.sending = _without(holder.sending, connection)
        if not (holder.claimed or holder.proven or holder.sending):
            del self._holders[key]


def _without(connections: tuple[Connection, ...], connection: Connection) -> tuple[Connection, ...]:
    if connection not in connections:
        return connections
    return tuple(other for other in connections if other is not connection)
