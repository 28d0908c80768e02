"""The room of the mesh: the way of an envelope from a connection to others (mesh wire 3, 4, 6).

An envelope is charged, decoded and proven. Then it is taken (`taking`), whether it came by a connection to `/mesh`
or from a peer of the network (`relay`). Text frames are questions to the hall itself (`asking`).
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from moothall.hall.access import Doorkeeper
from moothall.hall.checking import Checks
from moothall.hall.gate import Gate
from moothall.hall.mesh.abroad import Abroad
from moothall.hall.mesh.arrival import Arrival
from moothall.hall.mesh.asking import Asking
from moothall.hall.mesh.border import Border
from moothall.hall.mesh.connections import Connections
from moothall.hall.mesh.frames import Error, HallFrame, Refused
from moothall.hall.mesh.guest import Guest
from moothall.hall.mesh.handing_on import HandingOn
from moothall.hall.mesh.inbox import Inboxes
from moothall.hall.mesh.market import Dealings, Payer
from moothall.hall.mesh.network import Network
from moothall.hall.mesh.other_nodes import OtherNodes, SharedTopics
from moothall.hall.mesh.own_envelopes import OwnEnvelopes
from moothall.hall.mesh.presence import Presence
from moothall.hall.mesh.relay import RELAY_FACTOR, Relay
from moothall.hall.mesh.routing import Routing
from moothall.hall.mesh.source import Source
from moothall.hall.mesh.taking import Taking
from moothall.hall.mesh.topics import Topics
from moothall.hall.outside import Entropy, Link
from moothall.hall.waiting import WaitingLine
from moothall.settings.limits import Rate
from moothall.wire.authority import host_header
from moothall.wire.websocket import INTERNAL_ERROR, POLICY_VIOLATION

MAX_MESSAGE: Final = 128 * 1024  # bytes of a frame: one that is too long for an envelope is still told why
MILLI_TO_MICRO: Final = 1000


class MeshRoom:
    """What `moothall.gateways` has behind the path `/mesh` of its port."""

    def __init__(
        self,
        gate: Gate,
        door: Doorkeeper,
        checks: Checks,
        dealings: Dealings,
        presence: Presence,
        own: OwnEnvelopes,
        inboxes: Inboxes | None,
        entropy: Entropy,
    ) -> None:
        settings = gate.settings
        self.gate = gate
        self.checks = checks
        self.hall_id = own.key.hex()
        self.public_host = host_header(settings.public_url) if settings.public_url else ""
        self.rate = Rate(0, 1) if settings.no_limits else settings.mesh_rate
        self.received: Counter[str] = Counter()  # envelopes that passed all checks, by type
        self.refused: Counter[str] = Counter()  # by fault
        self.waits = 0  # times that a connection had to wait for its limits
        self.guests: set[Guest] = set()  # all connections
        self.listeners: dict[Guest, None] = {}  # those with a key, in the order in which they got it
        self.topics: Topics[Guest] = Topics(self._topic_changed)
        self.connections: Connections[Guest] = Connections()
        self.floor = gate.timestamp() * MILLI_TO_MICRO
        self.newest = 0  # the number of the last connection that got a key
        abroad = Abroad(presence, gate.agenda, gate.now)
        self.border = Border(presence, abroad, self._is_heard)
        self.handing_on = HandingOn(self)
        self._door = door
        self._dealings = dealings
        self._presence = presence
        self._limited = not settings.no_limits
        self._strangers: WaitingLine[Guest] = WaitingLine(
            gate.agenda, settings.identify_timeout, self._overdue
        )
        self._identify = bool(settings.identify_timeout)
        self.routing = Routing(self, inboxes, dealings)
        self._asking = Asking(self, inboxes, dealings, presence, entropy)
        self._taking = Taking(self, dealings, presence, own)
        self.other_nodes = OtherNodes(self, own, self._taking.guard)

    @property
    def network(self) -> Network | None:
        """The network of peers that this hall belongs to. Set it once, before the first connection."""
        return self.border.network

    @network.setter
    def network(self, network: Network) -> None:
        self.border.open(network)
        self.handing_on.network_opened()

    def join_nodes(self, nodes: SharedTopics) -> None:
        """This hall has several nodes. Call it once, before the first connection."""
        self.handing_on.join(nodes)

    def now(self) -> float:
        return self.gate.now()

    def microseconds(self) -> int:
        return self.gate.timestamp() * MILLI_TO_MICRO

    # -- connections -----------------------------------------------------------------------------

    def connect(
        self, link: Link, ip: str, user_agent: str = "", *, is_loopback: bool = False, host: str = ""
    ) -> Guest | None:
        """A new connection, or None if it was turned away."""
        counts = self._door.connections
        if not is_loopback and not counts.admit(ip):
            self.gate.turn_away(ip, is_news=counts.is_news(ip))
            link.close(POLICY_VIOLATION, "Too many connections from this IP")
            return None
        meter = self.gate.budgets.meter(ip, is_loopback=is_loopback) if self._limited else None
        guest = Guest(self, link, ip, meter, is_loopback=is_loopback, host=host)
        self.guests.add(guest)
        if self._taking.finished is not None:
            guest.hold()  # for ever: the hall is about to close
        if self._identify:
            self._strangers.join(guest, self.now())
        return guest

    def disconnect(self, guest: Guest) -> None:
        if guest not in self.guests:
            return
        self.guests.remove(guest)
        self.listeners.pop(guest, None)
        self.handing_on.listeners_changed()
        if not guest.payer.is_loopback:
            self._door.connections.depart(guest.ip)
        if guest.line is not None:
            guest.line.leave(guest)
        self.topics.leave(guest)
        self.connections.leave(guest)
        self._agent_changed(guest)
        if guest.is_proven and guest.receives and guest.key and not self.connections.is_proven(guest.key):
            self._dealings.present(guest.key, is_here=False)
        self._presence.depart(guest)
        guest.end()

    def connect_peer(self, peer: bytes, ip: str, *, is_loopback: bool) -> Relay:
        """A peer of the network is connected. Call `end` of the relay when it is gone."""
        budgets, border = self.gate.budgets, self.border
        meter = budgets.meter(ip, is_loopback=is_loopback, factor=RELAY_FACTOR) if self._limited else None
        payer = Payer(ip, is_loopback, "peer")
        relay = Relay(self, peer, payer, meter, received=border.received, dropped=border.dropped)
        border.relays.add(relay)
        if self._taking.finished is not None:
            relay.hold()
        return relay

    def disconnect_peer(self, relay: Relay) -> None:
        self.border.relays.discard(relay)

    def fail(self, guest: Guest) -> None:
        """A bug of ours: only this connection pays for it."""
        guest.close(INTERNAL_ERROR, "Internal error")

    def _overdue(self, guest: Guest) -> None:
        self.gate.note("mesh_identify_timeout", ip=guest.ip)
        guest.close(POLICY_VIOLATION, "Send a BEACON or prove your key first")

    # -- frames ----------------------------------------------------------------------------------

    def receive(self, guest: Guest, payload: bytes) -> None:
        guest.receive(payload, is_text=True)

    def receive_binary(self, guest: Guest, payload: bytes) -> None:
        guest.receive(payload, is_text=False)

    def receive_control(self, guest: Guest, size: int) -> bool:
        return guest.pay_control(size)

    def receive_piece(self, guest: Guest, size: int) -> None:
        guest.prepay(size)

    def waiting_bytes(self, guest: Guest) -> int:
        return guest.waiting_bytes

    def throttle(self, seconds: float, then: Callable[[], None]) -> None:
        """A connection is over a limit, and waits for this time."""
        self.waits += 1
        self.gate.agenda.at(self.now() + seconds, then)

    def handle(self, source: Source[Any], arrival: Arrival) -> None:
        """A frame whose signature was checked, if it has one."""
        try:
            if arrival.fault is not None:
                self._tell_fault(source, arrival.fault)
                arrival.settle(True)
            elif arrival.envelope is not None:
                self._taking.take(source, arrival, arrival.envelope)
            elif isinstance(source, Guest):
                self._asking.answer(source, arrival)
        except Exception:  # a bug of ours: this connection ends, the others go on
            self.gate.log.warning("a frame of the mesh could not be handled", exc_info=True)
            source.fail()

    def _tell_fault(self, source: Source[Any], fault: HallFrame) -> None:
        if isinstance(fault, Refused):
            source.refused[fault.fault] += 1
        elif isinstance(fault, Error):
            source.refused[fault.code] += 1
        source.tell(fault)

    # -- keys ------------------------------------------------------------------------------------

    def bind(self, guest: Guest, key: bytes) -> None:
        """The connection has sent a valid envelope: it has this key from now on."""
        self._give(guest, key)
        self.connections.claim(guest, key)
        self._agent_changed(guest)

    def proved(self, guest: Guest, key: bytes, *, receives: bool) -> None:
        """The connection has proven this key. Raises TooManyConnections."""
        holder = self.connections.prove(guest, key, receives=receives)
        if guest.key is None:
            self._give(guest, key)
        guest.is_proven = True
        self._dealings.proved(key)
        guest.receives = receives
        if receives:
            self._dealings.present(key, is_here=True)
        if holder.name is not None:
            self._presence.arrive(guest, key, holder.name, proven=True)
        self._agent_changed(guest)

    def _give(self, guest: Guest, key: bytes) -> None:
        """It hears the topics from now on. A connection without a key hears nothing: bans are bans of keys."""
        self.newest += 1
        guest.number = self.newest
        self.listeners[guest] = None
        self.handing_on.listeners_changed()
        guest.key = key
        if guest.meter is not None:
            guest.meter.belongs_to(key)
        if guest.line is not None:
            guest.line.leave(guest)

    def _agent_changed(self, guest: Guest) -> None:
        if guest.key is not None:
            self.border.agent_changed(guest.key, is_here=self.connections.is_proven(guest.key))

    def _topic_changed(self, topic: str) -> None:
        self.handing_on.topic_changed(topic)
        self.border.topic_changed(topic)

    def _is_heard(self, topic: str) -> bool:
        return bool(self.topics.members(topic)) or self.handing_on.is_heard_elsewhere(topic)

    # -- the end ---------------------------------------------------------------------------------

    def take_no_more(self, finished: Callable[[], None]) -> None:
        """The hall is about to close: nothing more is read. `finished` is called when nothing is under way."""
        self._taking.finished = finished
        sources: list[Source[Any]] = [*self.guests, *self.border.relays]
        for source in sources:
            source.hold()
        if not self._taking.in_flight:
            finished()

    def hear_goodbyes(self) -> None:
        """After `take_no_more`, when all connections are being closed: read their close frames."""
        for guest in self.guests:
            guest.link.resume()

    # -- what operators see ----------------------------------------------------------------------

    def statistics(self) -> dict[str, int]:
        return {
            "connections": len(self.guests),
            "agents": len(self.connections),
            "topics": len(self.topics),
            "in_flight": self._taking.in_flight,
            "relayed": self.routing.relayed,
            "waits": self.waits,
            "to_nodes": self.handing_on.sent,
            "from_nodes": self.other_nodes.received,
            "replay_windows": self._taking.guard.windows,
            **self.border.statistics(),
        }
