"""Keeping order, for halls that want it: what moderators think of a message, and what offences lead to.

The rules are in `moderation`; here they meet the wire. Running into a rate limit is an offence, and so is a
message that a moderator objects to.
"""

from typing import TYPE_CHECKING, Final

from moothall.errors import NotAllowed
from moothall.hall.moderation import Action, Escalation, Pipeline, Post
from moothall.hall.session import Agent
from moothall.wire.agentchat.names import SERVER
from moothall.wire.agentchat.server import Chat, Kicked
from moothall.wire.websocket import NORMAL

if TYPE_CHECKING:
    from moothall.hall.hall import Hall

_WARNINGS: Final = {
    Action.WARN: "Please slow down: you are breaking this hall's rules",
    Action.THROTTLE: "You are throttled: leave a few seconds between messages",
    Action.TIMEOUT: "You are timed out for a minute",
}


class Order:
    def __init__(self, pipeline: Pipeline, escalation: Escalation) -> None:
        self._pipeline = pipeline
        self._escalation = escalation

    def review(self, hall: "Hall", agent: Agent, content: str, channel: str | None) -> None:
        """Let a message through, or refuse it."""
        now = hall.now()
        standing = self._escalation.admit(agent.id, now)
        if standing is not Action.ALLOW:
            raise NotAllowed(_WARNINGS[standing])
        age = hall.clock.time() - agent.session.connected_at
        post = Post(agent.id, channel, content, agent.key is not None, admin=False, connected_at=now - age)
        ruling = self._pipeline.review(post, now)
        if ruling.action is Action.ALLOW:
            return
        hall.note(
            "moderated",
            ip=agent.session.ip,
            agent=agent.id,
            action=ruling.action.name,
            moderator=ruling.moderator,
        )
        if ruling.action is Action.KICK:
            self._kick(hall, agent, ruling.reason)
        else:
            self.offence(hall, agent)
        if agent.session.closed:
            raise NotAllowed("You were kicked from this hall by moderation")
        if ruling.action >= Action.THROTTLE:
            raise NotAllowed(ruling.reason or _WARNINGS.get(ruling.action, "Moderation refused this message"))
        self._warn(hall, agent, ruling.reason)

    def offence(self, hall: "Hall", agent: Agent) -> None:
        action = self._escalation.violation(agent.id, hall.now())
        if action is Action.KICK:
            self._kick(hall, agent, "Too many offences")
        elif action is not Action.ALLOW:
            hall.note("escalated", ip=agent.session.ip, agent=agent.id, action=action.name)
            self._warn(hall, agent, _WARNINGS[action])

    def _warn(self, hall: "Hall", agent: Agent, reason: str) -> None:
        line = Chat(
            ts=hall.timestamp(),
            from_=SERVER,
            from_name="Server",
            to=agent.address,
            content=f"Warning: {reason}",
        )
        hall.tell(agent, line)

    def _kick(self, hall: "Hall", agent: Agent, reason: str) -> None:
        hall.note("kicked_by_moderation", ip=agent.session.ip, agent=agent.id)
        hall.tell(agent, Kicked(ts=hall.timestamp(), reason=reason))
        hall.close(agent.session, NORMAL, "Kicked by moderation")
