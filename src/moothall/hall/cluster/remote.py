"""Agents that are connected to other nodes: what they are told goes to their node, which brings it to their link.

A `RemoteAgent` is in the roster like any other agent. Its session never handles a frame of its own. Commands of the
agent run on its node, or come from there through a room of the cluster. A message for several agents of one node is
one message on the bus, if they are told one after the other: the WebSocket frame that all of them get.
"""

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec
from msgspec.structs import replace

from moothall.errors import InvalidMessage, Refusal
from moothall.hall import admin, delivery_receipts, peers
from moothall.hall.access import decode_ban
from moothall.hall.cluster.awaited_lines import AwaitedLines
from moothall.hall.cluster.backlogs import LASTS, Backlog, Backlogs
from moothall.hall.cluster.moves import MAX_HELD, MAX_MOVES
from moothall.hall.cluster.nodes import Node
from moothall.hall.outside import Link, Relay, Written
from moothall.hall.packet_link import PacketLink
from moothall.hall.session import Agent
from moothall.wire.agentchat import client
from moothall.wire.agentchat.codec import Malformed, decode, encode, encode_command, framed
from moothall.wire.agentchat.server import Ack, Chat, Chunk, VerifyRequestNotice
from moothall.wire.bus import EVERY_NODE, BadPacket, BusMessage, Origin
from moothall.wire.outgoing import Bundle, Outgoing

if TYPE_CHECKING:
    from moothall.hall.cluster.cluster import Cluster

MAX_AWAITED: Final = 20_000  # questions of other nodes that agents of this one may still answer
MAX_UNWRITTEN: Final = 20_000  # of one node: messages whose sender waits to hear that they were written


class AgentRecord(msgspec.Struct, array_like=True, frozen=True):
    """All that nodes tell each other of an agent. Fields are only added, at the end and with a default."""

    node: str
    life: int
    arrival: int  # the serial of its node's roster with which it came; an id that comes back has a higher one
    id: str
    name: str
    key: bytes | None
    claimed_key: bytes | None
    kind: str | None
    via: str | None
    presence: str
    status_text: str | None
    budget: tuple[int, int] | None
    verified: bool
    granted: bool | None
    lurking: bool
    takes_receipts: bool
    ip: str
    counted: bool
    user_agent: str
    connected_at: float
    takeover_delay: float = 0.0  # that came before the last takeover of its id, if there was one lately
    claim: int = 0  # the revision of its id in the registry: of two agents with one id, the higher one has it
    identity: str | None = None


# -- messages between nodes ------------------------------------------------------------------------


class Deliver(BusMessage, frozen=True):
    """WebSocket frames for these agents. `awaits` is the id of a question or a message that they may answer.

    `moves`: so many nodes have sent it on, because the agent had gone to another one. The first one is the `asker`.
    """

    KIND: ClassVar = "agent-deliver"

    ids: list[str]
    frames: bytes
    awaits: str = ""
    is_chunk: bool = False  # of a file: it is dropped rather than that it closes a connection
    moves: int = 0
    asker: str = ""


class DeliverLine(BusMessage, frozen=True):
    """A chat message as JSON, for agents of another wire."""

    KIND: ClassVar = "agent-deliver-line"

    ids: list[str]
    text: bytes
    awaits: str = ""
    moves: int = 0
    asker: str = ""


class DeliverPacket(BusMessage, frozen=True):
    """A packet for an agent of the same wire, as its author signed it."""

    KIND: ClassVar = "agent-deliver-packet"

    id: str
    packet: bytes
    moves: int = 0


class CloseAgent(BusMessage, frozen=True):
    KIND: ClassVar = "agent-close"

    id: str
    code: int
    reason: str


class AskWritten(BusMessage, frozen=True):
    """Say when all that was delivered to this agent before is written.

    `msg_id`: say it of this line of the channel, which comes from the home of the channel, and maybe later.
    """

    KIND: ClassVar = "agent-ask-written"

    id: str
    number: int
    channel: str = ""
    msg_id: str = ""
    moves: int = 0


class IsWritten(BusMessage, frozen=True):
    KIND: ClassVar = "agent-is-written"

    number: int
    is_written: bool


class GrantVerified(BusMessage, frozen=True):
    """An admin said with ADMIN_VERIFY whether this agent is shown as verified."""

    KIND: ClassVar = "agent-grant-verified"

    id: str
    verified: bool


class Maintain(BusMessage, frozen=True):
    """An admin sent ADMIN_MOTD with `kick`: show this message of the day, then close every connection."""

    KIND: ClassVar = "agents-maintain"

    motd: str | None


class Banned(BusMessage, frozen=True):
    """An admin has banned this agent. The store tells it as well, but the agent could come back before that."""

    KIND: ClassVar = "agents-banned"

    ban: bytes  # as the store keeps it


