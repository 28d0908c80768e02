"""Keep agents in the hall: one roster for all wires (keep wire 5; agentchat wire 9).

Every keep identity has a resident, which the hall takes for an agent like any other. Of what the hall tells it, a
keep client understands one kind, a chat message: it becomes a packet signed with the hall's own key, from
`agent:<id>`. A chat message that a keep client wrote itself travels on as the packet it was, so that it can be
checked against its author's key on either side.

The residents of one connection share a `Party`. What is meant for several of them, a line of a channel or a packet
to a swarm, goes to their connection once.

A packet can be replayed, so it proves less than a challenge: residents are never shown as verified, never have a
key in the hall's eyes, and leave their id to the agent that proves the key.
"""

from collections.abc import Callable
from itertools import islice
from typing import Final, NamedTuple

from msgspec.structs import replace

from moothall.errors import Banned, InvalidMessage, RateLimited, Refusal, VerificationFailed
from moothall.hall.channels import Channel
from moothall.hall.gate import Gate
from moothall.hall.ids import is_message_id
from moothall.hall.keep.registry import Peer
from moothall.hall.outside import Relay, Written
from moothall.hall.roster import Present
from moothall.hall.session import HERE, Agent
from moothall.hall.visitors import MAX_BRIDGED, Visitors, fitting, visitor_name
from moothall.hall.wires import KEEP, takes_messages
from moothall.identity import PublicKey
from moothall.settings.limits import Rate, Window
from moothall.wire.agentchat.client import Msg
from moothall.wire.agentchat.names import SERVER
from moothall.wire.agentchat.server import Chat, ServerMessage
from moothall.wire.keep.codec import encode, signing_bytes
from moothall.wire.keep.packet import OFFER, Packet
from moothall.wire.outgoing import Bundle, Outgoing

AGENT: Final = "agent:"  # what a WebSocket agent's identity on keep starts with
HUMAN: Final = "human:"
MAX_NAMED: Final = 1000  # agents of one name that `nearest:` and `swarm:` look at
# Of one connection. One that signs for many may bring them all at once; but one that signs with two keys in turn
# comes and goes with every packet.
ARRIVALS: Final = Rate(1000, 60)

BANNED: Final = "error:banned"
NOT_ALLOWED: Final = "error:not_allowed"
OFFLINE: Final = "error:offline"
RATE_LIMITED: Final = "error:rate_limited"
RESERVED: Final = "error:reserved_identity"
REVOKED: Final = "error:revoked"
TOO_LONG: Final = "error:too_long"
DELIVERY_FAILED: Final = "error:delivery_failed"
MESH_ONLY: Final = "error:mesh_only:"  # and the agent: the mesh has no chat message, so it cannot be told

Sign = Callable[[bytes], bytes]


class Refused(Exception):
    """What a packet asks for is not done; `body` is the answer."""

    def __init__(self, body: str) -> None:
        super().__init__(body)
        self.body = body


class Found(NamedTuple):
    """What the directory knows: who offers a skill, and how keys stand, as (rating, transactions)."""

    offering: frozenset[bytes]
    standings: dict[bytes, tuple[int, int]]


class Party:
    """What the residents of one connection share; for the hall, the relay of their agents."""

    __slots__ = ("_bridge", "_taken", "arrivals", "is_gone", "peer", "windows")

    def __init__(self, bridge: "Bridge", peer: Peer) -> None:
        self._bridge = bridge
        self.peer = peer
        self.is_gone = False
        self._taken = False  # its connection took the last line
        # One of each for all identities of a connection: names are free, time is not.
        self.windows: dict[str, Window] = {}  # of commands that have a rate
        self.arrivals = None if bridge.gate.settings.no_limits else ARRIVALS.window()

    def put(self, outgoing: Outgoing) -> None:
        payload = outgoing.encoded(self._bridge.line_packet)
        self._taken = payload is not None and self.peer.deliver(payload, None, "", 0)

    def put_packet(self, packet: bytes) -> bool:
        """From an agent of this wire on another node."""
        return not self.is_gone and self.peer.deliver(packet, None, "", 0)

    def when_written(self, told: Written) -> None:
        told(self._taken)


