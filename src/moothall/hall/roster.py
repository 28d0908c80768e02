"""The roster: which agents are in the hall, on which node they are connected, and which key they have.

Market, court and keep know the two protocols and no more: a roster of several nodes has the same face. An
agent of another node is told through its `link` like any other. `LocalRoster` has the agents of this process.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final, Protocol, TypeVar

from moothall.hall.outside import Link
from moothall.hall.session import Agent
from moothall.identity import PublicKey
from moothall.wire.agentchat.server import Budget

Group = TypeVar("Group", str, bytes)

_NO_AGENTS: Final[Mapping[str, Agent]] = {}


class Present(Protocol):
    """An agent in the hall, on whatever node and wire."""

    @property
    def id(self) -> str: ...

    @property
    def address(self) -> str:
        """Its id with @."""

    @property
    def name(self) -> str: ...

    @property
    def key(self) -> PublicKey | None:
        """The key that it has proven."""

    @property
    def claimed_key(self) -> PublicKey | None:
        """The key that it signs with, without having proven it. It gives no right."""

    @property
    def presence(self) -> str: ...

    @property
    def status_text(self) -> str | None: ...

    @property
    def verified(self) -> bool:
        """What others are shown."""

    @property
    def kind(self) -> str | None:
        """Who it says that it is: "human", or None for a program."""

    @property
    def budget(self) -> Budget | None:
        """What it may spend and has spent, as it reported last."""

    @property
    def via(self) -> str | None:
        """The wire that it is on, if that is not the WebSocket."""

    @property
    def identity(self) -> str | None:
        """What its wire calls it, if that is not its id."""

    @property
    def node(self) -> str:
        """The node that it is connected to; `HERE` is this one.

        No room decides by it: a roster of several nodes tells its own agents from those of others with it.
        """

    @property
    def link(self) -> Link:
        """What takes messages for it, and brings them to its node."""


class Roster(Protocol):
    """Who is in the hall. The questions about one key may come from any thread."""

    def __len__(self) -> int: ...

    def get(self, agent_id: str) -> Present | None: ...

    def find(self, agent_id: str) -> Present | None:
        """The agent of this id, if it can be told something."""

    def holder(self, key: bytes) -> Present | None:
        """The agent that has proven this key."""

    def bearers(self, key: bytes) -> Collection[Present]:
        """Agents of other wires that sign with this key."""

    def named(self, name: str) -> Collection[Present]:
        """Agents of this name, in upper or lower case."""

    def everyone(self) -> Collection[Present]:
        """All agents, in the order of their arrival."""

    def is_local(self, key: bytes) -> bool:
        """True if the holder of this key is connected from the machine of its node."""

    def is_here(self, key: bytes) -> bool:
        """True if the holder of this key is connected to this node, which tells it what it missed."""

    def on_arrival(self, told: Callable[[Present], None]) -> None:
        """Call `told` after an agent of this node, of any wire, was welcomed."""

    def off_arrival(self, told: Callable[[Present], None]) -> None:
        """Call it no more."""

    def on_departure(self, told: Callable[[Present], None]) -> None:
        """Call `told` before an agent of this node is gone."""

    def on_arrival_elsewhere(self, told: Callable[[Present], None]) -> None:
        """Call `told` after an agent of another node is in the roster."""

    def on_departure_elsewhere(self, told: Callable[[Present], None]) -> None:
        """Call `told` before an agent of another node is gone."""


class LocalRoster:
    """The agents of this process. The hall itself reads the dictionaries; only this class changes them."""

    def __init__(self) -> None:
        self.agents: Final[dict[str, Agent]] = {}
        self.by_key: Final[dict[bytes, Agent]] = {}
        self._bearers: dict[bytes, dict[str, Agent]] = {}  # agents that only claim a key, by key and id
        # By the name in lower case, then by id. Few halls are ever asked for a name: None until the first question.
        self._by_name: dict[str, dict[str, Agent]] | None = None
        self._arrivals: list[Callable[[Agent], None]] = []
        self._departures: list[Callable[[Agent], None]] = []
        self._presences: list[Callable[[Agent], None]] = []
        self._changes: list[Callable[[Agent], None]] = []
        self._arrivals_elsewhere: list[Callable[[Agent], None]] = []
        self._departures_elsewhere: list[Callable[[Agent], None]] = []

    # -- who is here -------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.agents)

    def get(self, agent_id: str) -> Agent | None:
        return self.agents.get(agent_id)

    def find(self, agent_id: str) -> Agent | None:
        agent = self.agents.get(agent_id)
        if agent is not None and agent.relay is not None and agent.relay.is_gone:
            return None
        return agent

    def holder(self, key: bytes) -> Agent | None:
        return self.by_key.get(key)

    def bearers(self, key: bytes) -> Collection[Agent]:
        return self._bearers.get(key, _NO_AGENTS).values()

    def named(self, name: str) -> Collection[Agent]:
        by_name = self._by_name
        if by_name is None:
            by_name = self._by_name = {}
            for agent in self.agents.values():
                by_name.setdefault(agent.name.lower(), {})[agent.id] = agent
        return by_name.get(name.lower(), _NO_AGENTS).values()

    def everyone(self) -> Collection[Agent]:
        return self.agents.values()

    def is_local(self, key: bytes) -> bool:
        agent = self.by_key.get(key)
        return agent is not None and not agent.session.counted

    def count_here(self) -> int:
        """The number of agents that are connected to this node."""
        return sum(not agent.session.is_remote for agent in self.agents.values())

    def is_here(self, key: bytes) -> bool:
        """True if the holder of this key is connected to this node."""
        agent = self.by_key.get(key)
        return agent is not None and not agent.session.is_remote

    # -- coming and going --------------------------------------------------------------------------

    def add(self, agent: Agent) -> None:
        self.agents[agent.id] = agent
        if self._by_name is not None:
            self._by_name.setdefault(agent.name.lower(), {})[agent.id] = agent
        if agent.key is not None:
            self.by_key[agent.key.raw] = agent
        if agent.claimed_key is not None:
            self._bearers.setdefault(agent.claimed_key.raw, {})[agent.id] = agent

    def rename(self, agent: Agent, name: str) -> None:
        if self._by_name is not None:
            _forget(self._by_name, agent.name.lower(), agent)
            self._by_name.setdefault(name.lower(), {})[agent.id] = agent
        agent.name = name
        self.changed(agent)

    def remove(self, agent: Agent) -> None:
        """Remove the agent, unless another one has its id now."""
        if self.agents.get(agent.id) is not agent:
            return
        del self.agents[agent.id]
        if self._by_name is not None:
            _forget(self._by_name, agent.name.lower(), agent)
        if agent.key is not None:
            del self.by_key[agent.key.raw]
        if agent.claimed_key is not None:
            _forget(self._bearers, agent.claimed_key.raw, agent)

    # -- events ------------------------------------------------------------------------------------

    def on_arrival(self, told: Callable[[Agent], None]) -> None:
        self._arrivals.append(told)

    def off_arrival(self, told: Callable[[Agent], None]) -> None:
        self._arrivals.remove(told)

    def on_departure(self, told: Callable[[Agent], None]) -> None:
        self._departures.append(told)

    def on_arrival_elsewhere(self, told: Callable[[Agent], None]) -> None:
        self._arrivals_elsewhere.append(told)

    def on_departure_elsewhere(self, told: Callable[[Agent], None]) -> None:
        self._departures_elsewhere.append(told)

    def on_presence(self, told: Callable[[Agent], None]) -> None:
        """Call `told` after an agent has changed its presence."""
        self._presences.append(told)

    def on_change(self, told: Callable[[Agent], None]) -> None:
        """Call `told` after anything has changed that others are shown of an agent."""
        self._changes.append(told)

    def arrived(self, agent: Agent) -> None:
        """The agent was added, and its wire has welcomed it."""
        for told in self._arrivals:
            told(agent)

    def departing(self, agent: Agent) -> None:
        """The agent is about to be removed."""
        for told in self._departures:
            told(agent)

    def arrived_elsewhere(self, agent: Agent) -> None:
        for told in self._arrivals_elsewhere:
            told(agent)

    def departing_elsewhere(self, agent: Agent) -> None:
        for told in self._departures_elsewhere:
            told(agent)

    def presence_changed(self, agent: Agent) -> None:
        for told in self._presences:
            told(agent)

    def changed(self, agent: Agent) -> None:
        for told in self._changes:
            told(agent)


def _forget(groups: dict[Group, dict[str, Agent]], of: Group, agent: Agent) -> None:
    """Remove the agent from its group, and the group with its last agent."""
    group = groups[of]
    del group[agent.id]
    if not group:
        del groups[of]
