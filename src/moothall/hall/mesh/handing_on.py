"""Where an envelope to a topic goes, once it is taken: to agents here, to other nodes of the hall, to the network.

| it came from | agents of this node | other nodes | the network of peers |
|---|---|---|---|
| a connection to `/mesh` | yes | yes | yes |
| another node | yes | no | yes |
| the network | yes | yes | no |

One node of a hall has the network. So an envelope crosses each border once, and comes back over none.
"""

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, Final

from moothall.hall.mesh import beacons
from moothall.hall.mesh.guest import Guest
from moothall.hall.mesh.other_nodes import SharedTopics
from moothall.hall.mesh.source import Source
from moothall.wire.mesh.envelope import is_beacon, sender_of
from moothall.wire.mesh.msg_types import BROADCAST_TOPIC, NAMED_TOPIC, NOTARY_TOPIC, REPUTATION_TOPIC

if TYPE_CHECKING:
    from moothall.hall.mesh.room import MeshRoom

_FIXED: Final = (BROADCAST_TOPIC, NOTARY_TOPIC, REPUTATION_TOPIC)


class HandingOn:
    def __init__(self, room: "MeshRoom") -> None:
        self.sent = 0  # envelopes for other nodes, each as often as there were nodes for it
        self._room = room
        self._nodes: SharedTopics | None = None  # None: the hall has one node
        self._hears_fixed = False

    @property
    def has_nodes(self) -> bool:
        """True if the hall has several nodes."""
        return self._nodes is not None

    # -- envelopes -----------------------------------------------------------------------------------

    def hand_on(
        self, source: Source[Any], topic: str, raw: bytes, author: bytes, listeners: Iterable[Guest]
    ) -> None:
        """`topic` is the full name. `author` is the agent, which does not get it back. The hall may have signed it
        in its place."""
        self._room.routing.publish(raw, listeners, author)
        if source.peer is None:
            self._room.border.publish(topic, raw)
        if self._nodes is None:
            return
        nodes = self._hearers(topic, is_beacon=is_beacon(raw))
        if nodes:
            self._nodes.publish(nodes, topic, raw, b"" if sender_of(raw) == author else author)
            self.sent += len(nodes)

    def from_node(self, topic: str, raw: bytes, author: bytes, listeners: Iterable[Guest]) -> None:
        """Hand an envelope that another node has handed on to the listeners here, and to the network."""
        self._room.routing.publish(raw, listeners, author)
        self._room.border.publish(topic, raw)

    def nodes(self, topic: str, *, is_beacon: bool) -> int:
        """How many other nodes an envelope to this topic goes to."""
        return len(self._hearers(topic, is_beacon=is_beacon))

    def _hearers(self, topic: str, *, is_beacon: bool) -> Collection[str]:
        """In a crowd, no agent gets a BEACON. The network does."""
        if self._nodes is None:
            return ()
        if is_beacon and beacons.is_crowd(self._room.listeners, self._nodes.listeners):
            return self._nodes.bridges
        return self._nodes.nodes(topic)

    # -- what this node hears ------------------------------------------------------------------------

    def join(self, nodes: SharedTopics) -> None:
        """The hall has other nodes. Call it once, before the first connection."""
        self._nodes = nodes
        nodes.open(self._room.other_nodes.take, self._changed_elsewhere)
        self.network_opened()

    def network_opened(self) -> None:
        if self._nodes is not None and self._room.border.network is not None:
            self._nodes.bridge()

    def topic_changed(self, topic: str) -> None:
        """The first agent here hears this named topic, or the last one no longer does."""
        if self._nodes is not None:
            self._nodes.hear(NAMED_TOPIC + topic, is_heard=bool(self._room.topics.members(topic)))

    def listeners_changed(self) -> None:
        """A connection got its key, or has ended: it hears the fixed topics."""
        if self._nodes is None:
            return
        # More make no difference.
        self._nodes.has_listeners(min(len(self._room.listeners), beacons.LARGEST_AUDIENCE + 1))
        hears_fixed = bool(self._room.listeners)
        if hears_fixed is not self._hears_fixed:
            self._hears_fixed = hears_fixed
            for topic in _FIXED:
                self._nodes.hear(topic, is_heard=hears_fixed)

    @property
    def listeners_elsewhere(self) -> int:
        """How many connections other nodes have. Beyond a crowd, it may be more."""
        return 0 if self._nodes is None else self._nodes.listeners

    def is_heard_elsewhere(self, topic: str) -> bool:
        """True if agents of another node hear this named topic."""
        return self._nodes is not None and self._nodes.is_heard(NAMED_TOPIC + topic)

    def _changed_elsewhere(self, topic: str) -> None:
        if topic.startswith(NAMED_TOPIC):
            self._room.border.topic_changed(topic.removeprefix(NAMED_TOPIC))