class Resident:
    """One keep identity in the hall; for the hall, the link of its agent."""

    __slots__ = ("_bridge", "_taken", "agent", "identity", "key", "party", "peer")

    agent: Agent

    def __init__(self, bridge: "Bridge", party: Party, identity: str, key: bytes) -> None:
        self._bridge = bridge
        self.party = party
        self.peer = party.peer
        self.identity = identity
        self.key = key
        self._taken = False  # its connection took the last message

    @property
    def unread(self) -> int:
        """Always 0: what the hall asks this for, chunks of files, has no packet on this wire."""
        return 0

    def put(self, outgoing: Outgoing | Bundle) -> None:
        """A direct message. Notices have no packet, and lines of channels go to the `Party`."""
        if isinstance(outgoing, Outgoing) and isinstance(outgoing.message, Chat):
            payload = self._bridge.packet(outgoing.message, self.identity)
            self._taken = self.peer.deliver(payload, None, "", 0)

    def put_packet(self, packet: bytes) -> bool:
        """From an agent of this wire on another node."""
        self._taken = self.peer.deliver(packet, None, "", 0)
        return self._taken

    def when_written(self, told: Written) -> None:
        told(self._taken)

    def close(self, code: int, reason: str) -> None:
        self.peer.close()

    def pause(self) -> None:
        """The hall does nothing for a resident that would have to wait for a disk."""

    def resume(self) -> None:
        """It never paused."""


