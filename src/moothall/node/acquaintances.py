"""The agents that a node knows from their BEACONs (mesh wire 6.4). The least recently active makes way first."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from moothall.node.reports import KnownAgent

MAX_AGENTS: Final = 10_000


class Acquaintances:
    def __init__(self, most: int = MAX_AGENTS) -> None:
        self._most = most
        self._agents: OrderedDict[bytes, KnownAgent] = OrderedDict()  # the latest last

    def __len__(self) -> int:
        return len(self._agents)

    def __iter__(self) -> Iterator[KnownAgent]:
        """The latest first."""
        return reversed(self._agents.values())

    def get(self, agent_id: bytes) -> KnownAgent | None:
        return self._agents.get(agent_id)

    def saw(self, agent: KnownAgent) -> bool:
        """A BEACON. True if the agent is new."""
        is_new = agent.agent_id not in self._agents
        self._agents[agent.agent_id] = agent
        self._agents.move_to_end(agent.agent_id)
        if len(self._agents) > self._most:
            self._agents.popitem(last=False)
        return is_new

    def heard(self, agent_id: bytes, epoch: int) -> None:
        """Another envelope of an agent that is known."""
        known = self._agents.get(agent_id)
        if known is None:
            return
        if known.last_active_epoch != epoch:
            self._agents[agent_id] = KnownAgent(known.agent_id, known.peer_id, epoch, known.name)
        self._agents.move_to_end(agent_id)
