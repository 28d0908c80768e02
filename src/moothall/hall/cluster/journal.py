"""What the hall does to a channel, noted for other nodes. A home without followers only counts it."""

from typing import TYPE_CHECKING

from moothall.hall.channels import Channel
from moothall.hall.cluster import events
from moothall.hall.cluster.elections import ChannelLog
from moothall.hall.cluster.events import (
    Claimed,
    Entered,
    Event,
    Invited,
    Left,
    Said,
    Shown,
    Told,
    Unclaimed,
    Unsaid,
)
from moothall.hall.floor import Claim
from moothall.hall.session import Agent
from moothall.wire.agentchat.codec import encode, framed
from moothall.wire.agentchat.server import Chat
from moothall.wire.outgoing import Bundle, Outgoing

if TYPE_CHECKING:
    from moothall.hall.cluster.forwarding import Forwarding


class Journal:
    def __init__(self, forwarding: "Forwarding", channel: Channel) -> None:
        self.channel = channel
        self.log: ChannelLog | None = None  # None: this node has no part in it
        self._forwarding = forwarding
        self._hall = forwarding.hall
        self._roster = forwarding.cluster.roster
        self._events: list[Event] | None = None  # what has happened in the submission that is decided
        self._done: bytes | None = None  # a record that was made here: all that it says is done already
        self._is_applying = False
        self._originals = forwarding.originals
        self._claims: dict[str, tuple[Claimed, float]] = {}  # by message, with the time since it stands

    @property
    def decides(self) -> bool:
        """True if commands about the channel run here, and at once: none that was submitted before still waits."""
        log = self.log
        return log is not None and log.decides and (self._events is not None or not log.has_waiting)

    # -- what the hall does to the channel -----------------------------------------------------------

    def _is_noting(self) -> bool:
        """True if what happens now is to be noted. A home without followers only counts it."""
        log = self.log
        if self._is_applying or log is None:
            return False
        if self._events is not None:
            return True
        if not log.decides:
            return False
        if not log.followers:
            log.skip()
            return False
        return True

    def _note(self, event: Event) -> None:
        if self._events is not None:
            self._events.append(event)
        elif self.log is not None:
            self._done = events.encode([event])
            self.log.append(self._forwarding.mark(), self._done)

    def entered(self, agent: Agent) -> None:
        if self._is_noting():
            self._note(Entered(self._roster.record_of(agent)))

    def left(self, agent: Agent) -> None:
        self._drop_claims(agent.id)
        if self._is_noting():
            self._note(Left(agent.id))

    def invited(self, agent_id: str) -> None:
        if self._is_noting():
            self._note(Invited(agent_id))

    def said(
        self, outgoing: Outgoing, but: Agent | None, author: Agent | None, asks: str, *, by_agent: bool
    ) -> None:
        if isinstance(outgoing.message, Chat):
            self._originals.note(outgoing.message, self._hall.now())
        if self._is_noting():
            text = outgoing.text or encode(outgoing.message)
            self._note(Said(text, author.id if author is not None else "", but is None, by_agent, asks))

    def _keep(self, line: Chat) -> None:
        """A line for the history alone. This node may be the home when its envelope is replayed."""
        self._originals.note(line, self._hall.now())
        self._hall.delivery.keep(self.channel, line)

    def was_said(self, line: Chat) -> bool:
        """True if the line came in an envelope that was said here before."""
        return self._originals.has(line, self._hall.now())

    def unsaid(self) -> None:
        if self._is_noting():
            self._note(Unsaid())

    def told(self, outgoing: Outgoing | Bundle, but: Agent | None) -> None:
        if self._is_noting():
            self._note(Told(framed(outgoing), but.id if but is not None else ""))

    def show(self, agent: Agent, ref: str | None) -> None:
        """An agent of another node gets the members and the history from its own node."""
        if self._is_noting():
            self._note(Shown(agent.id, ref, self._roster.arrival_of(agent)))

    def claimed(self, msg_id: str, claim: Claim) -> None:
        if self._is_noting():
            self._note(Claimed(msg_id, claim.holder, claim.started_at, claim.is_human, claim.address))

    def unclaimed(self, msg_id: str) -> None:
        if self._is_noting():
            self._note(Unclaimed(msg_id))

    def _drop_claims(self, agent_id: str) -> None:
        for msg_id in [msg_id for msg_id, (claim, _) in self._claims.items() if claim.holder == agent_id]:
            del self._claims[msg_id]