class PassOn(BusMessage, frozen=True):
    """A command of an agent that answers what an agent of the other node asked."""

    KIND: ClassVar = "agent-pass-on"

    id: str
    ref: str | None
    text: bytes


# -- agents of other nodes -------------------------------------------------------------------------


class RemoteLink:
    """The link of an agent of another node."""

    __slots__ = ("_backlog_ends", "_carrier", "_held", "_id", "_is_line_only", "has_sent")

    def __init__(self, carrier: "Carrier", agent_id: str, via: str | None) -> None:
        self._carrier = carrier
        self._id = agent_id
        self._is_line_only = via is not None
        self._held: list[Callable[[], object]] | None = None
        self.has_sent = False  # anything
        self._backlog_ends = 0.0

    @property
    def unread(self) -> int:
        """Its node says only whether it is much. What is more may be on its way already: so it counts as all."""
        return self._carrier.outbox_limit if self._carrier.now() < self._backlog_ends else 0

    def tell_backlog(self, unread: int) -> None:
        self._backlog_ends = self._carrier.now() + LASTS if unread > 0 else 0.0

    def hold(self) -> None:
        """Keep what is put, until `release` is called."""
        self._held = []

    def release(self) -> None:
        held, self._held = self._held, None
        for act in held or ():
            act()

    def _holds(self, act: Callable[[], object]) -> bool:
        """True if `act` waits. Where too much waits already, its order counts less than the memory."""
        if self._held is not None and len(self._held) >= MAX_HELD:
            self.release()
        if self._held is None:
            return False
        self._held.append(act)
        return True

    def put(self, outgoing: Outgoing | Bundle) -> None:
        self.has_sent = True
        if self._held is not None and self._holds(partial(self.put, outgoing)):
            return
        if not self._is_line_only:
            self._carrier.put(self._id, outgoing)
        elif isinstance(outgoing, Outgoing) and isinstance(outgoing.message, Chat):
            self._carrier.put_line(self._id, outgoing, outgoing.message)

    def put_packet(self, packet: bytes) -> bool:
        self.has_sent = True
        if self._held is not None and self._holds(partial(self.put_packet, packet)):
            return True
        return self._carrier.put_packet(self._id, packet)

    def when_written(self, told: Written) -> None:
        if self._held is None or not self._holds(partial(self.when_written, told)):
            self._carrier.when_written(self._id, told)

    def when_line_written(self, channel: str, msg_id: str, told: Written) -> None:
        self._carrier.when_written(self._id, told, channel, msg_id)

    def close(self, code: int, reason: str) -> None:
        self.release()
        self._carrier.close(self._id, code, reason)

    def pause(self) -> None:
        """Nothing is read from it here."""

    resume = pause


class Carrier:
    """What goes to the agents of one node, in one order."""

    def __init__(self, cluster: "Cluster", node: Node) -> None:
        self._cluster = cluster
        self._node = node.name
        self._turn = -1
        self._last: Outgoing | Bundle | None = None
        self._ids: list[str] = []
        self._number = 0
        self._unwritten: dict[int, tuple[str, Written]] = {}  # with the member, if about a line of a channel
        self.outbox_limit = cluster.hall.settings.outbox_limit
        self.now = cluster.hall.now

    def put(self, agent_id: str, outgoing: Outgoing | Bundle) -> None:
        if not self._joins(agent_id, outgoing):
            is_chunk = isinstance(outgoing, Outgoing) and isinstance(outgoing.message, Chunk)
            self._send(Deliver(self._ids, framed(outgoing), _awaits(outgoing), is_chunk))

    def put_line(self, agent_id: str, outgoing: Outgoing, line: Chat) -> None:
        if not self._joins(agent_id, outgoing):
            self._send(DeliverLine(self._ids, outgoing.text or encode(line), _awaits(outgoing)))

    def put_packet(self, agent_id: str, packet: bytes) -> bool:
        self._send(DeliverPacket(agent_id, packet))
        return self._cluster.is_connected

    def _joins(self, agent_id: str, outgoing: Outgoing | Bundle) -> bool:
        """True if the last message of this turn is the same, so that it only gets one more recipient."""
        turn = self._cluster.post.turn
        if outgoing is self._last and turn == self._turn:
            self._ids.append(agent_id)
            return True
        self._last, self._turn, self._ids = outgoing, turn, [agent_id]
        return False

    def close(self, agent_id: str, code: int, reason: str) -> None:
        self._send(CloseAgent(agent_id, code, reason))

    def when_written(
        self, agent_id: str, told: Written, channel: str = "", msg_id: str = "", moves: int = 0
    ) -> None:
        if not self._cluster.is_connected:
            told(False)
            return
        self._number += 1
        self._unwritten[self._number] = agent_id if channel else "", told
        if len(self._unwritten) > MAX_UNWRITTEN:  # the oldest is for an agent that does not read
            self._unwritten.pop(next(iter(self._unwritten)))[1](False)
        self._send(AskWritten(agent_id, self._number, channel, msg_id, moves))

    def written(self, answer: IsWritten) -> None:
        waiting = self._unwritten.pop(answer.number, None)
        if waiting is not None:
            waiting[1](answer.is_written)

    def fail_lines(self, agent_id: str) -> None:
        """The agent has left. Its node may wait for a line that it does not have. What was for the agent alone may
        have been sent on, and its node says so."""
        for number in [number for number, (member, _) in self._unwritten.items() if member == agent_id]:
            self._unwritten.pop(number)[1](False)

    def fail(self) -> None:
        """The life of the node is over: it answers nothing more."""
        unwritten, self._unwritten = self._unwritten, {}
        for _, told in unwritten.values():
            told(False)

    def _send(self, message: BusMessage) -> None:
        self._cluster.send(self._node, message)


