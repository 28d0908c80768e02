"""How much a peer may bring, and how much each author and each sender may say through it (mesh wire 6.4).

The reference counts what a peer relays against the peer alone, which punishes relays. Here a peer has much room. A
node that publishes (`from` of a pubsub message) has less: it may be a hall that speaks for many agents. The sender
of an envelope has least.

The author of a message is not proven before its signature is checked, and the check is most of the price. So an
author is counted for each peer that brings it: a peer that lies about authors uses up its own room, and duplicates
from other peers cost the author nothing.

The bursts are large, because nodes send what they have queued in one piece when a connection comes back. A sender
that goes on is held to the average.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from moothall.hall.budgets import Account, Bucket, Price, buckets
from moothall.network.routes import Recent
from moothall.settings.limits import Rate

MAX_PEERS: Final = 2048  # twice the connections that others may open
MAX_PAIRS: Final = 20_000  # of peer and author: about 5 MB

_MIB: Final = 1024 * 1024


class Allowance(msgspec.Struct, frozen=True):
    """`Rate(20_000, 10)` is 20,000 at once, and 2,000 a second."""

    messages: Rate
    bytes: Rate


class Limits(msgspec.Struct, frozen=True):
    peer: Allowance = Allowance(Rate(20_000, 10), Rate(64 * _MIB, 8))
    author: Allowance = Allowance(Rate(8000, 8), Rate(32 * _MIB, 8))
    sender: Allowance = Allowance(Rate(4000, 10), Rate(16 * _MIB, 8))


_FREE: Final = Allowance(Rate(0, 1), Rate(0, 1))
UNLIMITED: Final = Limits(peer=_FREE, author=_FREE, sender=_FREE)


class PeerLimits:
    """`now` is in milliseconds, and never goes back."""

    def __init__(self, now: Callable[[], int], limits: Limits | None = None) -> None:
        limits = limits or Limits()
        self._now = now
        self._peers = _Accounts(MAX_PEERS, limits.peer)
        self._authors = _Accounts(MAX_PAIRS, limits.author)
        self._senders = _Accounts(MAX_PAIRS, limits.sender)

    def __len__(self) -> int:
        """Accounts that are kept."""
        return len(self._peers) + len(self._authors) + len(self._senders)

    def admits(self, peer: bytes, author: bytes, size: int) -> bool:
        """A message of pubsub, before its signature is checked. False drops it."""
        now = self._now() / 1000
        return self._peers.take(peer, size, now) and self._authors.take(peer + author, size, now)

    def admits_stream(self, peer: bytes, size: int) -> bool:
        """An envelope from a bilateral stream, before it is decoded. False drops it."""
        return self._peers.take(peer, size, self._now() / 1000)

    def admits_sender(self, peer: bytes, sender: bytes, size: int) -> bool:
        """An envelope that was decoded, from a topic or a stream. False drops it."""
        return self._senders.take(peer + sender, size, self._now() / 1000)


class _Accounts:
    def __init__(self, most: int, allowance: Allowance) -> None:
        self._buckets: tuple[Bucket, ...] = buckets((allowance.messages, allowance.bytes))
        self._accounts: Recent[bytes, Account] = Recent(most)

    def __len__(self) -> int:
        return len(self._accounts)

    def take(self, owner: bytes, size: int, now: float) -> bool:
        account = self._accounts.get(owner)
        if account is None:
            account = Account(self._buckets)
            self._accounts.put(owner, account)
        return not account.take(Price(frames=1, bytes=size), now)
