"""A channel of the hall, for the log: `Channel.log` of each channel, in a hall of several nodes.

At the home, the handlers of commands run as in a hall of one node. What they do to the channel is noted here, and
becomes a record; so it goes to the other nodes, which do the same. While no other node follows, nothing is noted.
A node that is not home submits what its agents want, and does what records say (`following`).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from moothall.errors import ChannelNotFound, InternalError, InvalidMessage, Refusal, Unavailable
from moothall.hall import chat, membership
from moothall.hall.channels import Channel
from moothall.hall.cluster import claims, events
from moothall.hall.cluster.events import (
    Announce,
    Answered,
    Arrive,
    Claimed,
    Depart,
    Discard,
    Entered,
    Event,
    Left,
    Missing,
    Ordered,
    Own,
    Replied,
    Say,
    State,
    Submission,
    Swarm,
)
from moothall.hall.cluster.following import APART, Following
from moothall.hall.cluster.gaps import tell_gap
from moothall.hall.cluster.log import Decision
from moothall.hall.cluster.proxies import Collector
from moothall.hall.cluster.remote import AgentRecord, read_line
from moothall.hall.cluster.replicas import Done
from moothall.hall.cluster.swarms import tell_members
from moothall.hall.delivery_receipts import Asking
from moothall.hall.session import Agent, Session
from moothall.wire.agentchat import server
from moothall.wire.agentchat.client import ClientMessage, Join, Leave, ListAgents
from moothall.wire.agentchat.codec import decode, encode, encode_command
from moothall.wire.bus import BadPacket

if TYPE_CHECKING:
    from moothall.hall.cluster.forwarding import Forwarding


class ChannelRoom(Following):
    """Implements `log.Room`."""

    def __init__(self, forwarding: "Forwarding", channel: Channel) -> None:
        super().__init__(forwarding, channel)
        self.waiting = 0  # submissions of this node that need to know what happens
        self.count_told: int | None = None  # the number of members that other nodes know

    @property
    def is_known(self) -> bool:
        """True if this node knows what happens in the channel."""
        return self.log is not None and self.log.has_replica

    @property
    def reaches_others(self) -> bool:
        """True if members on other nodes can be told now."""
        return self._forwarding.cluster.is_connected

    @property
    def is_wanted(self) -> bool:
        channel = self.channel
        return (
            len(channel.members) > channel.elsewhere
            or self.waiting > 0
            or (channel.is_public and self._forwarding.cluster.follows_public)
        )

    def member_nodes(self) -> set[str]:
        here = self._forwarding.cluster.name
        nodes = {member.node or here for member in self.channel.members.values()}
        return nodes | {record.node for record in self._strangers.values()}

    # -- what agents of this node want ---------------------------------------------------------------

    def order(self, session: Session, message: ClientMessage, done: Done) -> None:
        """A command of an agent of this node, for the home."""
        ref, message.ref = session.ref, None
        record = self._roster.record_of(self._hall.agent_of(session))
        leaving = record.id if isinstance(message, Leave) else ""
        entering = record.id if isinstance(message, Join) else ""
        order = Ordered(record, ref, encode_command(message))
        is_list = isinstance(message, ListAgents)
        self._submit(order, done, leaving=leaving, entering=entering, needs_replica=not is_list)

    def say(
        self, agent: Agent, line: server.Chat, asking: Asking | None, done: Callable[[Refusal | None], None]
    ) -> None:
        """A line of an agent of this node. `done` is called when it was said, or with the refusal of the home."""

        def answered(answer: bytes | None) -> None:
            self._asking.pop(line.msg_id or "", None)  # the home refused it, or its record did not come here
            done(events.refusal_of(events.decode_answer(answer)) if answer else None)

        asks = ""
        if asking is not None and line.msg_id is not None:
            asks = asking.asks
            self._asking[line.msg_id] = asking
        self._submit(Say(agent.id, encode(line), asks), answered, line.msg_id or "")

    def announce(self, line: server.Chat, *, buffered: bool) -> None:
        self._submit(Announce(encode(line), buffered), _ignore)

    def swarm(self, line: server.Chat | None, packet: bytes, told: list[str]) -> None:
        """A packet to `swarm:` of an agent of this node, for the members on other nodes."""
        text = encode(line) if line is not None else b""
        if line is not None and line.packet is not None:
            packet = b""
        self._submit(Swarm(self._forwarding.cluster.name, text, packet, told), _ignore)

    def arrive(self, agent: Agent, *, is_visitor: bool = False) -> None:
        """The agent enters without having asked. A visitor needs no answer, and its wire does not wait."""
        if is_visitor:
            arrival = Arrive(self._roster.record_of(agent), is_visitor=True)
            self._submit(arrival, _ignore, entering=agent.id, needs_replica=True)
            return
        entered = self._forwarding.expect_entry(agent)
        arrival = Arrive(self._roster.record_of(agent))
        self._submit(arrival, lambda answer: entered(), entering=agent.id, needs_replica=True)

    def discard(self) -> None:
        """Remove the channel, which has no members."""
        if self.decides:
            self._forwarding.homes.remove(self.channel.name)
        else:
            self._submit(Discard(), _ignore)

    def depart(self, agent: Agent, *, is_visitor: bool = False, is_named: bool = False) -> None:
        self._submit(Depart(agent.id, is_visitor, is_named), _ignore, leaving=agent.id)

    def _depart_again(self, record: AgentRecord) -> None:
        self._submit(Depart(record.id, arrival=record.arrival), _ignore)

    def _submit(
        self,
        submission: Submission,
        done: Done,
        mark: str = "",
        leaving: str = "",
        entering: str = "",
        *,
        needs_replica: bool = False,
    ) -> None:
        """`needs_replica`: what comes of it is in a record. This node follows the channel until it has that."""
        self.waiting += needs_replica
        self._leaving.add(leaving)
        self._entering.add(entering)

        def settled(answer: bytes | None) -> None:
            self.waiting -= needs_replica
            self._leaving.discard(leaving)
            self._entering.discard(entering)
            done(answer)

        log = self._forwarding.homes.want(self.channel.name)
        log.submit(mark or self._forwarding.mark(), events.encode(submission), settled)

    # -- as the home (`log.Room`) --------------------------------------------------------------------

    def decide(self, body: bytes, node: str) -> Decision:
        submission = events.decode_submission(body)
        self._events, answer = [], b""
        try:
            self._run(submission, node)
        except Refusal as refusal:
            answer = events.refused(refusal)
        except Exception as error:  # what happened until then must be told, or nodes differ
            self._hall.log.warning("channel_command_failed", channel=self.channel.name, exc_info=error)
            answer = events.refused(InternalError("The home of the channel failed at this"))
        happened, self._events = self._events, None
        if not happened:
            return Decision(None, answer)
        if all(isinstance(event, Replied) for event in happened):
            frames = b"".join(event.frames for event in happened if isinstance(event, Replied))
            return Decision(None, answer or events.encode(Answered(frames=frames)))
        self._done = events.encode(happened)
        return Decision(self._done, answer)

    def _run(self, submission: Submission, node: str) -> None:
        hall, channel = self._hall, self.channel
        match submission:
            case Ordered():
                agent = self._learn(submission.agent)
                if agent is None:
                    raise Unavailable("The nodes of this hall do not know each other's agents yet; try again")
                self._run_command(agent, submission)
            case Say():
                author = self._member_of(submission.id, node)
                if author is None:
                    raise ChannelNotFound(f"You are in no channel {channel.name[:64]}; JOIN it first")
                line = read_line(submission.text)
                if self.was_said(line):
                    raise InvalidMessage("This envelope was said before")
                asking = self._receipts(line, author, submission.asks)
                self._forwarding.introduce(channel, author)
                chat.say_here(hall, author, channel, line, asking)
            case Announce():
                line = read_line(submission.text)
                if submission.buffered:
                    hall.delivery.say(channel, line, None, by_agent=False)
                else:
                    hall.delivery.broadcast(channel, line)
            case Arrive():
                agent = self._learn(submission.agent)
                if agent is not None and not channel.has(agent):
                    self._forwarding.enter(channel, agent, is_visitor=submission.is_visitor)
            case Depart():
                member = self._member_of(submission.id, node, submission.arrival)
                if member is not None:
                    self._forwarding.leave(channel, member, submission)
                else:
                    self._drop_strangers(node, submission.id)
            case Discard():
                if not channel.members:
                    self._forwarding.homes.remove(channel.name)
            case Swarm():
                if node != self._forwarding.cluster.name:
                    tell_members(hall, channel, submission)
                if self.log is not None and self.log.followers - {node}:
                    self._note(submission)

    def _learn(self, record: AgentRecord) -> Agent | None:
        """The agent, if it is still there. An earlier one of its id leaves."""
        agent = self._roster.learn(record)
        if agent is not None:
            membership.leave_former(self._hall, self.channel, agent)
        return agent

    def _member_of(self, agent_id: str, node: str, arrival: int = 0) -> Agent | None:
        member = self.channel.members.get(agent_id)
        if member is None or (member.node or self._forwarding.cluster.name) != node:
            return None
        return None if arrival and self._roster.arrival_of(member) != arrival else member

    def _run_command(self, agent: Agent, order: Ordered) -> None:
        session = agent.session
        session.ref, session.answered = order.ref, False
        message = decode(order.text)
        if not session.is_remote:
            # The session waited for another node to run this command. Nothing else keeps it busy.
            is_busy, session.busy = session.busy, False
            try:
                self._hall.handle(session, message)
            finally:
                session.busy = is_busy
            return
        collector, link = Collector(), session.link
        session.link = collector
        try:
            self._hall.handle(session, message)
        finally:
            session.link = link
            if collector.frames and self._events is not None:
                self._events.append(Replied(agent.id, collector.frames, order.agent.arrival))

    def state(self) -> bytes:
        channel = self.channel
        members = [self._roster.record_of(member) for member in channel.members.values()]
        members += self._strangers.values()
        lines = [encode(line) for line in channel.buffer]
        return events.encode(State(members, list(channel.invited), lines, self._all_claims()))

    def own(self) -> bytes:
        local = [member for member in self.channel.members.values() if not member.session.is_remote]
        records = [self._roster.record_of(member) for member in local if self._is_here(member)]
        ids = {record.id for record in records}
        return events.encode(Own(records, [claim for claim in self._all_claims() if claim.holder in ids]))

    def check_own(self, own: bytes) -> None:
        try:
            events.decode_own(own)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadPacket(f"Not what a node brings to a channel: {error}") from None

    def reconcile(self, node: str, own: bytes) -> bytes:
        brought = events.decode_own(own)
        ids = {record.id for record in brought.members}
        happened: list[Event] = []
        self._events = happened
        try:
            for member in list(self.channel.members.values()):
                if member.id not in ids and self._member_of(member.id, node) is not None:
                    self._forwarding.leave(self.channel, member, Depart(member.id))
            for record in brought.members:
                self._strangers.pop(record.id, None)
                agent = self._learn(record)
                if agent is None:
                    continue
                if self.channel.has(agent):
                    happened.append(Entered(record))
                else:
                    self._forwarding.enter(self.channel, agent, is_visitor=agent.via is not None)
            self._drop_strangers(node)
            for claim in brought.claims:
                claims.arbitrate(self._hall, self.channel, claim)
            happened.append(Missing(APART))
            tell_gap(self._hall, self.channel, APART)
        finally:
            self._events = None
        self._done = events.encode(happened)
        return self._done

    def without(self, node: str) -> bytes | None:
        gone = [member for member in self.channel.members.values() if self._member_of(member.id, node)]
        if not gone and all(record.node != node for record in self._strangers.values()):
            return None
        happened: list[Event] = []
        self._events = happened
        try:
            for member in gone:
                self._forwarding.leave(self.channel, member, Depart(member.id))
            self._drop_strangers(node)
        finally:
            self._events = None
        self._done = events.encode(happened)
        return self._done

    def _drop_strangers(self, node: str, agent_id: str | None = None) -> None:
        """Other nodes may take them for members."""
        for record in list(self._strangers.values()):
            if record.node == node and agent_id in (None, record.id):
                del self._strangers[record.id]
                self._note(Left(record.id))
                now, name = self._hall.timestamp(), self.channel.name
                notice = server.AgentLeft(ts=now, channel=name, agent=f"@{record.id}")
                self._hall.delivery.broadcast(self.channel, notice)

    def became_home(self) -> None:
        self.count_told = None  # other nodes may have taken the channel for lost
        known, self._claims = self._claims, {}
        now, ttl = self._hall.now(), self._hall.settings.floor_ttl
        for claim, since in known.values():
            if now - since < ttl:
                claims.restore(self._hall, self.channel, claim)

    def resigned(self) -> None:
        now = self._hall.now()
        self._claims = {claim.msg_id: (claim, now - claim.age) for claim in self._all_claims()}
        self._hall.floor.forget_channel(self.channel.name)

    def _all_claims(self) -> list[Claimed]:
        hall, now = self._hall, self._hall.now()
        if self.log is None or not self.log.has_decided:
            return [
                Claimed(
                    claim.msg_id, claim.holder, claim.started_at, claim.is_human, claim.address, now - since
                )
                for claim, since in self._claims.values()
            ]
        return [
            Claimed(
                msg_id,
                claim.holder,
                claim.started_at,
                claim.is_human,
                claim.address,
                hall.settings.floor_ttl - (claim.expires - now),
            )
            for msg_id, claim in hall.floor.claims_in(self.channel.name)
        ]


def _ignore(answer: bytes | None) -> None:
    """What came of it concerns no agent."""
