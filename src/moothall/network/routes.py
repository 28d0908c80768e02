"""Which peer brings an envelope to an agent (mesh wire 6.3).

There are four ways, from the surest to the least sure. A connection of the agent's own key: the handshake proved
it. A hall that announced the agent: it says "send it to me", which proves nothing else. The peer that the
conversation came from: replies to hosted agents go that way. The peer that published the agent's BEACON, or a hall
that passed it on. A node that passed it on is not a way: nodes do not carry envelopes of others. They acknowledge
them, and drop them.

A hall that is not connected is reached through a hall that passed on its announcement. Several halls may claim one
agent. The first claim stays the first, so that a later one cannot take the mail of an agent away. The hall that
publishes the BEACONs of the agent comes before the others.

Only what passed all checks of an envelope may come in here. Everything is bounded: the entry that was used least
recently goes first. `announcement` bounds what halls claim.
"""

from collections import OrderedDict
from collections.abc import Hashable, ItemsView, Iterable
from typing import Final, Generic, TypeVar

import msgspec

from moothall.wire.mesh.envelope import NO_CONVERSATION

Key = TypeVar("Key", bound=Hashable)
Entry = TypeVar("Entry")


class Recent(Generic[Key, Entry]):
    """A bounded table. The entry that was used least recently goes first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: OrderedDict[Key, Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def get(self, key: Key) -> Entry | None:
        """Counts as use."""
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        return entry

    def put(self, key: Key, entry: Entry) -> tuple[Key, Entry] | None:
        """Returns what had to go."""
        self._entries[key] = entry
        self._entries.move_to_end(key)
        return self._entries.popitem(last=False) if len(self._entries) > self._most else None

    def pop(self, key: Key) -> Entry | None:
        return self._entries.pop(key, None)

    def items(self) -> ItemsView[Key, Entry]:
        """From the least recently used on."""
        return self._entries.items()


class Statistics(msgspec.Struct, frozen=True):
    """Entries of each way."""

    connections: int
    hosted: int  # agents that halls announced
    conversations: int
    beacons: int


class _Heard(msgspec.Struct, frozen=True):
    """Who published a BEACON, and which peer brought it."""

    author: bytes | None
    relay: bytes


class Routes:
    """`most` bounds the table of each way but the claims. Peers have the name of their key."""

    def __init__(self, most: int = 10_000) -> None:
        self.peers: Final[set[bytes]] = set()  # that are connected
        self._claims: dict[bytes, dict[bytes, None]] = {}  # the halls of each agent, the best first
        self._conversations: Recent[tuple[bytes, bytes], bytes] = Recent(most)
        self._halls: Recent[bytes, None] = Recent(
            most
        )  # that have announced themselves: they carry envelopes of others
        self._relays: Recent[bytes, _Heard] = Recent(most)  # of BEACONs, and of announcements

    def statistics(self) -> Statistics:
        return Statistics(
            len(self.peers),
            len(self._claims),
            len(self._conversations),
            len(self._relays),
        )

    def met(self, peer: bytes) -> None:
        """There is a connection to this peer."""
        self.peers.add(peer)

    def lost(self, peer: bytes) -> None:
        """The connection has ended. What was learnt from the peer counts again if it comes back."""
        self.peers.discard(peer)

    def beacon(self, key: bytes, relay: bytes, author: bytes | None) -> None:
        """An agent has sent a BEACON, and this peer brought it. `author` is the node that published it."""
        before = self._relays.get(key)
        if before is not None and relay not in self._halls and self._carries(before.relay):
            relay = before.relay  # a node was faster this time
        self._relays.put(key, _Heard(author, relay))
        claims = self._claims.get(key)
        if author is not None and claims is not None and author in claims and author != next(iter(claims)):
            del claims[author]
            self._claims[key] = {author: None, **claims}

    def announced(self, hall: bytes, relay: bytes) -> None:
        """A hall has announced agents, or that it has none, and this peer brought that."""
        if hall not in self._halls:
            self._halls.put(hall, None)
        self.beacon(hall, relay, hall)

    def claimed(self, hall: bytes, came: Iterable[bytes], gone: Iterable[bytes] = ()) -> None:
        """This hall has announced that it hosts the agents that came, and no longer those that are gone.

        The caller bounds the claims: see `announcement.Halls`.
        """
        for key in gone:
            claims = self._claims.get(key)
            if claims is not None:
                claims.pop(hall, None)
                if not claims:
                    del self._claims[key]
        for key in came:
            self._claims.setdefault(key, {}).setdefault(hall)

    def talked(self, conversation_id: bytes, key: bytes, peer: bytes) -> None:
        """An agent has said something in a conversation, and this peer brought it."""
        if conversation_id != NO_CONVERSATION:
            self._conversations.put((conversation_id, key), peer)

    def find(
        self, key: bytes, conversation_id: bytes = NO_CONVERSATION, *, but: bytes | None = None
    ) -> bytes | None:
        """The connected peer that an envelope to this agent goes to. `but` is a peer that must not get it."""
        if key in self.peers and key != but:
            return key
        for hall in self._claims.get(key) or ():
            if hall in self.peers and hall != but:
                return hall
            if (peer := self._relay(hall, but)) is not None:
                return peer
        peer = self._conversations.get((conversation_id, key))
        if peer in self.peers and peer != but:
            return peer
        return self._relay(key, but)

    def _relay(self, key: bytes, but: bytes | None) -> bytes | None:
        heard = self._relays.get(key)
        if heard is None:
            return None
        if heard.author in self.peers and heard.author != but:
            return heard.author
        return heard.relay if self._carries(heard.relay) and heard.relay != but else None

    def _carries(self, peer: bytes) -> bool:
        return peer in self.peers and peer in self._halls
