"""Topics of the mesh on all nodes: an envelope goes to the nodes whose agents hear its topic, once to each.

Each node tells the others which topics its agents hear: all of them when two nodes meet, and then what changes. A
node that hears more than it can name gets all envelopes. So does the one with the network of peers, which brings
them there for all nodes. A topic that only agents of one node hear costs the bus nothing.

A node that has just come, or was apart from the others, says what it hears and asks the same. Of two nodes the
second one to know the other asks, so both know.
"""

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, ClassVar, Final

from moothall.hall.cluster.nodes import Node
from moothall.wire.bus import EVERY_NODE, BadPacket, BusMessage, Origin

if TYPE_CHECKING:
    from moothall.hall.cluster.cluster import Cluster

MAX_NAMED: Final = 8192  # topics that a node names: about 1 MB, if their names are as long as they can be
MAX_NAME: Final = 256  # bytes

Received = Callable[[str, str, bytes, bytes], None]  # node, topic, envelope, author


class TopicsHeard(BusMessage, frozen=True):
    """All topics that agents of this node hear."""

    KIND: ClassVar = "topics-heard"

    topics: list[str]
    hears_all: bool = False  # it gets the envelopes of all topics
    asks: bool = False  # the other node says the same of itself
    listeners: int = 0  # connections that hear the fixed topics, counted up to a limit
    is_bridge: bool = False  # it has the network of peers


class TopicsChanged(BusMessage, frozen=True):
    KIND: ClassVar = "topics-changed"

    heard: list[str]
    unheard: list[str] = []  # noqa: RUF012  # msgspec copies it
    listeners: int | None = None  # if that has changed


class TopicEnvelope(BusMessage, frozen=True):
    """An envelope that this node has taken, and checked."""

    KIND: ClassVar = "topic-envelope"

    topic: str
    envelope: bytes
    author: bytes = b""  # the key of its agent, if the hall has signed it in the place of the agent


