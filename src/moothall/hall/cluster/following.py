"""A channel of the hall at a node that follows its log: what records do to the channel, and the state of the home.

It is the half of a room (`rooms`) that every node has. The members at this node are told what a record says.
"""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from moothall.hall import membership
from moothall.hall.channels import Channel
from moothall.hall.cluster import events
from moothall.hall.cluster.events import (
    Claimed,
    Entered,
    Event,
    Invited,
    Left,
    Missing,
    Replied,
    Said,
    Shown,
    Swarm,
    Told,
    Unclaimed,
    Unsaid,
)
from moothall.hall.cluster.gaps import tell_gap
from moothall.hall.cluster.journal import Journal
from moothall.hall.cluster.proxies import AskedElsewhere
from moothall.hall.cluster.remote import AgentRecord, read_line
from moothall.hall.cluster.swarms import tell_members
from moothall.hall.delivery_receipts import Asking, AsksReceipts
from moothall.hall.session import Agent
from moothall.wire.agentchat import server
from moothall.wire.outgoing import Bundle, Outgoing

if TYPE_CHECKING:
    from moothall.hall.cluster.forwarding import Forwarding

APART: Final = "nodes of this hall did not reach each other for a while"
FELL_BEHIND: Final = "this node of the hall has missed what happened"


