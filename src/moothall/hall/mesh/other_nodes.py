"""Other nodes of this hall: what their agents publish on topics, for the agents and the peers of this one.

The node of the sender has checked the envelope and charged for it. Nodes of one hall believe each other that far.
Here its nonce counts as used, so that it is refused if it is replayed here, or comes from the network as well. The
clock of the other node may be wrong: time is not looked at.

The hall signs some envelopes itself, and each node numbers its own. So this node signs them again. Otherwise its
agents would get nonces that are behind those that they know.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final, Protocol

from moothall.hall.mesh import beacons
from moothall.hall.mesh.abroad import SILENCE
from moothall.hall.mesh.own_envelopes import OwnEnvelopes
from moothall.wire.mesh.envelope import NO_RECIPIENT, Envelope, decode, encode
from moothall.wire.mesh.faults import EnvelopeRefused, Fault
from moothall.wire.mesh.msg_types import NAMED_TOPIC, TOPICS, MsgType
from moothall.wire.mesh.nonces import ReplayGuard

if TYPE_CHECKING:
    from moothall.hall.mesh.guest import Guest
    from moothall.hall.mesh.room import MeshRoom

MAX_AGENTS: Final = 16_384  # of other nodes whose last BEACON is remembered


class SharedTopics(Protocol):
    """Topics on all nodes (`hall.cluster.topics`). They have their full names."""

    def open(
        self, received: Callable[[str, str, bytes, bytes], None], changed: Callable[[str], None]
    ) -> None:
        """Call `received` with the node, the topic, the envelope and its author for each envelope that another node
        hands on. Call `changed` with a topic when the first other node hears it, or the last one no longer does."""

    @property
    def listeners(self) -> int:
        """How many connections the other nodes have, as they said last."""

    def has_listeners(self, listeners: int) -> None:
        """Connections of this node that hear the fixed topics, counted up to a limit. The others hear it later."""

    def hear(self, topic: str, *, is_heard: bool) -> None:
        """Agents of this node hear this topic, or no longer do. The others are told at once, or later."""

    def bridge(self) -> None:
        """This node has the network of peers, for all nodes. It needs all envelopes, and the lines of all public
        channels."""

    def is_heard(self, topic: str) -> bool:
        """True if agents of another node hear this topic."""

    def nodes(self, topic: str) -> Collection[str]:
        """The other nodes that get what is published on this topic."""

    @property
    def bridges(self) -> Collection[str]:
        """Those of them that have the network of peers: one, or none."""

    def publish(self, nodes: Collection[str], topic: str, envelope: bytes, author: bytes = b"") -> None:
        """To these nodes. It is lost if the bus is down. `author` is the agent, if the hall has signed the envelope
        in its place."""


class _Heard:
    """An agent of another node (`beacons.Presented`)."""

    __slots__ = ("name", "seen_at", "told_up_to")

    def __init__(self) -> None:
        self.name: str | None = None
        self.told_up_to = 0
        self.seen_at = 0.0


class OtherNodes:
    def __init__(self, room: "MeshRoom", own: OwnEnvelopes, guard: ReplayGuard) -> None:
        self.received = 0
        self.dropped: Counter[str] = Counter()  # by fault
        self._room = room
        self._own = own
        self._guard = guard
        self._agents: OrderedDict[bytes, _Heard] = OrderedDict()  # the latest at the end

    def take(self, node: str, topic: str, raw: bytes, author: bytes) -> None:
        """Another node hands on an envelope."""
        try:
            envelope = decode(raw)
            self._check(envelope, topic)
            if envelope.sender == self._own.key:
                raw = encode(self._own.make(MsgType.BROADCAST, envelope.payload))
            else:
                author = envelope.sender
                self._note(envelope, node)
        except EnvelopeRefused as refused:
            self.dropped[refused.fault] += 1
            return
        self.received += 1
        if envelope.msg_type is MsgType.BEACON:
            self._beacon(envelope, raw)
        else:
            self._room.handing_on.from_node(topic, raw, author, self._listeners(topic))

    def _check(self, envelope: Envelope, topic: str) -> None:
        """A short form of the checks on arrival: a node of another version may have handed it on."""
        if envelope.msg_type is MsgType.BROADCAST:
            belongs = topic.startswith(NAMED_TOPIC)
        else:
            belongs = TOPICS.get(envelope.msg_type) == topic and envelope.sender != self._own.key
        if not belongs or envelope.recipient != NO_RECIPIENT:
            raise EnvelopeRefused(Fault.WRONG_ROUTE, "the envelope does not belong on this topic")

    def _note(self, envelope: Envelope, node: str) -> None:
        """Envelopes of senders that do not fit are handed on all the same: to lose one is worse than to take its
        replay."""
        guard = self._guard
        if guard.was_taken(envelope):
            raise EnvelopeRefused(Fault.NONCE_REPLAY, "this node has taken the envelope before")
        # Windows are forgotten by the earlier of two clocks, of which one may be wrong.
        now, relay = min(envelope.timestamp, self._room.microseconds()), node.encode()
        if guard.has_room(envelope, now, relay):
            guard.add(envelope, now, relay)

    def _listeners(self, topic: str) -> Collection["Guest"]:
        room = self._room
        if topic.startswith(NAMED_TOPIC):
            return room.topics.members(topic.removeprefix(NAMED_TOPIC))
        return room.listeners

    # -- BEACON --------------------------------------------------------------------------------------

    def _beacon(self, envelope: Envelope, raw: bytes) -> None:
        """The roster of the hall has the agent from its own node."""
        room, key, name = self._room, envelope.sender, beacons.name_in(envelope)
        known = self._agent(key)
        listeners = beacons.listeners(known, name, room.listeners, room.handing_on.listeners_elsewhere)
        room.handing_on.from_node(TOPICS[MsgType.BEACON], raw, key, listeners)
        if listeners:
            beacons.told(known, name, room.newest)
        else:
            beacons.not_told(known, name)

    def _agent(self, key: bytes) -> _Heard:
        now = self._room.now()
        known = self._agents.pop(key, None)
        if known is None or now - known.seen_at > SILENCE:
            known = _Heard()
        known.seen_at = now
        self._agents[key] = known
        if len(self._agents) > MAX_AGENTS:
            self._agents.popitem(last=False)
        return known