class Topics:
    """Implements `mesh.other_nodes.SharedTopics`."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._own: dict[str, None] = {}  # that agents of this node hear
        self._unheard: set[str] = set()  # of them: no longer, and the other nodes are not told yet
        self.is_bridge = False
        self._said_all = False  # as the other nodes were told
        self._told_all: set[str] = set()  # nodes that were told all topics since the last pulse
        self._outdated: set[str] = set()  # of them: something has changed after that
        self._others: dict[str, set[str]] = {}  # what each other node has named
        self._hearers: dict[str, set[str]] = {}  # nodes, by topic; none is empty
        self._all: set[str] = set()  # nodes that get all envelopes
        self.bridges: set[str] = set()  # those with the network of peers: one, or none
        self._own_listeners = 0
        self._said_listeners = 0
        self._listeners: dict[str, int] = {}  # by node
        self.listeners = 0  # of all other nodes
        self._received: Received = lambda node, topic, envelope, author: None
        self._changed: Callable[[str], None] = lambda topic: None
        cluster.handle(TopicsHeard, self._hear_all_of)
        cluster.handle(TopicsChanged, self._hear_change)
        cluster.handle(TopicEnvelope, self._take)
        cluster.nodes.on_joined(self._meet)
        cluster.nodes.on_gone(self._lose)
        cluster.nodes.on_pulse(self._pulse)
        cluster.on_change(self._reach)

    def open(self, received: Received, changed: Callable[[str], None]) -> None:
        self._received = received
        self._changed = changed

    # -- what agents of this node hear ---------------------------------------------------------------

    def hear(self, topic: str, *, is_heard: bool) -> None:
        # The other nodes are told at once that it is heard, and within a second that it no longer is. So an agent
        # that comes and goes costs them little.
        if not is_heard:
            if topic in self._own:
                self._unheard.add(topic)
        elif topic in self._own:
            self._unheard.discard(topic)
        else:
            self._own[topic] = None
            if not self._check_all():
                self._publish(TopicsChanged([topic]))

    def has_listeners(self, listeners: int) -> None:
        self._own_listeners = listeners

    def bridge(self) -> None:
        self.is_bridge = self._said_all = True
        self._publish(self._heard(asks=False))

    def _check_all(self) -> bool:
        """True if the other nodes need not be told of a topic: they send everything, or have just been told."""
        most = MAX_NAMED // 2 if self._said_all else MAX_NAMED  # to name all of them again and again is dear
        hears_all = self.is_bridge or len(self._own) > most
        if hears_all is self._said_all:
            return hears_all
        self._said_all = hears_all
        self._publish(self._heard(asks=False))
        return True

    def _pulse(self) -> None:
        for topic in self._unheard:
            del self._own[topic]
        unheard, self._unheard = sorted(self._unheard), set()
        has_changed = self._own_listeners != self._said_listeners
        if self._check_all():
            unheard = []
        if unheard or has_changed:
            self._said_listeners = self._own_listeners
            self._publish(TopicsChanged([], unheard, self._own_listeners))
        self._tell_again()

    def _heard(self, *, asks: bool) -> TopicsHeard:
        named = [] if self._said_all else list(self._own)
        return TopicsHeard(named, self._said_all, asks, self._said_listeners, self.is_bridge)

    def _publish(self, message: BusMessage) -> None:
        self._outdated |= self._told_all
        self._cluster.publish(EVERY_NODE, message)

    def _tell(self, node: str, *, asks: bool) -> None:
        """Tell one node all topics. It may get a later change before, because that comes on another subject."""
        self._told_all.add(node)
        self._cluster.send(node, self._heard(asks=asks))

    def _tell_again(self) -> None:
        outdated, self._outdated, self._told_all = sorted(self._outdated), set(), set()
        for node in outdated:
            self._cluster.send(node, self._heard(asks=False))

    def _meet(self, node: Node) -> None:
        self._tell(node.name, asks=True)

    def _reach(self, is_connected: bool) -> None:
        """What was said meanwhile is lost, here and there."""
        if is_connected:
            self._publish(self._heard(asks=True))

    # -- what agents of other nodes hear -------------------------------------------------------------

    def is_heard(self, topic: str) -> bool:
        return topic in self._hearers

    def nodes(self, topic: str) -> set[str]:
        return self._hearers.get(topic, set()) | self._all

    def _hear_all_of(self, origin: Origin, message: TopicsHeard) -> None:
        before = self._others.get(origin.node, set())
        now = _checked(message.topics)
        if len(now) > MAX_NAMED:
            raise BadPacket("A node hears more topics than it may name")
        self._change(origin.node, now - before, before - now)
        self._count(origin.node, message.listeners)
        for nodes, belongs in ((self._all, message.hears_all), (self.bridges, message.is_bridge)):
            if belongs:
                nodes.add(origin.node)
            else:
                nodes.discard(origin.node)
        if message.asks:
            self._tell(origin.node, asks=False)

    def _hear_change(self, origin: Origin, message: TopicsChanged) -> None:
        known = self._others.get(origin.node, set())
        heard, unheard = _checked(message.heard) - known, _checked(message.unheard) & known
        if len(known) + len(heard) - len(unheard) > MAX_NAMED:
            raise BadPacket("A node hears more topics than it may name")
        if message.listeners is not None:
            self._count(origin.node, message.listeners)
        self._change(origin.node, heard, unheard)

    def _count(self, node: str, listeners: int) -> None:
        if listeners < 0:
            raise BadPacket("A node told of a negative number of listeners")
        self.listeners += listeners - self._listeners.get(node, 0)
        self._listeners[node] = listeners

    def _change(self, node: str, heard: set[str], unheard: set[str]) -> None:
        known = self._others.setdefault(node, set())
        known |= heard
        known -= unheard
        changed = []
        for topic in heard:
            hearers = self._hearers.setdefault(topic, set())
            if not hearers:
                changed.append(topic)
            hearers.add(node)
        for topic in unheard:
            hearers = self._hearers[topic]
            hearers.discard(node)
            if not hearers:
                del self._hearers[topic]
                changed.append(topic)
        for topic in changed:
            self._changed(topic)

    def _lose(self, node: Node) -> None:
        self._change(node.name, set(), set(self._others.get(node.name, ())))
        del self._others[node.name]
        self._all.discard(node.name)
        self.bridges.discard(node.name)
        self.listeners -= self._listeners.pop(node.name, 0)

    # -- envelopes -----------------------------------------------------------------------------------

    def publish(self, nodes: Collection[str], topic: str, envelope: bytes, author: bytes = b"") -> None:
        message = TopicEnvelope(topic, envelope, author)
        for node in nodes:
            self._cluster.send(node, message)

    def _take(self, origin: Origin, message: TopicEnvelope) -> None:
        self._received(origin.node, message.topic, message.envelope, message.author)


def _checked(topics: list[str]) -> set[str]:
    if any(not 0 < len(topic.encode(errors="replace")) <= MAX_NAME for topic in topics):
        raise BadPacket("A node named a topic that is empty or too long")
    return set(topics)
