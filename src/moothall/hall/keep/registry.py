"""Who is where on the keep wire: each identity has one connection, a connection may have many (keep wire 5)."""

from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Final, Protocol

from moothall.hall.budgets import Meter

MAX_PINS: Final = 100_000  # identities that stay with their first key
DIGITS: Final = 32  # of the hash by which a pinned identity is remembered


class Peer(Protocol):
    """One keep connection, as these rules see it. All calls return at once and are harmless after its end."""

    ip: str
    is_loopback: bool
    meter: Meter | None  # counts what it costs; None without limits

    def answer(self, payload: bytes) -> None:
        """A packet of the hall's own, in reply to one of this peer's."""

    def deliver(self, payload: bytes, sender: "Peer | None", message_id: str, ttl: int) -> bool:
        """Queue a packet of another sender; False if this peer has left too much unread.

        When the packet cannot be written after all, the sender is told by the `message_id` it gave.
        """

    def hold(self) -> None:
        """Leave its later packets unread until `release`: they must not overtake the one being looked into."""

    def release(self) -> None: ...

    def registered(self) -> None:
        """The connection has its first identity: its heartbeats begin."""

    def close(self) -> None:
        """Send what is queued, then close. Its identities are freed in a moment, not during this call."""


class _Holding:
    """The identities of one connection, and how many characters they have together."""

    __slots__ = ("identities", "text")

    def __init__(self) -> None:
        self.identities: dict[str, None] = {}
        self.text = 0


class Registry:
    """Last write wins: an identity belongs to the connection that signed with it last.

    A connection that ends may have a thousand identities. From that moment on they have no owner, but each takes up
    its room until it is freed, and they are freed a few at a time.
    """

    def __init__(self) -> None:
        self._holders: dict[str, Peer] = {}
        self._holdings: dict[Peer, _Holding] = {}
        self._abandoned: dict[Peer, None] = {}  # connections that have ended, the first to end first

    def __len__(self) -> int:
        return len(self._holders)

    def __contains__(self, identity: str) -> bool:
        return self.owner(identity) is not None

    @property
    def extra(self) -> int:
        """Identities that connections have besides their first."""
        return len(self._holders) - len(self._holdings)

    def count(self, peer: Peer) -> int:
        holding = self._holdings.get(peer)
        return 0 if holding is None else len(holding.identities)

    def first(self, peer: Peer) -> str:
        """The first identity of a connection that has any."""
        return next(iter(self._holdings[peer].identities))

    def text(self, peer: Peer) -> int:
        holding = self._holdings.get(peer)
        return 0 if holding is None else holding.text

    def owner(self, identity: str) -> Peer | None:
        holder = self._holders.get(identity)
        return None if self._abandoned and holder in self._abandoned else holder

    def is_held(self, identity: str) -> bool:
        """True if the identity has an owner, or had one and is not freed yet."""
        return identity in self._holders

    def claim(self, identity: str, peer: Peer) -> None:
        """The identity, which has been freed, is this peer's now."""
        self._holders[identity] = peer
        holding = self._holdings.get(peer)
        if holding is None:
            holding = self._holdings[peer] = _Holding()
        holding.identities[identity] = None
        holding.text += len(identity)

    def free(self, identity: str) -> None:
        peer = self._holders.pop(identity)
        holding = self._holdings[peer]
        del holding.identities[identity]
        holding.text -= len(identity)
        if not holding.identities:
            del self._holdings[peer]
            self._abandoned.pop(peer, None)

    def abandon(self, peer: Peer) -> None:
        """The connection has ended."""
        if peer in self._holdings:
            self._abandoned[peer] = None

    def next_abandoned(self) -> str | None:
        """One of the identities that are to be freed."""
        for peer in self._abandoned:
            return self.first(peer)
        return None


class Pins:
    """With `keep_pin`, an identity belongs to the first key that signed with it, also after a restart.

    An identity can be as long as a packet, so it is its hash that is remembered. When so many are remembered as
    may be, no more are: to forget the oldest would let a client that makes up enough names take an old one.
    """

    def __init__(self, limit: int, known: Iterable[tuple[str, bytes]] = ()) -> None:
        """`known` are pins of the store: hashes of identities, with keys."""
        self._limit = limit
        self._keys = dict(known)
        self.unsaved: dict[str, bytes] = {}  # those that the store does not have yet
        self.on_pinned: Callable[[], None] = lambda: None  # told when one was added to them

    def admit(self, identity: str, key: bytes) -> bool:
        """True if the identity is pinned to no key yet, or to this one."""
        return self._keys.get(_digest(identity)) in (None, key)

    def pin(self, identity: str, key: bytes) -> None:
        """Pin an identity that this key was admitted with."""
        digest = _digest(identity)
        if digest not in self._keys and len(self._keys) < self._limit:
            self._keys[digest] = self.unsaved[digest] = key
            self.on_pinned()

    def learn(self, digest: str, key: bytes) -> None:
        """The store says that this key was first."""
        self._keys[digest] = key
        self.unsaved.pop(digest, None)


def _digest(identity: str) -> str:
    return sha256(identity.encode()).hexdigest()[:DIGITS]
