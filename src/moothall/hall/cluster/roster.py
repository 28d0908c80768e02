"""One roster on all nodes: each node tells the others who is connected to it, and what changes.

What a node tells has serial numbers. A node that has missed one asks for the whole list, and so does a node that
has just joined. Once a second every node says its last serial, so that the loss of the last message is noticed too.

NICK_CHANGED and PRESENCE_CHANGED follow from the roster: each node tells its own members of the agent's channels.
They are told by no other way.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from moothall.hall import peers, presence, takeovers
from moothall.hall.agenda import Appointment
from moothall.hall.cluster.nodes import SILENCE_SECONDS, Node
from moothall.hall.cluster.remote import AgentRecord, Carrier, RemoteLink
from moothall.hall.cluster.remote_agent import RemoteAgent, RemoteSession
from moothall.hall.session import Agent, Tier
from moothall.wire.bus import EVERY_NODE, BadPacket, BusMessage, Origin

if TYPE_CHECKING:
    from moothall.hall.cluster.cluster import Cluster

HAS_LEFT: Final = -1  # in place of an arrival
LISTED: Final = 500  # agents in one part of a list
# A part has half a megabyte at most. All parts of a large hall at once are more than the bus takes.
PARTS_AT_ONCE: Final = 8
PAUSE_SECONDS: Final = 0.1
MAX_EARLY: Final = 20_000  # changes that wait for the list
KEY_BYTES: Final = 32
MAX_AGENTS: Final = 1_000_000  # of one node
# Characters of a keep identity. It can be as long as a packet, and a list of agents has all of them.
MAX_IDENTITY: Final = 256
ASK_SECONDS: Final = 2.0  # without a part of a list, before it is asked for again


class AgentPresent(BusMessage, frozen=True):
    """An agent has arrived, or something about it has changed."""

    KIND: ClassVar = "roster-present"

    serial: int
    agent: AgentRecord


class AgentDeparted(BusMessage, frozen=True):
    KIND: ClassVar = "roster-departed"

    serial: int
    id: str
    arrival: int
    rates: dict[str, list[float]]  # the ages of its last commands, in seconds, by rate
    debts: list[float] = []  # of its key, in seconds until its buckets are full  # noqa: RUF012


class NewKey(BusMessage, frozen=True):
    """An id was bound to a key that came from this address."""

    KIND: ClassVar = "roster-new-key"

    ip: str


class LastSerial(BusMessage, frozen=True):
    KIND: ClassVar = "roster-serial"

    serial: int


class KnowsYou(BusMessage, frozen=True):
    """To a node that has just joined: this one takes its messages from now on."""

    KIND: ClassVar = "roster-knows-you"


class WantList(BusMessage, frozen=True):
    KIND: ClassVar = "roster-want"


class AgentList(BusMessage, frozen=True):
    """One of several parts: who is there after the change with this serial."""

    KIND: ClassVar = "roster-list"

    serial: int
    part: int
    parts: int
    agents: list[AgentRecord]


Change = AgentPresent | AgentDeparted


class _View:
    """What is known of one life of a node."""

    __slots__ = ("agents", "asked_at", "carrier", "early", "is_whole", "node", "parts", "probation", "serial")

    def __init__(self, node: Node, carrier: Carrier) -> None:
        self.node = node
        self.carrier = carrier
        self.agents: dict[str, RemoteAgent] = {}
        self.serial = 0  # of the last change
        self.is_whole = False  # False: changes wait for the list
        self.early: dict[int, Change] = {}  # by serial
        self.parts: dict[int, AgentList] = {}
        self.asked_at: float | None = None
        self.probation: Appointment | None = None  # the registry has not told of this life yet

    def is_awaited(self, now: float) -> bool:
        """True while its list may be on the way."""
        return self.asked_at is not None and now - self.asked_at < ASK_SECONDS


class SharedRoster:
    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._hall = cluster.hall
        self._serial = 0
        # Agents that other nodes were told of, and their arrival.
        self._own: dict[str, tuple[Agent, int]] = {}
        self._views: dict[str, _View] = {}  # by node
        self._asked: _View | None = None  # the last one whose list was asked for
        self._arrivals: list[Callable[[RemoteAgent], None]] = []
        self._departures: list[Callable[[RemoteAgent], None]] = []
        roster = self._hall.roster
        roster.on_arrival(self._arrive)
        roster.on_change(self._change)
        roster.on_departure(self._depart)
        cluster.nodes.on_joined(self._join)
        cluster.nodes.on_gone(self._lose)
        cluster.nodes.on_renewed(self._say_serial)
        cluster.handle(AgentPresent, self._take_change)
        cluster.handle(AgentDeparted, self._take_change)
        cluster.on_change(self._reach)
        cluster.handle(NewKey, self._count_new_key)
        cluster.handle(KnowsYou, self._known_there)
        cluster.handle(LastSerial, self._compare)
        cluster.handle(WantList, self._send_list)
        cluster.handle(AgentList, self._take_list)

    # -- for the rooms of the cluster --------------------------------------------------------------

    def on_arrival(self, told: Callable[[RemoteAgent], None]) -> None:
        """Call `told` after an agent of another node was added to the roster."""
        self._arrivals.append(told)

    def on_departure(self, told: Callable[[RemoteAgent], None]) -> None:
        """Call `told` before an agent of another node is removed from the roster. It is still in its channels."""
        self._departures.append(told)

    @property
    def is_whole(self) -> bool:
        """True if all agents of the nodes that are known are in the roster."""
        return all(view.is_whole for view in self._views.values())

    def carrier(self, node: str) -> Carrier | None:
        view = self._views.get(node)
        return None if view is None else view.carrier

    def record_of(self, agent: Agent) -> AgentRecord:
        """What other nodes are told of the agent. One of this node is announced first, unless it has left."""
        if isinstance(agent, RemoteAgent):
            return _record(
                agent, agent.node, agent.life, agent.arrival, agent.claim, takeover_delay=agent.takeover_delay
            )
        is_here = self._hall.roster.agents.get(agent.id) is agent
        return self._own_record(agent, self._announce(agent) if is_here else HAS_LEFT)

    def arrival_of(self, agent: Agent) -> int:
        """The serial with which the agent came; `HAS_LEFT` if other nodes do not know it. It announces no agent."""
        if isinstance(agent, RemoteAgent):
            return agent.arrival
        known = self._own.get(agent.id)
        return known[1] if known is not None and known[0] is agent else HAS_LEFT

    def learn(self, record: AgentRecord) -> Agent | None:
        """The agent that another node speaks of, which may not be in the roster yet. None: it has left.

        The record may be of any node.
        """
        if record.node == self._cluster.name:
            known = self._own.get(record.id)
            return known[0] if known is not None and known[1] == record.arrival else None
        view = self._views.get(record.node)
        if view is None or view.node.life < record.life:
            if not self._cluster.nodes.may_begin(record.node, record.life):
                return None
            view = self._try(Node(record.node, record.life))
        if view.node.life > record.life:
            return None
        known_there = view.agents.get(record.id)
        if known_there is not None and known_there.arrival == record.arrival:
            return known_there
        if record.arrival <= view.serial:
            return None  # it has left since
        self._see(view, record)
        return view.agents.get(record.id)

    def tell_new_key(self, ip: str) -> None:
        """All nodes count it, so that an address cannot bring more new keys by going to several of them."""
        self._publish(NewKey(ip))

    def _count_new_key(self, origin: Origin, message: NewKey) -> None:
        self._hall.new_keys.admit(message.ip, self._hall.now())

    def forget(self, agent_id: str) -> None:
        """The id of an agent of another node is free now: its node said so, or that life is over."""
        agent = self._hall.roster.agents.get(agent_id)
        if isinstance(agent, RemoteAgent):
            self._remove(self._views[agent.node], agent)

    # -- agents of this node -----------------------------------------------------------------------

    def _arrive(self, agent: Agent) -> None:
        self._announce(agent)

    def _announce(self, agent: Agent) -> int:
        known = self._own.get(agent.id)
        if known is not None and known[0] is agent:
            return known[1]
        self._serial += 1
        self._own[agent.id] = agent, self._serial
        self._publish(AgentPresent(self._serial, self._own_record(agent, self._serial)))
        return self._serial

    def _change(self, agent: Agent) -> None:
        known = self._own.get(agent.id)
        if known is not None and known[0] is agent:
            self._serial += 1
            self._publish(AgentPresent(self._serial, self._own_record(agent, known[1])))

    def _depart(self, agent: Agent) -> None:
        known = self._own.get(agent.id)
        if known is not None and known[0] is agent:
            del self._own[agent.id]
            self._serial += 1
            rates, debts = self._cluster.ownership.account_of(agent.key)
            self._publish(AgentDeparted(self._serial, agent.id, known[1], rates, debts))

    def _own_record(self, agent: Agent, arrival: int) -> AgentRecord:
        cluster = self._cluster
        delay = self._hall.takeovers.last_delay(agent.id, self._hall.now())
        claim = cluster.ownership.claim_of(agent)
        return _record(agent, cluster.name, cluster.nodes.life, arrival, claim, takeover_delay=delay)

    def _publish(self, message: BusMessage) -> None:
        self._cluster.publish(EVERY_NODE, message)

    def _say_serial(self) -> None:
        self._publish(LastSerial(self._serial))

    def _send_list(self, origin: Origin, asked: WantList) -> None:
        records = [self._own_record(agent, arrival) for agent, arrival in self._own.values()]
        pieces = [records[start : start + LISTED] for start in range(0, len(records), LISTED)] or [[]]
        for part, piece in enumerate(pieces):
            message = AgentList(self._serial, part, len(pieces), piece)
            if part < PARTS_AT_ONCE:
                self._cluster.send(origin.node, message)
            else:
                due = self._hall.now() + part // PARTS_AT_ONCE * PAUSE_SECONDS
                self._hall.agenda.at(
                    due, partial(self._send_part, origin.node, message, self._cluster.nodes.life)
                )

    def _send_part(self, node: str, part: AgentList, life: int) -> None:
        if life == self._cluster.nodes.life:
            self._cluster.send(node, part)

    # -- agents of other nodes ---------------------------------------------------------------------

    def _join(self, node: Node) -> None:
        view = self._views.get(node.name)
        if view is None or view.node.life != node.life:
            self._drop(node.name)
            view = self._views[node.name] = _View(node, Carrier(self._cluster, node))
        if view.probation is not None:
            self._hall.agenda.cancel(view.probation)
            view.probation = None
        self._introduce(view)

    def _lose(self, node: Node) -> None:
        view = self._views.get(node.name)
        if view is not None and view.node.life == node.life:
            self._drop(node.name)
            self._ask_next()
            self._cluster.check_ready()

    def _try(self, node: Node) -> _View:
        """Another node speaks of an agent of this life, before the registry has told of it."""
        self._drop(node.name)
        view = self._views[node.name] = _View(node, Carrier(self._cluster, node))

        def end() -> None:
            if self._views.get(node.name) is view:
                self._drop(node.name)
                if (live := self._cluster.nodes.live.get(node.name)) is not None:
                    self._join(live)

        view.probation = self._hall.agenda.at(self._hall.now() + SILENCE_SECONDS, end)
        return view

    def _drop(self, name: str) -> None:
        view = self._views.get(name)
        if view is not None:
            view.carrier.fail()
            for agent in list(view.agents.values()):
                self._remove(view, agent)
            view.asked_at = None
            del self._views[name]

    def _introduce(self, view: _View) -> None:
        """Either node may know the other one first. The second one to know has its question answered."""
        self._cluster.send(view.node.name, KnowsYou())
        view.asked_at = None
        self._ask(view)

    def _reach(self, is_connected: bool) -> None:
        """What this node asked before it was connected was lost, and so are answers that were on their way."""
        for view in list(self._views.values()):
            if not is_connected:
                view.carrier.fail()
            elif not view.is_whole:
                self._introduce(view)

    def _known_there(self, origin: Origin, message: KnowsYou) -> None:
        view = self._view(origin)
        if view is not None and not view.is_whole:
            view.asked_at = view.asked_at if view.parts else None
            self._ask(view)

    def _ask(self, view: _View) -> None:
        """For its list, if no other one is on the way: those of a large hall are too much for the bus at once."""
        now, asked = self._hall.now(), self._asked
        if view.is_awaited(now) or (asked is not None and asked is not view and asked.is_awaited(now)):
            return
        view.asked_at, self._asked = now, view
        self._cluster.send(view.node.name, WantList())

    def _ask_next(self) -> None:
        """A node that did not answer is asked again after the others."""
        waiting = [view for view in self._views.values() if not view.is_whole and view.probation is None]
        if waiting:
            self._ask(min(waiting, key=lambda view: (view.asked_at is not None, view.asked_at)))

    def _view(self, origin: Origin) -> _View | None:
        view = self._views.get(origin.node)
        return view if view is not None and view.node.life == origin.life else None

    def _compare(self, origin: Origin, message: LastSerial) -> None:
        view = self._view(origin)
        if view is None:
            return
        if not view.is_whole:
            self._ask(view)
        elif message.serial > view.serial:
            self._miss(view)

    def _miss(self, view: _View) -> None:
        view.is_whole = False
        view.asked_at = None
        self._ask(view)

    def _take_change(self, origin: Origin, change: Change) -> None:
        view = self._view(origin)
        if view is None:
            return
        if view.is_whole and change.serial == view.serial + 1:
            self._apply(view, change)
        elif not view.is_whole or change.serial > view.serial:
            if len(view.early) < MAX_EARLY:
                view.early[change.serial] = change
            if view.is_whole:
                self._miss(view)

    def _apply(self, view: _View, change: Change) -> None:
        view.serial = change.serial
        if isinstance(change, AgentPresent):
            self._check(view, change.agent)
            self._see(view, change.agent)
            return
        agent = view.agents.get(change.id)
        if agent is not None and agent.arrival == change.arrival:
            self._remove(view, agent)
            if agent.key is not None and not self._hall.roster.is_here(agent.key.raw):
                self._cluster.ownership.take_account(agent.key.raw, change.rates, change.debts)

    def _take_list(self, origin: Origin, part: AgentList) -> None:
        view = self._view(origin)
        if view is None or view.is_whole:
            return
        if not 0 <= part.part < part.parts <= MAX_AGENTS // LISTED:
            raise BadPacket("Not a part of a list of agents")
        if any(other.serial != part.serial or other.parts != part.parts for other in view.parts.values()):
            view.parts.clear()
        view.parts[part.part] = part
        if len(view.parts) < part.parts:
            view.asked_at = self._hall.now()
            return
        records = {record.id: record for each in view.parts.values() for record in each.agents}
        view.parts.clear()
        view.asked_at = None
        view.is_whole = True
        view.serial = part.serial
        self._replace(view, records)
        early, view.early = view.early, {}
        while (change := early.get(view.serial + 1)) is not None:
            self._apply(view, change)  # a change after a gap is noticed by the last serial
        self._ask_next()
        self._cluster.check_ready()

    def _replace(self, view: _View, records: Mapping[str, AgentRecord]) -> None:
        for agent in list(view.agents.values()):
            if agent.id not in records and agent.arrival <= view.serial:
                self._remove(view, agent)
        for record in records.values():
            self._check(view, record)
            self._see(view, record)

    def _check(self, view: _View, record: AgentRecord) -> None:
        if (record.node, record.life) != (view.node.name, view.node.life):
            raise BadPacket("A node told of an agent of another node")
        if any(key is not None and len(key) != KEY_BYTES for key in (record.key, record.claimed_key)):
            raise BadPacket("A node told of an agent with a key of the wrong length")

    # -- the roster of the hall --------------------------------------------------------------------

    def _see(self, view: _View, record: AgentRecord) -> None:
        agent = view.agents.get(record.id)
        if agent is not None and agent.arrival == record.arrival:
            self._update(agent, record)
            return
        if agent is not None and agent.arrival > record.arrival:
            return
        if len(view.agents) >= MAX_AGENTS:
            raise BadPacket("A node told of more agents than it can have")
        if self._has_place(record):
            self._add(view, record)

    def _has_place(self, record: AgentRecord) -> bool:
        """False: another agent has this id now. Of two the one with the later claim has it."""
        other = self._hall.roster.agents.get(record.id)
        if other is None:
            return True
        if isinstance(other, RemoteAgent):
            if other.node != record.node and (other.claim, record.node) > (record.claim, other.node):
                return False
            self._remove(self._views[other.node], other)
            return True
        own_claim = self._cluster.ownership.claim_of(other)
        if (own_claim, record.node) > (record.claim, self._cluster.name):
            return False
        takeovers.vacate(self._hall, record.id, record.ip)
        return record.id not in self._hall.roster.agents

    def _add(self, view: _View, record: AgentRecord) -> None:
        link = RemoteLink(view.carrier, record.id, record.via)
        session = RemoteSession(link, record.ip, record.user_agent, record.connected_at, None)
        agent = RemoteAgent(session, record)
        view.agents[agent.id] = agent
        self._cluster.moves.arrived(agent.id, agent.node, link)
        self._hall.roster.add(agent)
        if session.counted:
            self._hall.door.connections.add(session.ip)
        if record.takeover_delay:
            self._hall.takeovers.note(agent.id, record.takeover_delay, self._hall.now())
        for told in self._arrivals:
            told(agent)
        self._hall.roster.arrived_elsewhere(agent)

    def _update(self, agent: RemoteAgent, record: AgentRecord) -> None:
        hall = self._hall
        before = agent.presence, agent.status_text, agent.budget
        agent.update(record)
        if agent.name != record.name:
            presence.rename(hall, agent, record.name)
        if (agent.presence, agent.status_text, agent.budget) != before:
            presence.tell_presence(hall, agent)

    def _remove(self, view: _View, agent: RemoteAgent) -> None:
        for told in self._departures:
            told(agent)
        self._hall.roster.departing_elsewhere(agent)
        peers.forget_requests(self._hall, agent)
        del view.agents[agent.id]
        self._hall.roster.remove(agent)
        session = agent.session
        if session.counted:
            self._hall.door.connections.depart(session.ip)
        session.closed = True
        session.agent = None
        session.tier = Tier.STRANGER
        view.carrier.fail_lines(agent.id)
        if isinstance(session.link, RemoteLink):
            self._cluster.moves.left(agent.id, view.node.name, session.link)
        self._hall.takeovers.hurry(agent.id, self._hall.now())


def _record(
    agent: Agent, node: str, life: int, arrival: int, claim: int, *, takeover_delay: float
) -> AgentRecord:
    session, budget = agent.session, agent.budget
    return AgentRecord(
        node=node,
        life=life,
        arrival=arrival,
        id=agent.id,
        name=agent.name,
        key=None if agent.key is None else agent.key.raw,
        claimed_key=None if agent.claimed_key is None else agent.claimed_key.raw,
        kind=agent.kind,
        via=agent.via,
        presence=agent.presence,
        status_text=agent.status_text,
        budget=None if budget is None else (budget.limit, budget.spent),
        verified=agent.verified,
        granted=agent.granted,
        lurking=agent.lurking,
        takes_receipts=agent.takes_receipts,
        ip=session.ip,
        counted=session.counted,
        user_agent=session.user_agent,
        connected_at=session.connected_at,
        takeover_delay=takeover_delay,
        claim=claim,
        identity=None if len(agent.identity or "") > MAX_IDENTITY else agent.identity,
    )
