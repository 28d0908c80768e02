"""Delivery: bring a message to agents, to the members of a channel, or to a key, wherever they are connected.

Market, court and keep know the protocol and no more: a hall of several nodes has the same face. Every agent has a
link, and a link brings messages to its own connection. So what is told to many is one `Outgoing`, encoded once.
`LocalDelivery` serves the agents of this process.
"""

from collections.abc import Callable, Iterable
from sys import getsizeof
from typing import Protocol

from moothall.hall.channels import Channel
from moothall.hall.counts import Tally
from moothall.hall.delivery_receipts import AsksReceipts
from moothall.hall.floor import Exemptions
from moothall.hall.roster import LocalRoster, Present
from moothall.hall.session import HERE, Agent, Session
from moothall.wire.agentchat.codec import framed
from moothall.wire.agentchat.server import Chat, ServerMessage
from moothall.wire.outgoing import Bundle, Outgoing


class Delivery(Protocol):
    """Messages that are not the answer to a command. Nothing here waits."""

    def tell(self, agent: Present, message: ServerMessage) -> bool:
        """True if the message was handed to the agent's connection, or is on its way to its node.

        False: the agent has left, or its node cannot be reached.
        """

    def tell_keys(self, keys: Iterable[bytes], message: ServerMessage, actor: Session | None = None) -> None:
        """Tell the agents that have proven these keys. For `actor` it is the answer to its command."""

    def spread(self, channel: Channel, outgoing: Outgoing | Bundle, but: Agent | None = None) -> None:
        """Hand a notice, or several, to the watchers of the channel."""

    def is_watched(self, channel: Channel) -> bool:
        """True if a notice of this channel has readers."""


class Onlookers(Protocol):
    """All who look at what is public (see `gallery`)."""

    def put(self, outgoing: Outgoing | Bundle) -> None: ...


class LocalDelivery:
    def __init__(self, roster: LocalRoster, tally: Tally, exemptions: Exemptions) -> None:
        self._roster = roster
        self._tally = tally
        self._exemptions = exemptions
        self.gallery: Onlookers | None = None  # while there are any
        self.reaches_others: Callable[[], bool] = lambda: True  # agents of other nodes can be told now
        self.has_letters = False  # what is told to keys goes to agents of other nodes through the store

    # -- to agents ---------------------------------------------------------------------------------

    def tell(self, agent: Present, message: ServerMessage) -> bool:
        agent.link.put(Outgoing(message))
        return self._roster.find(agent.id) is agent and (agent.node == HERE or self.reaches_others())

    def tell_all(
        self, agents: Iterable[Agent], message: ServerMessage, about: Iterable[Channel] = ()
    ) -> None:
        """`about`: channels that the message belongs to. Onlookers get it if one of them is public."""
        outgoing = Outgoing(message)
        for agent in agents:
            agent.link.put(outgoing)
        if self.gallery is not None and any(channel.is_public for channel in about):
            self.gallery.put(outgoing)

    def tell_keys(self, keys: Iterable[bytes], message: ServerMessage, actor: Session | None = None) -> None:
        outgoing, by_key = Outgoing(message), self._roster.by_key
        for key in keys:
            agent = by_key.get(key)
            if agent is None or (self.has_letters and agent.session.is_remote):
                continue
            if agent.session is actor and actor.ref is not None and not actor.answered:
                actor.answered = True
                agent.link.put(outgoing.answering(actor.ref))
            else:
                agent.link.put(outgoing)

    def forward(self, keys: Iterable[bytes], outgoing: Outgoing | Bundle) -> None:
        """Hand what another hall has encoded to the agents of this one that have proven these keys."""
        for key in keys:
            agent = self._roster.by_key.get(key)
            if agent is not None and not agent.session.is_remote:
                agent.link.put(outgoing)

    def tell_sessions(self, sessions: Iterable[Session], message: ServerMessage) -> None:
        """These connections, whether they have identified or not."""
        outgoing = Outgoing(message)
        for session in sessions:
            session.link.put(outgoing)

    def proclaim(self, sessions: Iterable[Session], message: ServerMessage) -> None:
        """The same, and all onlookers."""
        self.tell_sessions(sessions, message)
        if self.gallery is not None:
            self.gallery.put(Outgoing(message))

    # -- to channels -------------------------------------------------------------------------------

    def broadcast(self, channel: Channel, message: ServerMessage, but: Agent | None = None) -> None:
        """A notice, for the watchers of the channel. Lines for all of its members go through `say`."""
        self.spread(channel, Outgoing(message), but)
        self._count(len(channel.watchers))

    def broadcast_here(self, channel: Channel, message: ServerMessage, but: Agent | None = None) -> None:
        """A notice that each node tells the watchers that it has."""
        self.spread_here(channel, Outgoing(message), but)
        self._count(len(channel.watchers))

    def say(
        self,
        channel: Channel,
        message: Chat,
        but: Agent | None,
        *,
        by_agent: bool,
        author: Agent | None = None,
        asking: AsksReceipts | None = None,
    ) -> None:
        """A line that stays in the channel's history. `asking`: its author wants delivery receipts."""
        outgoing = Outgoing(message)
        if asking is None:
            self.spread_here(channel, outgoing, but)
        else:
            asking.spread(channel, outgoing, but)
            self._show(channel, outgoing)
        if channel.relays:
            _relay(channel, outgoing, but)
        self._count(channel.audience)
        channel.buffer.add(message, _kept_size(outgoing, message.content))
        if channel.log is not None:
            asks = asking.asks if asking is not None else ""
            channel.log.said(outgoing, but, author, asks, by_agent=by_agent)
        if message.msg_id is not None and (not by_agent or "@" in message.content):
            self._exemptions.note(message.msg_id, message.content, by_agent=by_agent)

    def keep(self, channel: Channel, message: Chat) -> None:
        """A line for the history alone: it was said before."""
        channel.buffer.add(message, _kept_size(Outgoing(message), message.content))

    def spread(self, channel: Channel, outgoing: Outgoing | Bundle, but: Agent | None = None) -> None:
        self.spread_here(channel, outgoing, but)
        if channel.log is not None:
            channel.log.told(outgoing, but)

    def spread_here(self, channel: Channel, outgoing: Outgoing | Bundle, but: Agent | None = None) -> None:
        """To the watchers that are connected to this node."""
        watchers = channel.watchers.values()
        if but is None:
            for watcher in watchers:
                watcher.link.put(outgoing)
        else:
            for watcher in watchers:
                if watcher is not but:
                    watcher.link.put(outgoing)
        if self.gallery is not None:
            self._show(channel, outgoing)

    def is_watched(self, channel: Channel) -> bool:
        return (
            bool(channel.watchers)
            or channel.elsewhere > 0
            or (self.gallery is not None and channel.is_public)
        )

    def _count(self, audience: int) -> None:
        fanout = self._tally.fanout
        fanout[audience] = fanout.get(audience, 0) + 1

    def _show(self, channel: Channel, outgoing: Outgoing | Bundle) -> None:
        if self.gallery is not None and channel.is_public:
            self.gallery.put(outgoing)


def _kept_size(outgoing: Outgoing, content: str) -> int:
    """On the WebSocket or in memory: one emoji makes a long text four times as large there."""
    size = len(framed(outgoing))
    return size if content.isascii() else max(size, getsizeof(content))


def _relay(channel: Channel, outgoing: Outgoing, but: Agent | None) -> None:
    """Once to each relay with a member other than `but`."""
    own = but.relay if but is not None else None
    for relay, members in channel.relays.items():
        if relay is not own or members > 1:
            relay.put(outgoing)