class Following(Journal, ABC):
    def __init__(self, forwarding: "Forwarding", channel: Channel) -> None:
        super().__init__(forwarding, channel)
        self.has_lost = False
        self._leaving: set[str] = set()  # agents of this node that are about to leave, as the home is told
        self._entering: set[str] = set()  # and to enter
        self._unheard: set[str] = (
            set()
        )  # members of this node that its home has not named since they were brought
        # Members that have left the hall, as far as this node knows.
        self._strangers: dict[str, AgentRecord] = {}
        self._asking: dict[str, Asking] = {}  # lines of this node whose authors want receipts, by id

    @property
    def is_unheard(self) -> bool:
        members = self.channel.members
        return any(agent_id in members and self._stays(members[agent_id]) for agent_id in self._unheard)

    @abstractmethod
    def _depart_again(self, record: AgentRecord) -> None:
        """Tell the home that an agent of this node, which it takes for a member, has left."""

    def apply(self, body: bytes, *, again: bool) -> None:
        if body is self._done:
            self._done = None
            return
        self._is_applying = True
        try:
            for event in events.decode_events(body):
                self._apply(event, again=again)
        finally:
            self._is_applying = False

    def _apply(self, event: Event, *, again: bool) -> None:
        hall, channel = self._hall, self.channel
        match event:
            case Said():
                self._hear(event, again=again)
            case Told():
                if not again:
                    but = channel.members.get(event.but)
                    hall.delivery.spread_here(channel, Bundle((), frame=event.frames), but)
            case Entered():
                self._see_enter(event.agent)
            case Left():
                self._see_leave(event.id)
            case Invited():
                channel.invited.add(event.id)
            case Shown():
                agent = self._local(event)
                if agent is not None and channel.has(agent):
                    agent.session.ref, agent.session.answered = event.ref, False
                    membership.send_room(hall, agent.session, channel)
            case Replied():
                agent = self._local(event)
                if agent is not None:
                    agent.link.put(Bundle((), frame=event.frames))
            case Unsaid():
                if len(channel.buffer):
                    channel.buffer.remove_last()
            case Claimed():
                self._claims[event.msg_id] = event, hall.now() - event.age
            case Unclaimed():
                self._claims.pop(event.msg_id, None)
            case Missing():
                if not again:
                    tell_gap(hall, channel, event.reason)
            case Swarm():
                if not again and event.node != self._forwarding.cluster.name:
                    tell_members(hall, channel, event)

    def _local(self, event: Shown | Replied) -> Agent | None:
        """The agent that this answers, if it is here. A later connection of its id has not asked."""
        agent = self._hall.roster.agents.get(event.id)
        if agent is None or agent.session.is_remote:
            return None
        return agent if event.arrival in (0, self._roster.arrival_of(agent)) else None

    def _hear(self, event: Said, *, again: bool) -> None:
        hall, channel = self._hall, self.channel
        line = read_line(event.text)
        author = channel.members.get(event.author)
        channel.last_activity = hall.now()
        self._settle_claims(event.author, line.in_reply_to)
        if again:
            self._keep(line)
            return
        asking = self._receipts(line, author, event.asks) if author is not None else None
        but = None if event.has_echo else author
        hall.delivery.say(channel, line, but, by_agent=event.by_agent, author=author, asking=asking)
        if event.asks:
            self._forwarding.cluster.remote.awaited_lines.settle(line.msg_id or "", has_come=True)

    def _receipts(self, line: server.Chat, author: Agent, asks: str) -> AsksReceipts | None:
        if not asks:
            return None
        if not author.session.is_remote:
            return self._asking.pop(line.msg_id or "", None)
        self._forwarding.cluster.remote.await_answer(line.msg_id or "", author.node)
        return AskedElsewhere(line, author, asks)

    def _see_enter(self, record: AgentRecord) -> None:
        channel = self.channel
        agent = self._roster.learn(record)
        member = channel.members.get(record.id)
        if member is not None and member is not agent:
            channel.leave(member)
        self._strangers.pop(record.id, None)
        self._unheard.discard(record.id)
        if agent is None:
            self._strangers[record.id] = record
            if record.node == self._forwarding.cluster.name:
                # It has left while the home let it in.
                self._depart_again(record)
        elif member is not agent:
            channel.enter(agent)

    def _see_leave(self, agent_id: str) -> None:
        self._strangers.pop(agent_id, None)
        member = self.channel.members.get(agent_id)
        if member is not None and self._stays(member):
            self.has_lost = True
            return
        self._drop_claims(agent_id)
        if member is not None:
            self.channel.leave(member)

    def _is_here(self, agent: Agent) -> bool:
        return self._hall.roster.agents.get(agent.id) is agent

    def _stays(self, member: Agent) -> bool:
        """True if the member is connected to this node, and has not said that it leaves."""
        return not member.session.is_remote and self._is_here(member) and member.id not in self._leaving

    def _settle_claims(self, agent_id: str, in_reply_to: str | None) -> None:
        if in_reply_to is None:
            self._drop_claims(agent_id)
        elif (known := self._claims.get(in_reply_to)) is not None and known[0].holder == agent_id:
            del self._claims[in_reply_to]

    def emptied(self) -> None:
        channel = self.channel
        self._is_applying = True
        for member in list(channel.members.values()):
            channel.leave(member)
        while len(channel.buffer):
            channel.buffer.remove_last()
        channel.invited.clear()
        self._strangers.clear()
        self._unheard.clear()
        self._claims.clear()
        self._is_applying = False

    def install(self, state: bytes, *, missed: bool, apart: bool) -> None:
        told, channel, hall = events.decode_state(state), self.channel, self._hall
        self._is_applying = True
        self._strangers.clear()
        self._unheard.clear()
        try:
            ids = {record.id for record in told.members}
            for member in list(channel.members.values()):
                if member.id not in ids and self._stays(member):
                    self.has_lost = not apart  # or the home is told anyway
                    if apart:
                        self._unheard.add(member.id)
                elif member.id not in ids and (member.session.is_remote or not apart):
                    channel.leave(member)
                    if missed:
                        membership.tell_left(hall, channel, member)
            for record in told.members:
                is_own = record.node == self._forwarding.cluster.name
                if is_own and record.id not in channel.members and (apart or record.id not in self._entering):
                    # It has left, which this home does not know.
                    self._strangers[record.id] = record
                    if not apart:
                        self._depart_again(record)
                    continue
                if is_own and apart:
                    continue
                known = channel.members.get(record.id)
                if known is None or self._roster.learn(record) is not known:
                    self._see_enter(record)
                    if missed and (agent := channel.members.get(record.id)) is not None:
                        membership.tell_arrival(hall, channel, agent)
            channel.invited = set(told.invited)
            while len(channel.buffer):
                channel.buffer.remove_last()
            for line in map(read_line, told.lines):
                self._keep(line)
                self._forwarding.cluster.remote.awaited_lines.settle(line.msg_id or "", has_come=False)
            self._claims = {claim.msg_id: (claim, hall.now() - claim.age) for claim in told.claims}
            if missed:
                tell_gap(hall, channel, APART if apart else FELL_BEHIND)
            elif channel.is_public and hall.delivery.gallery is not None:
                hall.delivery.gallery.put(channel.buffer.replay())
                hall.delivery.gallery.put(Outgoing(membership.joined(hall, channel)))
        finally:
            self._is_applying = False
