"""Who is where on the keep wire: each identity has one connection, a connection may have many (keep wire 5)."""

from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Final, Protocol

DIGITS: Final = 32  # of the hash by which a pinned identity is remembered


class Peer(Protocol):
    """One keep connection, as these rules see it. All calls return at once and are harmless after its end."""

    ip: str
    is_loopback: bool

    def answer(self, payload: bytes) -> None:
        """A packet of the hall's own, in reply to one of this peer's."""

    def deliver(self, payload: bytes, sender: "Peer | None", message_id: str, ttl: int) -> bool:
        """Queue a packet of somebody else's; False if this peer has left too much unread.

        A sender that is too fast for this peer is made to wait. When the packet cannot be written after all,
        the sender is told by the `message_id` it gave.
        """

    def hold(self) -> None:
        """Leave its later packets unread until `release`: they must not overtake the one being looked into."""

    def release(self) -> None: ...

    def registered(self) -> None:
        """It has an identity now, and is owed heartbeats."""

    def close(self) -> None:
        """Send what is queued, then close. Its identities are freed in a moment, not during this call."""


class Registry:
    """Last write wins: whoever signed last with an identity has it."""

    def __init__(self) -> None:
        self._owners: dict[str, Peer] = {}
        self._identities: dict[Peer, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def __contains__(self, identity: str) -> bool:
        return identity in self._owners

    def of(self, peer: Peer) -> list[str]:
        return list(self._identities.get(peer, ()))

    def owner(self, identity: str) -> Peer | None:
        return self._owners.get(identity)

    def claim(self, identity: str, peer: Peer) -> Peer | None:
        """The identity is this peer's now; who had it before, if that was another."""
        previous = self._owners.get(identity)
        if previous is peer:
            return None
        if previous is not None:
            self.free(identity)
        self._owners[identity] = peer
        self._identities.setdefault(peer, {})[identity] = None
        return previous

    def free(self, identity: str) -> None:
        peer = self._owners.pop(identity)
        mine = self._identities[peer]
        del mine[identity]
        if not mine:
            del self._identities[peer]


class Pins:
    """With `keep_pin`, an identity belongs to the first key that signed with it, also after a restart.

    An identity can be as long as a packet, so it is its hash that is remembered. When so many are remembered as
    may be, no more are: to forget the oldest would let anybody who makes up enough names take an old one.
    """

    def __init__(
        self, limit: int, known: Iterable[tuple[str, bytes]], remember: Callable[[str, bytes], None]
    ) -> None:
        self._limit = limit
        self._keys = dict(known)
        self._remember = remember

    def admit(self, identity: str, key: bytes) -> bool:
        """Whether the identity is nobody's yet, or this key's."""
        return self._keys.get(_digest(identity)) in (None, key)

    def pin(self, identity: str, key: bytes) -> None:
        """For whoever was admitted and has the identity now."""
        digest = _digest(identity)
        if digest not in self._keys and len(self._keys) < self._limit:
            self._keys[digest] = key
            self._remember(digest, key)


def _digest(identity: str) -> str:
    return sha256(identity.encode()).hexdigest()[:DIGITS]