class Bridge:
    def __init__(self, gate: Gate, sign: Sign, pk: bytes, channel: str) -> None:
        self.gate = gate
        self.pk = pk
        self.channel = channel
        self.residents: dict[str, Resident] = {}  # by identity
        self.visitors = Visitors(gate)
        self._parties: dict[Peer, Party] = {}
        self._by_id: dict[str, Resident] = {}  # by agent id
        self._sign = sign
        gate.roster.on_departure(self._leave_channels)
        if channel and gate.channels.get(channel) is None:
            gate.channels.create(channel, gate.now(), on_demand=True)

    # -- coming and going --------------------------------------------------------------------------

    def admit(self, identity: str, key: bytes) -> None:
        """Refused, if an agent with this key and identity may not come in.

        What the hall signs itself goes out to others, so nothing that it signed is heeded when it comes back.
        """
        if identity.startswith(AGENT) or key == self.pk:
            raise Refused(RESERVED)
        try:
            self.visitors.admit(key, identity.encode())
        except Banned:
            raise Refused(BANNED) from None
        except VerificationFailed:
            raise Refused(REVOKED) from None
        except Refusal:
            raise Refused(NOT_ALLOWED) from None

    def party(self, peer: Peer) -> Party:
        """Of a connection that is about to have its first resident, or has some."""
        party = self._parties.get(peer)
        if party is None:
            party = self._parties[peer] = Party(self, peer)
        return party

    def part(self, peer: Peer) -> None:
        """The connection has ended: its residents cannot be told anything, and depart one by one."""
        party = self._parties.pop(peer, None)
        if party is not None:
            party.is_gone = True

    def arrive(self, peer: Peer, identity: str, key: bytes, owner: bytes | None) -> None:
        """`owner` is the key that the id of this key belongs to, if it belongs to one."""
        resident = self.residents[identity] = Resident(self, self.party(peer), identity, key)
        agent_id = self.visitors.choose_id(key, identity.encode(), owner)
        self._enter(resident, agent_id, (self.channel,))

    def depart(self, identity: str) -> None:
        self._leave(self.residents.pop(identity))

    def resident_of(self, agent: Present) -> Resident | None:
        resident = self._by_id.get(agent.id)
        return resident if resident is not None and resident.agent is agent else None

    def _enter(self, resident: Resident, agent_id: str, channels: tuple[str, ...]) -> None:
        gate = self.gate
        session = gate.session(resident, resident.peer.ip, KEEP)
        kind = "human" if resident.identity.startswith(HUMAN) else None
        agent = Agent(session, agent_id, _name(resident.identity) or agent_id, None, kind)
        agent.claimed_key = PublicKey(resident.key)
        agent.relay = resident.party
        agent.via = KEEP
        agent.identity = resident.identity
        resident.agent = agent
        self._by_id[agent_id] = resident
        gate.enter(agent, resident.party.windows, lambda: self._make_way(resident))
        for name in channels:
            channel = gate.channels.get(name)
            if channel is not None:
                self.visitors.join(channel, agent)
        gate.arrived(agent)

    def _leave_channels(self, agent: Present) -> None:
        resident = self.resident_of(agent)
        if resident is not None:
            self.visitors.leave_all(resident.agent)

    def _leave(self, resident: Resident) -> None:
        agent = resident.agent
        self.gate.leave(agent)
        if self._by_id.get(agent.id) is resident:  # it may have been put out, and its id given to another
            del self._by_id[agent.id]

    def _make_way(self, resident: Resident) -> None:
        """A WebSocket agent proved the key: the id is its own now, and the resident takes its other one."""
        channels = tuple(resident.agent.channels)
        is_gone = resident.party.is_gone or resident.agent.session.closed
        self._leave(resident)
        if not is_gone:
            other_id = self.visitors.other_id(resident.key, resident.identity.encode())
            self._enter(resident, other_id, channels)

    # -- from the hall to keep ---------------------------------------------------------------------

    def line_packet(self, line: ServerMessage) -> bytes | None:
        """A line of a channel as a packet.

        None for lines of @server, such as an idle prompt: a client that waits for a reply would take it for one.
        """
        return self.packet(line, line.to) if isinstance(line, Chat) and line.from_ != SERVER else None

    def packet(self, line: Chat, dst: str) -> bytes:
        """A chat message as a packet to `dst`: the one it came in, or one that the hall signs."""
        if line.packet is not None and line.via == KEEP:
            return line.packet
        packet = Packet(
            id=line.msg_id or "",
            src=AGENT + line.from_.removeprefix("@"),
            dst=dst,
            body=fitting(line.content),
            pk=self.pk,
        )
        packet.sig = self._sign(signing_bytes(packet))
        return encode(packet)

    # -- from keep to the hall ---------------------------------------------------------------------

    def say(self, src: str, packet: Packet, forwarded: bytes) -> None:
        """Into a public channel, which the speaker is in from then on."""
        resident = self.residents[src]
        channel = self.visitors.public_channel(packet.dst)
        if channel is None:
            raise Refused(OFFLINE)
        agent = resident.agent
        is_new = channel.name not in agent.channels
        if is_new:
            try:
                self.gate.check_joined(agent)
            except Refusal:
                raise Refused(NOT_ALLOWED) from None
        line = self._compose(resident, packet, forwarded, packet.dst, channel)
        if is_new:
            self.visitors.join(channel, agent)
        if line is not None:
            self.visitors.notices.introduce(channel, agent)
            self.gate.say(agent, channel, line)

    def tell(self, src: str, agent: Present, packet: Packet, forwarded: bytes) -> None:
        """One agent, whatever wire it is on."""
        if not takes_messages(agent.via):
            raise Refused(MESH_ONLY + AGENT + agent.id)
        other = self.resident_of(agent)
        if other is None:
            line = self._compose(self.residents[src], packet, forwarded, agent.address, None)
            if line is not None and not self.gate.delivery.tell(agent, line):
                raise Refused(DELIVERY_FAILED)
        elif not other.peer.deliver(forwarded, self.residents[src].peer, packet.id, packet.ttl):
            raise Refused(DELIVERY_FAILED)

    def tell_all(
        self, src: str, agents: list[Present], channel: Channel | None, packet: Packet, forwarded: bytes
    ) -> None:
        """These agents and the members of the channel, each connection once; Refused if none can be told.

        Members on other nodes get it from their own node, which knows their connections.
        """
        asking = self.residents[src].agent
        failed = OFFLINE
        strangers: dict[str, Present] = {}
        relays: dict[Relay, None] = {}
        for agent in agents:
            resident = self.resident_of(agent)
            if resident is not None:
                relays[resident.party] = None
            elif takes_messages(agent.via):
                strangers[agent.id] = agent
            else:
                failed = MESH_ONLY + AGENT + agent.id
        if channel is not None:
            strangers.update(channel.watchers)
            is_member = channel.name in asking.channels
            for relay, members in channel.relays.items():
                if relay is not asking.relay or members > is_member:
                    relays[relay] = None
        told = 0
        listeners: list[Relay] = []  # connections of the mesh
        for relay in relays:
            if not isinstance(relay, Party):
                listeners.append(relay)
            elif not relay.is_gone:
                if relay.peer.deliver(forwarded, self.residents[src].peer, packet.id, packet.ttl):
                    told += 1
                else:
                    failed = DELIVERY_FAILED
        away = channel if channel is not None and channel.away else None
        if away is not None and not _reaches_others(away):
            away, failed = None, DELIVERY_FAILED
        if strangers or listeners or away is not None:
            place = channel.name if channel is not None else ""
            try:
                told += self._tell_strangers(
                    src, list(strangers.values()), listeners, away, place, packet, forwarded
                )
            except Refused as refused:
                failed = refused.body
                if away is not None and _has_keep_away(away):
                    _tell_away(away, None, forwarded, [])
                    told += 1
        if not told:
            raise Refused(failed)

    def _tell_strangers(
        self,
        src: str,
        agents: list[Present],
        listeners: list[Relay],
        away: Channel | None,
        place: str,
        packet: Packet,
        forwarded: bytes,
    ) -> int:
        """One message, as far as the limits are concerned. Listeners get it as a line of the channel `place`.

        `away` is the channel, if it has members on other nodes.
        """
        to = agents[0].address if agents else place
        line = self._compose(self.residents[src], packet, forwarded, to, None)
        if away is not None:
            _tell_away(away, line, forwarded, agents)
        told = len(listeners) + (away is not None)
        if line is None:
            return told + len(agents)
        if listeners:
            outgoing = Outgoing(replace(line, to=place))
            for listener in listeners:
                listener.put(outgoing)
        return told + sum(self.gate.delivery.tell(agent, replace(line, to=agent.address)) for agent in agents)

    def _compose(
        self, resident: Resident, packet: Packet, forwarded: bytes, to: str, channel: Channel | None
    ) -> Chat | None:
        """The packet as a chat message, after all that the hall asks of one. None: it had callbacks only."""
        if len(forwarded) > MAX_BRIDGED:
            raise Refused(TOO_LONG)
        # An offer under the id of a message answers that message, as the keep SDK's `reply` does it.
        answered = packet.id if packet.typ == OFFER and is_message_id(packet.id) else None
        agent = resident.agent
        message = Msg(to=to, content=packet.body, in_reply_to=answered)
        try:
            return self.gate.compose(agent, message, channel, forwarded)
        except InvalidMessage:
            raise Refused(TOO_LONG) from None
        except RateLimited:
            raise Refused(RATE_LIMITED) from None
        except Refusal:
            raise Refused(NOT_ALLOWED) from None

    # -- who is meant ------------------------------------------------------------------------------

    def named(self, word: str, but: str) -> list[Present]:
        """Agents of this name on any wire, except the one whose identity is `but`; the first so many."""
        asking = self.residents[but].agent
        roster = self.gate.roster
        namesakes = islice(roster.named(word), MAX_NAMED)
        return [agent for agent in namesakes if agent is not asking and roster.find(agent.id) is agent]

    def key_of(self, agent: Present) -> bytes | None:
        key = agent.key or agent.claimed_key
        return key.raw if key is not None else None

    def candidates(self, named: list[Present], found: Found, but: str) -> list[Present]:
        """Who has the name and is still here, or offers the skill; the best rated first (seed 004, dst)."""
        roster, asking = self.gate.roster, self.residents[but].agent
        chosen = {agent.id: agent for agent in named if roster.find(agent.id) is agent}
        for key in found.offering:
            if agent := roster.holder(key):
                chosen[agent.id] = agent
            for bearer in roster.bearers(key):
                if roster.find(bearer.id) is bearer:
                    chosen[bearer.id] = bearer
        chosen.pop(asking.id, None)

        def rank(agent: Present) -> tuple[bool, int, int, bool, str, str]:
            """Agents that can be told come first. Agents that proved a key come before those that only sign with
            it: a packet may be a replay."""
            rating, transactions = found.standings.get(self.key_of(agent) or b"", DEFAULT_STANDING)
            is_silent = not takes_messages(agent.via)
            return is_silent, -rating, -transactions, agent.key is None, agent.name, agent.id

        return sorted(chosen.values(), key=rank)


DEFAULT_STANDING: Final = (1200, 0)  # seed 001, reputation


def _reaches_others(channel: Channel) -> bool:
    """True if members on other nodes can be told now."""
    return channel.log is not None and channel.log.reaches_others


def _has_keep_away(channel: Channel) -> bool:
    """True if members on other nodes are known to be on this wire: they need no chat message."""
    return any(agent.via == KEEP and agent.node != HERE for agent in channel.members.values())


def _tell_away(channel: Channel, line: Chat | None, forwarded: bytes, told: list[Present]) -> None:
    """The members on other nodes. Agents that were told already do not get it twice."""
    if channel.log is None:
        return
    if line is None:
        channel.log.swarm(None, forwarded, [])
    else:
        ids = [agent.id for agent in told if agent.node != HERE]
        channel.log.swarm(replace(line, to=channel.name), forwarded, ids)


def _name(identity: str) -> str:
    """The part after the colon."""
    return visitor_name(identity.partition(":")[2] or identity)
