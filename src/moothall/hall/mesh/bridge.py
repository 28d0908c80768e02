"""Mesh agents in the hall: one roster for all wires, and one room for a topic and its channel (mesh wire 4, 5).

Every key that sent a BEACON has a resident, which the hall takes for an agent like any other. Several connections
of one key share it. A resident is a member of the public channel #X while one of its connections subscribes to the
topic X.

Of what the hall tells it, a mesh client understands one kind, a line of a channel: it becomes a BROADCAST on the
topic, signed with the hall's own key. A BROADCAST of text becomes a line of the channel, which the room of the mesh
brings to the subscribers. The envelope is attached to it, so that it can be checked against its author's key.

An envelope can be replayed, so it proves less than a challenge: a resident is shown as verified only while one of
its connections has proven the key, and leaves its id to a WebSocket session that proves it.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from moothall.errors import (
    InternalError,
    InvalidMessage,
    NotAllowed,
    RateLimited,
    Refusal,
    StoreUnreachable,
    Unavailable,
)
from moothall.hall.bindings import Holding, IdClaim
from moothall.hall.channels import Channel
from moothall.hall.durable import UNREACHABLE
from moothall.hall.gate import Gate
from moothall.hall.mesh.own_envelopes import OwnEnvelopes
from moothall.hall.mesh.presence import Caller, Publish, Refuse
from moothall.hall.outside import Written
from moothall.hall.roster import Present
from moothall.hall.session import Agent
from moothall.hall.visitors import MAX_BRIDGED, Visitors, fitting, visitor_name
from moothall.hall.wires import MESH
from moothall.identity import PublicKey
from moothall.settings.limits import Window
from moothall.wire.agentchat.client import Msg
from moothall.wire.agentchat.names import SERVER
from moothall.wire.agentchat.server import Chat, ServerMessage
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.envelope import encode
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.outgoing import Bundle, Outgoing
from moothall.wire.websocket import BINARY, encode_frame

MAX_WAITING: Final = 16  # BROADCASTs of an agent whose arrival waits for the store
CHAT_TAG: Final = "chat"
DISTINCTION: Final = b"mesh"  # what the other id of a mesh agent comes from, besides its key

_NO_TOPICS: Final[frozenset[str]] = frozenset()


class Resident:
    """The agent of one key. For the hall, it is the link of the agent and its relay."""

    __slots__ = ("_bridge", "_taken", "agent", "calls", "is_gone", "key", "name", "waiting", "windows")

    def __init__(self, bridge: "Bridge", key: bytes) -> None:
        self._bridge = bridge
        self.key = key
        self.name = ""
        self.agent: Agent | None = None  # None until it is known which id it has
        self.calls: dict[Caller, Call] = {}
        self.windows: dict[str, Window] = {}  # of commands that have a rate
        # What it said before it had an id
        self.waiting: list[tuple[Callable[[], None], Refuse]] | None = None
        self.is_gone = False
        self._taken = False  # one of its connections took the last line

    @property
    def is_proven(self) -> bool:
        return any(call.is_proven for call in self.calls.values())

    def subscribes(self, topic: str) -> bool:
        return any(topic in call.topics for call in self.calls.values())

    @property
    def unread(self) -> int:
        """Always 0: what the hall asks this for, chunks of files, has no message on this wire."""
        return 0

    def put(self, outgoing: Outgoing | Bundle) -> None:
        """A line of a channel. Notices and direct messages have no envelope."""
        if not (isinstance(outgoing, Outgoing) and isinstance(outgoing.message, Chat)):
            return
        line = outgoing.message
        said = outgoing.encoded(self._bridge.line_said) if line.to.startswith("#") else None
        if said is None:
            return
        topic = line.to[1:]
        self._taken = False
        for caller, call in self.calls.items():
            if topic in call.topics and caller.put_frame(said.frame):
                self._taken = True

    def when_written(self, told: Written) -> None:
        told(self._taken)

    def close(self, code: int, reason: str) -> None:
        """The hall puts the agent out."""
        self._bridge.put_out(self)
        for caller in list(self.calls):
            caller.close(code, reason)

    def make_way(self) -> None:
        self._bridge.move(self)

    def pause(self) -> None:
        """The hall does nothing for a resident that would have to wait for a disk."""

    def resume(self) -> None:
        """It never paused."""


class Call:
    """What the bridge knows of one connection."""

    __slots__ = ("is_proven", "resident", "topics")

    def __init__(self) -> None:
        self.resident: Resident | None = None  # None until it sends a BEACON
        self.topics: frozenset[str] = _NO_TOPICS
        self.is_proven = False


class Said(NamedTuple):
    """A line of a channel as a BROADCAST of the hall."""

    raw: bytes
    frame: bytes  # with `raw` in it


class Ear:
    """Hears the lines of channels for the network of peers. For a channel it is the relay of one more member."""

    __slots__ = ("_bridge", "_said")

    is_gone: bool = False

    def __init__(self, bridge: "Bridge", said: Callable[[str, bytes], None]) -> None:
        self._bridge = bridge
        self._said = said

    def put(self, outgoing: Outgoing) -> None:
        line = outgoing.message
        said = outgoing.encoded(self._bridge.line_said)
        if said is not None and isinstance(line, Chat):
            self._said(line.to[1:], said.raw)

    def when_written(self, told: Written) -> None:
        """A delivery receipt counts agents of this hall."""
        told(False)


class Bridge:
    """Implements `presence.Presence`."""

    def __init__(self, gate: Gate, own: OwnEnvelopes) -> None:
        self.gate = gate
        self._own = own
        self._visitors = Visitors(gate)
        self._calls: dict[Caller, Call] = {}
        self._residents: dict[bytes, Resident] = {}  # by key
        # Who subscribed, by topics without a public channel
        self._awaited: dict[str, dict[Caller, None]] = {}
        gate.roster.on_departure(self._leave_channels)
        gate.channels.on_opening(self._opened)

    def __len__(self) -> int:
        """The number of agents."""
        return len(self._residents)

    # -- coming and going --------------------------------------------------------------------------

    def admit(self, key: bytes) -> None:
        if key == self._own.key:
            raise NotAllowed("This is the hall's own key")
        self._visitors.admit(key, DISTINCTION)

    def arrive(self, caller: Caller, key: bytes, name: str, *, proven: bool) -> None:
        call = self._calls.setdefault(caller, Call())
        resident = call.resident
        if resident is None:
            resident = self._residents.get(key)
            is_new = resident is None
            if resident is None:
                resident = self._residents[key] = Resident(self, key)
            call.resident = resident
            resident.calls[caller] = call
        else:
            is_new = False
        if resident.is_gone:
            return
        call.is_proven = call.is_proven or proven
        if call.is_proven or not resident.is_proven:
            self._rename(resident, visitor_name(name))
        if is_new:
            self._ask_owner(resident, caller.ip)
        elif resident.agent is not None:
            self._show_proof(resident)
            self._join_all(resident, call.topics)

    def depart(self, caller: Caller) -> None:
        call = self._calls.pop(caller, None)
        if call is None:
            return
        for topic in call.topics:
            self._stop_awaiting(caller, topic)
        resident = call.resident
        if resident is None:
            return
        del resident.calls[caller]
        if not resident.calls:
            self.put_out(resident)
            self._leave(resident)
        elif resident.agent is not None:
            self._show_proof(resident)
            for topic in call.topics:
                self._leave_topic(resident, topic)

    def put_out(self, resident: Resident) -> None:
        """The agent is no longer here. A new connection of its key gets a new resident."""
        resident.is_gone = True
        if self._residents.get(resident.key) is resident:
            del self._residents[resident.key]

    def _ask_owner(self, resident: Resident, ip: str) -> None:
        """The agent enters once it is known which key owns its id."""
        resident.waiting = []

        def answered(holding: Holding) -> None:
            waiting, resident.waiting = resident.waiting or [], None
            if resident.is_gone:
                return  # it left while we looked
            try:
                self.admit(resident.key)  # once more: much may have happened while the store was asked
            except Refusal as refusal:
                self._fail(resident, waiting, refusal)
                return
            agent_id = self._visitors.choose_id(resident.key, DISTINCTION, holding.owner)
            self._enter(resident, agent_id, ip)
            for say, _ in waiting:
                say()

        def failed(error: BaseException) -> None:
            if self.gate.may_log("mesh_agent_not_registered"):
                self.gate.log.warning("mesh_agent_not_registered", error=repr(error))
            waiting, resident.waiting = resident.waiting or [], None
            refusal: Refusal = InternalError("The hall cannot look up your id. Try again")
            if isinstance(error, StoreUnreachable):
                refusal = Unavailable(UNREACHABLE)
            self._fail(resident, waiting, refusal)

        agent_id = self._visitors.own_id(resident.key)
        look = IdClaim(agent_id, resident.key, self.gate.timestamp(), may_bind=False)
        self.gate.keyring.claim(look, answered, failed)

    def _fail(
        self, resident: Resident, waiting: list[tuple[Callable[[], None], Refuse]], refusal: Refusal
    ) -> None:
        """It does not come in. Its next BEACON is another try."""
        self.put_out(resident)
        for call in resident.calls.values():
            call.resident = None
        resident.calls.clear()
        for _, refuse in waiting:
            refuse(refusal)

    def _enter(self, resident: Resident, agent_id: str, ip: str) -> None:
        gate = self.gate
        agent = Agent(gate.session(resident, ip, MESH), agent_id, resident.name or agent_id, None, None)
        agent.claimed_key = PublicKey(resident.key)
        agent.relay = resident
        agent.via = MESH
        resident.agent = agent
        self._show_proof(resident)
        gate.enter(agent, resident.windows, resident.make_way)
        for call in resident.calls.values():
            self._join_all(resident, call.topics)
        gate.arrived(agent)

    def _leave(self, resident: Resident) -> None:
        if resident.agent is not None:
            self.gate.leave(resident.agent)
            resident.agent = None

    def move(self, resident: Resident) -> None:
        """Give the id to a WebSocket session that proved the key, and take the other one."""
        agent = resident.agent
        self._leave(resident)
        if agent is not None and not resident.is_gone:
            other_id = self._visitors.other_id(resident.key, DISTINCTION)
            self._enter(resident, other_id, agent.session.ip)

    def _leave_channels(self, agent: Present) -> None:
        if isinstance(agent, Agent) and isinstance(agent.relay, Resident):
            self._visitors.leave_all(agent)

    def _rename(self, resident: Resident, name: str) -> None:
        """If it is refused, the next BEACON is another try."""
        agent = resident.agent
        if agent is None or (name and name != agent.name and self.gate.rename(agent, name)):
            resident.name = name

    def _show_proof(self, resident: Resident) -> None:
        if resident.agent is not None:
            proven = resident.agent.claimed_key if resident.is_proven else None
            self.gate.show_proof(resident.agent, proven)

    # -- topics and channels -----------------------------------------------------------------------

    def subscribe(self, caller: Caller, topic: str) -> None:
        call = self._calls.setdefault(caller, Call())
        call.topics |= {topic}
        if self._channel(topic) is None:
            self._awaited.setdefault(topic, {})[caller] = None
        elif call.resident is not None:
            self._join_all(call.resident, {topic})

    def unsubscribe(self, caller: Caller, topic: str) -> None:
        call = self._calls.get(caller)
        if call is None or topic not in call.topics:
            return
        call.topics -= {topic}
        self._stop_awaiting(caller, topic)
        if call.resident is not None:
            self._leave_topic(call.resident, topic)

    def _channel(self, topic: str) -> Channel | None:
        return self._visitors.public_channel(f"#{topic}")

    def _join_all(self, resident: Resident, topics: frozenset[str] | set[str]) -> None:
        """Into the channels of these topics, as far as there are any and the agent may be in so many."""
        agent = resident.agent
        if agent is None or resident.is_gone:
            return
        for topic in topics:
            channel = self._channel(topic)
            if channel is None or channel.name in agent.channels:
                continue
            try:
                self.gate.check_joined(agent)
            except Refusal:
                return
            self._visitors.join(channel, agent)

    def _leave_topic(self, resident: Resident, topic: str) -> None:
        agent = resident.agent
        channel = agent.channels.get(f"#{topic}") if agent is not None else None
        if agent is not None and channel is not None and not resident.subscribes(topic):
            self._visitors.leave(channel, agent)

    def _opened(self, channel: Channel) -> None:
        """A channel was made: those who subscribed to its topic are members from now on."""
        topic = channel.name[1:]
        if self._channel(topic) is None:
            return
        for caller in self._awaited.pop(topic, ()):
            resident = self._calls[caller].resident
            if resident is not None:
                self._join_all(resident, {topic})

    def _stop_awaiting(self, caller: Caller, topic: str) -> None:
        callers = self._awaited.get(topic)
        if callers is not None:
            callers.pop(caller, None)
            if not callers:
                del self._awaited[topic]

    # -- from the hall to the mesh -----------------------------------------------------------------

    def line_said(self, line: ServerMessage) -> Said | None:
        """A line of a channel as a BROADCAST of the hall. It is signed once for all that get it.

        None for lines of mesh agents, which the room of the mesh publishes, and for those of @server.
        """
        if not isinstance(line, Chat) or line.via == MESH or line.from_ == SERVER:
            return None
        raw = self._broadcast_of(line)
        return Said(raw, encode_frame(BINARY, raw))

    def on_channels(self, said: Callable[[str, bytes], None], occupied: Callable[[str, bool], None]) -> None:
        ear = Ear(self, said)

        def changed(channel: Channel) -> None:
            topic = channel.name[1:]
            if self._visitors.public_channel(channel.name) is not channel:
                return
            if channel.members:
                channel.relays[ear] = 1
            else:
                channel.relays.pop(ear, None)
            occupied(topic, bool(channel.members))

        self.gate.channels.on_occupied(changed)
        for channel in self.gate.channels:
            if channel.members:
                changed(channel)

    def _broadcast_of(self, line: Chat) -> bytes:
        message = Broadcast(
            topic=line.to[1:],
            title=f"{line.from_name} ({line.from_})",
            tags=(CHAT_TAG,),
            content=fitting(line.content).encode(),
        )
        return encode(self._own.make(MsgType.BROADCAST, message.encode()))

    # -- from the mesh to the hall -----------------------------------------------------------------

    def audience(self, topic: str) -> int:
        channel = self._channel(topic)
        return 0 if channel is None else channel.audience

    def broadcast(
        self, caller: Caller, message: Broadcast, raw: bytes, publish: Publish, refuse: Refuse
    ) -> None:
        text = _text(message)
        channel = self._channel(message.topic)
        if text is None or channel is None:
            publish(raw, is_chat=False)
            return
        call = self._calls.get(caller)
        resident = call.resident if call is not None else None
        if resident is None or resident.is_gone:
            refuse(
                NotAllowed(f"{channel.name} is a channel of this hall. Send a BEACON before you speak there")
            )
            return
        say = partial(self._say, resident, channel, text, raw, publish, refuse)
        if resident.waiting is None:
            say()
        elif len(resident.waiting) < MAX_WAITING:
            resident.waiting.append((say, refuse))
        else:
            refuse(RateLimited("The hall is still looking up your id. Wait a moment and try again"))

    def _say(
        self, resident: Resident, channel: Channel, text: str, raw: bytes, publish: Publish, refuse: Refuse
    ) -> None:
        agent = resident.agent
        if agent is None:
            return  # it has left
        is_new = channel.name not in agent.channels
        try:
            if len(raw) > MAX_BRIDGED:
                raise InvalidMessage(f"An envelope to a channel has at most {MAX_BRIDGED:,} bytes")
            if is_new:
                self.gate.check_joined(agent)
            line = self.gate.compose(agent, Msg(to=channel.name, content=text), channel, raw)
            if line is not None and self.gate.was_said(channel, line):
                raise InvalidMessage("Another node of this hall has taken this envelope before")
        except Refusal as refusal:
            refuse(refusal)
            return
        if line is None:
            publish(None, is_chat=True)
            return
        if is_new:
            self._visitors.join(channel, agent)
        self._visitors.notices.introduce(channel, agent)
        self.gate.say(agent, channel, line)
        publish(raw if line.packet is not None else self._broadcast_of(line), is_chat=True)


def _text(message: Broadcast) -> str | None:
    """What the BROADCAST says, if it is one whole text. All else is for the mesh only."""
    is_chunk = message.chunk_index is not None or message.total_chunks is not None
    if message.format != "text" or not message.content or is_chunk:
        return None
    try:
        return message.content.decode()
    except UnicodeDecodeError:
        return None
