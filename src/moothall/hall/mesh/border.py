"""The border between `/mesh` and the network of peers: what crosses it, and which agents and topics peers know of.

Without a network nothing crosses, and all calls return at once.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final

from moothall.hall.mesh.abroad import Abroad
from moothall.hall.mesh.network import Delivered, Network
from moothall.hall.mesh.presence import Presence
from moothall.hall.mesh.relay import Relay
from moothall.wire.mesh.cbor import UINT64_MAX
from moothall.wire.mesh.envelope import Envelope
from moothall.wire.mesh.msg_types import NAMED_TOPIC, MsgType
from moothall.wire.mesh.offers import decode_amount

# Named topics that the hall hears from the network. Peers look at 256 of each other, the fixed ones included.
MAX_WATCHED: Final = 248

# Why an envelope of a peer goes nowhere, besides the faults of `wire.mesh.faults` and `replies`.
UNKNOWN_RECIPIENT: Final = "UnknownRecipient"
UNDELIVERED: Final = "Undelivered"
AMOUNT_OVERFLOW: Final = "AmountOverflow"
TOO_MANY_SENDERS: Final = "TooManySenders"
TOO_MANY_LINES: Final = "TooManyLines"  # it goes to the subscribers of the topic, and not into the channel

_WITH_AMOUNT: Final = frozenset((MsgType.PROPOSE, MsgType.COUNTER, MsgType.ACCEPT))


class Border:
    def __init__(self, presence: Presence, abroad: Abroad, is_subscribed: Callable[[str], bool]) -> None:
        """`is_subscribed`: connections of `/mesh` hear this named topic, here or at another node of the hall."""
        self.abroad = abroad
        self.relays: set[Relay] = set()
        self.received: Counter[str] = Counter()  # envelopes of peers that passed all checks, by type
        self.dropped: Counter[str] = Counter()  # those of peers that were refused or lost, by reason
        self.published = 0
        self.carried = 0  # bilateral envelopes of agents here that were handed to the network
        self.forwarded = 0  # those of peers, for other peers
        self.network: Network | None = None  # set by `open`
        self._presence = presence
        self._is_subscribed = is_subscribed
        self._occupied: set[str] = set()  # topics whose public channel has a member
        self._watched: set[str] = set()
        self._unwatched: dict[str, None] = {}  # that agents here hear, and there was no room for
        self._announced: set[bytes] = set()  # keys that peers know to be here

    def open(self, network: Network) -> None:
        """Call it once, before the first connection."""
        self.network = network
        self._presence.on_channels(self._said, self._has_members)

    # -- topics ----------------------------------------------------------------------------------------

    def publish(self, topic: str, raw: bytes) -> None:
        """`topic` is the full name."""
        if self.network is not None:
            self.published += 1
            self.network.publish(topic, raw)

    def _said(self, topic: str, raw: bytes) -> None:
        self.publish(NAMED_TOPIC + topic, raw)

    def _has_members(self, topic: str, is_occupied: bool) -> None:
        if is_occupied:
            self._occupied.add(topic)
        else:
            self._occupied.discard(topic)
        self.topic_changed(topic)

    def topic_changed(self, topic: str) -> None:
        """The first agent of the hall hears this topic, or the last one no longer does."""
        if self.network is None:
            return
        if self._is_subscribed(topic) or topic in self._occupied:
            if topic not in self._watched:
                self._watch(topic)
        elif topic in self._watched:
            self._watched.remove(topic)
            self.network.unwatch(NAMED_TOPIC + topic)
            if self._unwatched:
                self._watch(next(iter(self._unwatched)))
        else:
            self._unwatched.pop(topic, None)

    def _watch(self, topic: str) -> None:
        if len(self._watched) >= MAX_WATCHED or self.network is None:
            self._unwatched[topic] = None
            return
        self._unwatched.pop(topic, None)
        self._watched.add(topic)
        self.network.watch(NAMED_TOPIC + topic)

    # -- agents ----------------------------------------------------------------------------------------

    def agent_changed(self, key: bytes, *, is_here: bool) -> None:
        """`is_here`: a connection that has proven this key gets the envelopes to it.

        An envelope of an agent can be replayed by each that gets it. To announce such a connection would take the
        mail of the agent away from the hall where it is. Agents that prove nothing are reached by their BEACONs.
        """
        if self.network is None or (key in self._announced) == is_here:
            return
        if is_here:
            self._announced.add(key)
        else:
            self._announced.remove(key)
        self.network.present(key, is_here=is_here)

    def heard(self, envelope: Envelope, peer: bytes) -> None:
        """An envelope of this peer has passed all checks."""
        if self.network is not None:
            self.network.heard(envelope, peer)

    # -- bilateral envelopes ---------------------------------------------------------------------------

    def reaches(self, envelope: Envelope) -> bool:
        return self.network is not None and is_safe(envelope) and self.network.reaches(envelope)

    def carry(self, envelope: Envelope, raw: bytes, done: Delivered, *, source: bytes | None = None) -> None:
        """`source` is the peer that it came from; None: it is of an agent of this hall."""
        if self.network is None or not is_safe(envelope):
            done(False)
            return
        if source is None:
            self.carried += 1
        else:
            self.forwarded += 1
        self.network.carry(envelope, raw, done, source=source)

    # -- what operators see ----------------------------------------------------------------------------

    def statistics(self) -> dict[str, int]:
        return {
            "relays": len(self.relays),
            "relay_waiting": sum(relay.waiting for relay in self.relays),
            "relay_waiting_bytes": sum(relay.waiting_bytes for relay in self.relays),
            "abroad": len(self.abroad),
            "watched": len(self._watched),
            "published": self.published,
            "carried": self.carried,
            "forwarded": self.forwarded,
        }


def is_safe(envelope: Envelope) -> bool:
    """False if it has an amount that does not fit 64 bits. The reference node crashes when it reads one."""
    return envelope.msg_type not in _WITH_AMOUNT or 0 <= decode_amount(envelope.payload) <= UINT64_MAX
