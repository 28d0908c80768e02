"""This node among the nodes of one hall: what its rooms send each other, and what they may believe.

`hall.cluster` is None in a hall without a bus.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from moothall.errors import Unavailable
from moothall.hall.budgets import Price
from moothall.hall.cluster.addresses import Addresses
from moothall.hall.cluster.bus import Bus, Registry, Stop
from moothall.hall.cluster.claims import SharedLapses
from moothall.hall.cluster.forwarding import Forwarding
from moothall.hall.cluster.log import Happened
from moothall.hall.cluster.moves import Moves
from moothall.hall.cluster.nodes import Nodes
from moothall.hall.cluster.ownership import Ownership
from moothall.hall.cluster.post import Post, Soon
from moothall.hall.cluster.reads import Reads
from moothall.hall.cluster.remote import Remote
from moothall.hall.cluster.roster import SharedRoster
from moothall.hall.cluster.topics import Topics
from moothall.hall.session import Agent, Session
from moothall.wire.bus import EVERY_NODE, BusMessage, Origin, node_subject

if TYPE_CHECKING:
    from moothall.hall.hall import Hall

Message = TypeVar("Message", bound=BusMessage)

# That a node follows all public channels after the last one who watched it has gone. One who comes and goes would
# bring the history of all of them there each time.
FOLLOWS_SECONDS: Final = 60.0
CHANGE: Final = 1000  # microseconds of the store: 5,000 ids were claimed in 6 s where NATS syncs its disk


class Cluster:
    def __init__(self, hall: "Hall", bus: Bus, name: str, soon: Soon, url: str = "") -> None:
        """`soon` calls a function at the end of the turn of the loop. Agents of this node connect to `url`."""
        self.hall = hall
        self.bus = bus
        self.name = name
        self.registry: Registry = bus.registry
        self.post = Post(bus, name, soon, hall.log)
        self.nodes = Nodes(bus, name, hall.agenda, hall.clock, hall.log, url)
        self.post.admits = self._admits
        self.post.may_send = lambda: self.is_connected
        self.post.may_log = hall.may_log
        self.nodes.on_begun(self._begin)
        self.nodes.on_ended(self._end)
        self._stops: list[Stop] = []
        self._was_connected = False
        self._follows_until = 0.0
        self._changes: list[Callable[[bool], None]] = []
        self._ready: Callable[[], None] | None = None
        self.moves = Moves(self)
        self.remote = Remote(self)
        self.ownership = Ownership(self)
        self.roster = SharedRoster(self)
        self.addresses = Addresses(self)
        self.topics = Topics(self)
        self.lapses = SharedLapses(self)
        self.nodes.on_renewed(self.check_connected)
        self.nodes.on_pulse(self.check_connected)
        self.nodes.on_told(self.check_ready)
        bus.on_change(lambda is_up: self.check_connected())
        hall.delivery.reaches_others = lambda: self.is_connected
        hall.cluster = self
        self.channels = Forwarding(self)
        self.reads = Reads(self)

    @property
    def is_connected(self) -> bool:
        """True if what this node sends gets to the others, as far as it knows. False: it is lost."""
        return self.bus.is_up and self.nodes.has_lease and self.ownership.is_settled

    @property
    def follows_public(self) -> bool:
        """True if this node needs the lines of all public channels: people watch it, or did a moment ago, or peers
        of the mesh."""
        if self.hall.delivery.gallery is not None or self.topics.is_bridge:
            self._follows_until = self.hall.now() + FOLLOWS_SECONDS
            return True
        return self.hall.now() < self._follows_until

    def on_change(self, told: Callable[[bool], None]) -> None:
        """Call `told` with True when this node reaches the others, and with False when it no longer does."""
        self._changes.append(told)

    def check_connected(self) -> None:
        is_connected = self.is_connected
        if is_connected is not self._was_connected:
            self._was_connected = is_connected
            for told in self._changes:
                told(is_connected)
        self.check_ready()

    def check_ready(self) -> None:
        """Say that this node knows all agents of the hall, if it does."""
        if self._ready is not None and self.is_connected and self.nodes.is_told and self.roster.is_whole:
            ready, self._ready = self._ready, None
            ready()

    def check_reaches(self, agent: Agent) -> None:
        """Raise Unavailable if the agent is connected to another node, and nothing gets there now."""
        if agent.session.is_remote and not self.is_connected:
            raise Unavailable(
                f"{agent.address} is on another node of this hall, which cannot be reached now; try again later"
            )

    def charge_change(self, session: Session) -> None:
        """A session has caused a change of the registry, which NATS writes to its disk."""
        if session.meter is not None:
            session.meter.owe(Price(store=CHANGE), self.hall.now())

    # -- messages ----------------------------------------------------------------------------------

    def send(self, node: str, message: BusMessage) -> None:
        """To one node. It leaves at the end of the turn, and is lost if the bus is down."""
        self.post.send(node_subject(node), message)

    def publish(self, subject: str, message: BusMessage) -> None:
        """To the nodes that listen to this subject."""
        self.post.send(subject, message)

    def handle(self, kind: type[Message], handler: Callable[[Origin, Message], None]) -> None:
        """Call `handler` with each message of this kind that a live node sends."""
        self.post.handle(kind, handler)

    def _admits(self, origin: Origin, message: BusMessage) -> bool:
        """A node that stood still finds in its socket how the others went on without it. It may have been given up,
        and its members taken out of channels: it joins again, and believes nothing until then. If it was not given
        up, it must look again at what it did not believe.

        Of a node that died, what it said last in channels counts: their logs know what is too late.
        """
        if not self.nodes.has_lease:
            self.check_connected()
            return False
        return self.nodes.is_alive(origin.node, origin.life) or isinstance(message, Happened)

    # -- the way in and out ------------------------------------------------------------------------

    def open(self, ready: Callable[[], None] = lambda: None) -> None:
        """Join the other nodes. All handlers are known by now. The bus need not be up yet.

        `ready` is called when this node knows all agents of the hall.
        """
        self._ready = ready
        self._stops = [self.post.listen(subject) for subject in (EVERY_NODE, node_subject(self.name))]
        self.nodes.open()
        self.channels.open()

    def close(self, done: Callable[[], None] = lambda: None) -> None:
        """Leave the other nodes. The bus must stay open until `done` is called."""
        self.post.flush()
        self.channels.close()
        self.nodes.close(done)
        for stop in self._stops:
            stop()
        self._stops.clear()

    def _begin(self, life: int) -> None:
        self.post.origin = Origin(self.name, life)

    def _end(self, life: int) -> None:
        self.post.forget()
        self.check_connected()