def _awaits(outgoing: Outgoing | Bundle) -> str:
    """The id by which an agent of another node answers this."""
    if isinstance(outgoing, Outgoing):
        message = outgoing.message
        if isinstance(message, Chat):
            return message.msg_id or "" if message.receipt else ""
        if isinstance(message, VerifyRequestNotice):
            return message.request_id
    return ""


# -- agents of this node, told by other nodes ------------------------------------------------------

_decode_line: Final = msgspec.json.Decoder(Chat).decode
_answers: Final[dict[type[client.ClientMessage], Callable[..., None]]] = {
    client.VerifyResponse: peers.verify_response,
    client.Receipt: delivery_receipts.report,
}


class Remote:
    """Brings what other nodes send to the agents of this one, and what agents answer to the node that asked."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._hall = cluster.hall
        self._awaited: OrderedDict[str, str] = OrderedDict()  # the node that asked, by the id of the question
        self.backlogs = Backlogs(cluster)
        self._moves = cluster.moves
        self.awaited_lines = AwaitedLines(self._hall.agenda, self._hall.now)
        cluster.handle(Deliver, self._deliver)
        cluster.handle(DeliverLine, self._deliver_line)
        cluster.handle(DeliverPacket, self._deliver_packet)
        cluster.handle(CloseAgent, self._close)
        cluster.handle(AskWritten, self._ask_written)
        cluster.handle(IsWritten, self._is_written)
        cluster.handle(Backlog, self._backlog)
        cluster.handle(GrantVerified, self._granted)
        cluster.handle(Maintain, self._maintain)
        cluster.handle(Banned, self._banned)
        cluster.handle(PassOn, self._passed_on)

    def await_answer(self, question: str, node: str) -> None:
        """An agent of this node may answer the question of this id, and the answer goes to that node."""
        self._awaited[question] = node
        if len(self._awaited) > MAX_AWAITED:
            self._awaited.popitem(last=False)

    def pass_on(
        self, agent: Agent, question: str, message: client.ClientMessage, ref: str | None = None
    ) -> bool:
        """Pass a command on to the node whose agent asked, which answers it if there is a `ref`.

        False: no other node has asked this.
        """
        node = self._awaited.get(question)
        if node is None or agent.session.is_remote:
            return False
        message.ref = None
        self._cluster.send(node, PassOn(agent.id, ref, encode_command(message)))
        return True

    def when_line_written(self, carrier: Link | Relay, channel: str, msg_id: str, told: Written) -> None:
        """Like `when_written`, for a line of a channel that was said already. It may yet come to other nodes."""
        if isinstance(carrier, RemoteLink):
            carrier.when_line_written(channel, msg_id, told)
        else:
            carrier.when_written(told)

    def grant(self, agent: Agent, *, verified: bool) -> None:
        """To the node of an agent: an admin said whether the agent is shown as verified."""
        self._cluster.send(agent.node, GrantVerified(agent.id, verified))

    def maintain(self, motd: str | None) -> None:
        """To all nodes: an admin said with ADMIN_MOTD to close every connection."""
        self._cluster.publish(EVERY_NODE, Maintain(motd))

    def ban(self, ban: bytes) -> None:
        """To all nodes: an admin has banned an agent."""
        self._cluster.publish(EVERY_NODE, Banned(ban))

    # -- for agents of this node -------------------------------------------------------------------

    def _here(self, agent_id: str) -> Agent | None:
        agent = self._hall.roster.agents.get(agent_id)
        return None if agent is None or agent.session.is_remote else agent

    def _deliver(self, origin: Origin, message: Deliver) -> None:
        self._put(origin, message, Bundle((), frame=message.frames))

    def _deliver_line(self, origin: Origin, message: DeliverLine) -> None:
        self._put(origin, message, Outgoing(read_line(message.text)))

    def _deliver_packet(self, origin: Origin, message: DeliverPacket) -> None:
        agent = self._here(message.id)
        if agent is None:
            self._moves.send_on(message, message.id, message.moves)
        elif isinstance(agent.link, PacketLink):
            agent.link.put_packet(message.packet)

    def _put(self, origin: Origin, message: Deliver | DeliverLine, outgoing: Outgoing | Bundle) -> None:
        asker = message.asker or origin.node
        if message.awaits:
            self.await_answer(message.awaits, asker)
        is_chunk = isinstance(message, Deliver) and message.is_chunk
        for agent_id in message.ids:
            agent = self._here(agent_id)
            if agent is None:
                self._moves.send_on(replace(message, ids=[agent_id], asker=asker), agent_id, message.moves)
            elif not is_chunk or self.backlogs.takes_chunk(agent):
                agent.link.put(outgoing)
                self.backlogs.look(agent)

    def look_at_backlogs(self, keys: Iterable[bytes]) -> None:
        """The agents of this node with these keys were told something that came through the store."""
        for key in keys:
            agent = self._hall.roster.by_key.get(key)
            if agent is not None and not agent.session.is_remote:
                self.backlogs.look(agent)

    def _close(self, origin: Origin, message: CloseAgent) -> None:
        agent = self._here(message.id)
        if agent is not None:
            self._hall.close(agent.session, message.code, message.reason)

    def _granted(self, origin: Origin, message: GrantVerified) -> None:
        agent = self._here(message.id)
        if agent is not None:
            admin.grant(self._hall, agent, verified=message.verified)

    def _maintain(self, origin: Origin, message: Maintain) -> None:
        admin.maintain(self._hall, message.motd)

    def _banned(self, origin: Origin, message: Banned) -> None:
        try:
            ban = decode_ban(message.ban)
        except (msgspec.DecodeError, ValueError) as error:
            raise BadPacket(f"Not a ban: {error}") from None
        admin.enforce(self._hall, ban)

    def _ask_written(self, origin: Origin, message: AskWritten) -> None:
        told = partial(self._when_written, origin.node, message)
        if not message.msg_id or message.msg_id in self._awaited:
            told(True)
        else:
            self.awaited_lines.wait_for(message.msg_id, told)

    def _when_written(self, node: str, asked: AskWritten, has_come: bool) -> None:
        agent, answer = self._here(asked.id), partial(self._answer_written, node, asked.number)
        if agent is None and not asked.channel and asked.moves < MAX_MOVES:
            there = self._cluster.roster.carrier(self._moves.place_of(asked.id))
            if there is not None:  # what was delivered was sent on, before this
                there.when_written(asked.id, answer, moves=asked.moves + 1)
                return
        if not has_come or agent is None or (asked.channel and asked.channel not in agent.channels):
            answer(False)
        else:
            agent.link.when_written(answer)

    def _answer_written(self, node: str, number: int, is_written: bool) -> None:
        self._cluster.send(node, IsWritten(number, is_written))

    # -- about agents of other nodes ---------------------------------------------------------------

    def _is_written(self, origin: Origin, message: IsWritten) -> None:
        carrier = self._cluster.roster.carrier(origin.node)
        if carrier is not None:
            carrier.written(message)

    def _backlog(self, origin: Origin, message: Backlog) -> None:
        agent = self._there(origin, message.id)
        if agent is not None and isinstance(agent.link, RemoteLink):
            agent.link.tell_backlog(message.unread)

    def _there(self, origin: Origin, agent_id: str) -> Agent | None:
        agent = self._hall.roster.agents.get(agent_id)
        return agent if agent is not None and agent.node == origin.node else None

    def _passed_on(self, origin: Origin, message: PassOn) -> None:
        agent, hall = self._there(origin, message.id), self._hall
        if agent is None:
            return
        session, command = agent.session, _read_answer(message.text)
        session.ref = message.ref
        session.answered = False
        try:
            _answers[type(command)](hall, session, command)
        except Refusal as refusal:
            hall.refuse(session, refusal)
        if session.ref is not None and not session.answered:
            hall.reply(session, Ack(ts=hall.timestamp()))


def read_line(text: bytes) -> Chat:
    try:
        return _decode_line(text)
    except msgspec.DecodeError:  # lone surrogates (see `codec`)
        try:
            return msgspec.convert(json.loads(text), Chat)
        except ValueError as error:
            raise BadPacket(f"Not a chat message: {error}") from None


def _read_answer(text: bytes) -> client.ClientMessage:
    try:
        command = decode(text)
    except (Malformed, InvalidMessage) as error:
        raise BadPacket(f"Not a command: {error}") from None
    if type(command) not in _answers:
        raise BadPacket(f"Not an answer: {type(command).__name__}")
    return command
