"""Channels in a hall of several nodes: a command about a channel runs at its home.

The node of the agent checks the command, its rate and its price, and submits it to the home. The session waits for
what comes of it. Commands about a channel whose home is here run at once, as in a hall of one node.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import UnsetType

from moothall.errors import ChannelExists, Unavailable
from moothall.hall import membership, throttle
from moothall.hall.channel_kind import Kind
from moothall.hall.channels import Channel
from moothall.hall.cluster import events
from moothall.hall.cluster.directory import Directory
from moothall.hall.cluster.events import Depart
from moothall.hall.cluster.homes import Homes
from moothall.hall.cluster.log import RING_BYTES
from moothall.hall.cluster.nodes import Node
from moothall.hall.cluster.originals import Originals
from moothall.hall.cluster.rooms import ChannelRoom
from moothall.hall.commands import Row
from moothall.hall.gate import Gate
from moothall.hall.notices import Notices
from moothall.hall.session import Agent, Session
from moothall.hall.shared_memory import SharedMemory
from moothall.wire.agentchat.client import ClientMessage, Invite, Join, Leave, ListAgents
from moothall.wire.agentchat.server import Ack
from moothall.wire.outgoing import Bundle

if TYPE_CHECKING:
    from moothall.hall.cluster.cluster import Cluster

# Commands whose effect the next command of the session relies on. Others wait only for an answer with `ref`.
WAITED_FOR: Final = (Join, Leave, Invite, ListAgents)

DOWN: Final = "The nodes of this hall do not reach each other now, so no channel can be made; try again later"


class Forwarding:
    def __init__(self, cluster: "Cluster") -> None:
        self.cluster = cluster
        self.hall = hall = cluster.hall
        self._notices = Notices(Gate(hall))
        self._marks = 0
        self.originals = Originals()  # of all channels
        self._entering: dict[Agent, int] = {}  # how many channels it is about to enter
        self._entered: dict[Agent, Callable[[None], None]] = {}  # to be called when it is in all of them
        self.homes = Homes(
            cluster.bus,
            cluster.post,
            cluster.nodes,
            hall.agenda,
            hall.clock,
            self._room,
            self._kind,
            self._failed,
            SharedMemory(hall.settings.replay_memory, RING_BYTES),
        )
        self.homes.is_connected = lambda: cluster.is_connected
        cluster.on_change(self.homes.reach)
        self.homes.opened = self._opened
        self.homes.removed = self._removed
        self.directory = Directory(self)
        self.homes.ticked = self.directory.tick
        for channel in hall.channels:
            channel.log = ChannelRoom(self, channel)
        hall.channels.on_opening(self._made)
        cluster.nodes.on_gone(self._lost)
        cluster.nodes.on_joined(self._found)

    def open(self) -> None:
        self.homes.open()

    def close(self) -> None:
        self.homes.close()

    def mark(self) -> str:
        """A new one, for a submission or a record."""
        self._marks += 1
        return f"{self.cluster.name}:{self.cluster.nodes.life}:{self._marks}"

    def _failed(self, channel: str, error: Exception) -> None:
        if self.hall.may_log("channel_failed"):
            self.hall.log.warning("channel_failed", channel=channel, exc_info=error)

    def _lost(self, node: Node) -> None:
        self.homes.node_gone(node.name)

    def _found(self, node: Node) -> None:
        self.homes.node_joined(node.name)
        self.directory.introduce(node.name)

    # -- channels ----------------------------------------------------------------------------------

    def _made(self, channel: Channel) -> None:
        channel.log = ChannelRoom(self, channel)

    def _room(self, name: str) -> ChannelRoom:
        channel = self.hall.channels.get(name)
        if channel is None:
            channel = self.hall.channels.create(name, self.hall.now())
        if channel.log is None:
            channel.log = ChannelRoom(self, channel)
        return channel.log

    def _kind(self, name: str) -> Kind:
        channel = self.hall.channels.find(name)
        return Kind(channel.invite_only, channel.verified_only, channel.on_demand, channel.made_by)

    def _opened(self, name: str, kind: Kind) -> None:
        if self.hall.channels.get(name) is None:
            channel = self.hall.channels.create(
                name,
                self.hall.now(),
                invite_only=kind.invite_only,
                verified_only=kind.verified_only,
                on_demand=kind.on_demand,
                made_by=kind.made_by,
            )
            channel.counted = 1  # its maker, until the home tells

    def _removed(self, name: str) -> None:
        channel = self.hall.channels.get(name)
        if channel is not None and channel.made_by is not None and not channel.members:
            self.hall.channels.remove(channel)

    def make(self, session: Session, name: str, kind: Kind, then: Callable[[Channel], None]) -> None:
        """Make a channel that no other node makes, and call `then`."""
        if self.hall.channels.get(name) is not None:
            raise ChannelExists(f"Channel {name} exists already")

        self.cluster.charge_change(session)

        def submit(done: Callable[[bool], None], failed: Callable[[BaseException], None]) -> None:
            self.homes.make(name, kind, done, lambda error: failed(Unavailable(DOWN)))

        def made(is_made: bool) -> None:
            if not is_made:
                raise ChannelExists(f"Channel {name} exists already")
            if not session.closed:
                then(self.hall.channels.find(name))

        self.hall.durable.wait_for(session, submit, made)

    # -- commands ----------------------------------------------------------------------------------

    def forward(self, session: Session, command: Row, message: ClientMessage) -> bool:
        """Submit a command to the home of its channel. False: it runs here. Raises Refusal."""
        name = getattr(message, command.channel or "")
        if isinstance(name, UnsetType):
            return False
        channel = self.hall.channels.get(name)
        if channel is None or channel.log is None or channel.log.decides:
            return False
        room, agent = channel.log, self.hall.agent_of(session)
        is_member = name in agent.channels
        if room.is_known and (isinstance(message, ListAgents) or (isinstance(message, Join) and is_member)):
            return False
        if not is_member and (command.silent or isinstance(message, Leave | Invite)):
            # The home would not do it either, and this node would follow the channel to hear that
            return False
        if isinstance(message, Join) and not is_member:
            membership.check_joined(self.hall, agent)
        if session.ref is None and not isinstance(message, WAITED_FOR):
            room.order(session, message, partial(self._hand_over, session))
        else:
            # What the history costs is charged before, unless only the home knew.
            owed = channel if isinstance(message, Join) and not room.is_known else None
            self.hall.durable.wait_for(
                session,
                lambda done, failed: room.order(session, message, done),
                partial(self._finish, session, command, message, owed),
            )
        return True

    def _hand_over(self, session: Session, answer: bytes | None) -> None:
        """What the home says to a command that its session does not wait for, such as YIELD."""
        if answer and not session.closed and (frames := events.decode_answer(answer).frames):
            session.link.put(Bundle((), frame=frames))

    def _finish(
        self,
        session: Session,
        command: Row,
        message: ClientMessage,
        joined: Channel | None,
        answer: bytes | None,
    ) -> None:
        """What the home said of a command. If it changed something, the record of it has told the agent."""
        if joined is not None:
            throttle.owe(self.hall, session, joined.buffer.size)  # its address does, if it has closed
        if session.closed:
            return
        if answer is None:
            self._answer_again(session, command, message)
            return
        if not answer:
            return
        answered = events.decode_answer(answer)
        if answered.code:
            raise events.refusal_of(answered)
        if answered.frames:
            session.link.put(Bundle((), frame=answered.frames))
            throttle.owe(self.hall, session, len(answered.frames))

    def _answer_again(self, session: Session, command: Row, message: ClientMessage) -> None:
        """The command was done. The record that has the answer did not come here, or the home has not kept a long
        answer. To enter, leave or list once more changes nothing, and is answered."""
        if isinstance(message, Join | Leave | ListAgents) and not self.forward(session, command, message):
            command.handler(self.hall, session, message)
        if session.ref is not None and not session.answered and not session.busy:
            self.hall.reply(session, Ack(ts=self.hall.timestamp()))

    def expect_entry(self, agent: Agent) -> Callable[[], None]:
        """The agent is about to enter a channel. The returned function is called when it has, or may not."""
        self._entering[agent] = self._entering.get(agent, 0) + 1

        def entered() -> None:
            self._entering[agent] -= 1
            if not self._entering[agent]:
                del self._entering[agent]
                done = self._entered.pop(agent, None)
                if done is not None:
                    done(None)

        return entered

    def wait_for_entries(self, agent: Agent) -> None:
        """The session of the agent waits until the agent is in all channels that it is about to enter."""

        def submit(done: Callable[[None], None], failed: Callable[[BaseException], None]) -> None:
            self._entered[agent] = done

        if agent in self._entering:
            self.hall.durable.wait_for(agent.session, submit, lambda result: None)

    # -- what a home does ----------------------------------------------------------------------------

    def enter(self, channel: Channel, agent: Agent, *, is_visitor: bool) -> None:
        """An agent that did not ask enters."""
        if not is_visitor:
            membership.arrive(self.hall, channel, agent)
            return
        membership.leave_former(self.hall, channel, agent)
        channel.enter(agent)
        channel.last_activity = self.hall.now()
        self._notices.joined(channel, agent)

    def leave(self, channel: Channel, agent: Agent, how: Depart) -> None:
        if how.is_named:
            membership.put_out(self.hall, channel, agent)
        elif how.is_visitor:
            channel.leave(agent)
            self.hall.floor.leave(agent.id, channel.name)
            self._notices.left(channel, agent)
        else:
            membership.put_out_unnamed(self.hall, channel, agent)

    def introduce(self, channel: Channel, agent: Agent) -> None:
        """Tell of the arrival of an agent of another wire, before it speaks."""
        if agent.via is not None:
            self._notices.introduce(channel, agent)
