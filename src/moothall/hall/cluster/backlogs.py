"""Agents that do not read: the other nodes send them no files and no offers for a while.

An agent gets FILE_CHUNK and PROPOSAL unasked, and both are refused when half of its outbox is full (`hall.chat`,
`market.letterboxes`). Its own node knows what is unread, and other nodes do not. So its node tells them when a
quarter of the outbox is full, and again when all is read. They count a quarter as all: they do not know what
is on its way. Chunks that come too fast even for that are dropped at the own node: a receiver asks for them again.
"""

from typing import TYPE_CHECKING, ClassVar, Final

from moothall.hall.session import Agent
from moothall.wire.bus import EVERY_NODE, BusMessage

if TYPE_CHECKING:
    from moothall.hall.cluster.cluster import Cluster

TOLD_SHARE: Final = 4  # of its outbox that an agent has unread when the other nodes are told of it
# A report that the backlog is over may be lost. So a node believes in a backlog for this long, and is told again
# before that.
LASTS: Final = 10.0


class Backlog(BusMessage, frozen=True):
    """So many bytes for this agent are unread."""

    KIND: ClassVar = "agent-backlog"

    id: str
    unread: int


class Backlogs:
    """Of the agents of this node."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._hall = cluster.hall
        self._told: dict[str, float] = {}  # when the other nodes were told, by agent

    def look(self, agent: Agent) -> None:
        """Something was put for an agent of this node."""
        unread = agent.link.unread
        if unread <= self._hall.settings.outbox_limit // TOLD_SHARE:
            return
        now, told_at = self._hall.now(), self._told.get(agent.id)
        if told_at is not None and now - told_at < LASTS / 2:
            return
        self._told[agent.id] = now
        self._publish(agent.id, unread)
        if told_at is None:
            agent.link.when_written(lambda is_written: self._end(agent.id))

    def takes_chunk(self, agent: Agent) -> bool:
        """False: so many chunks came at once that one more might close the connection."""
        limit = self._hall.settings.outbox_limit
        return agent.link.unread <= limit - limit // TOLD_SHARE

    def _end(self, agent_id: str) -> None:
        if self._told.pop(agent_id, None) is not None:
            self._publish(agent_id, 0)

    def _publish(self, agent_id: str, unread: int) -> None:
        self._cluster.publish(EVERY_NODE, Backlog(agent_id, unread))
