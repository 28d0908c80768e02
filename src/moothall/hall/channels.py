"""Channels: who is in which, who may enter, and what was said lately (seed 000, join channels).

Membership is kept on both sides, in the channel and in the agent, and only `enter` and `leave` touch it. Members
with a WebSocket of their own are watchers: they are told of everything. Members of another wire are told of chat
only, and through their relay, so that a notice costs nothing for them, however many they are.

A channel stays when its last member leaves, with what was said in it. But a name costs its
maker nothing, so the number of channels is limited: at the limit a new channel replaces an empty one.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from heapq import nsmallest
from typing import TYPE_CHECKING, Final

from moothall.errors import ChannelExists, ChannelNotFound
from moothall.hall.history import History
from moothall.hall.outside import Relay
from moothall.hall.session import Agent
from moothall.hall.shared_memory import SharedMemory
from moothall.wire.agentchat.server import Chat

if TYPE_CHECKING:
    from moothall.hall.cluster.rooms import ChannelRoom

# In a hall of several nodes, the registry says whether a channel is gone. It answers sooner than this.
LEAVING_SECONDS: Final = 5.0


class Channel:
    __slots__ = (
        "buffer",
        "counted",
        "elsewhere",
        "invite_only",
        "invited",
        "is_public",
        "last_activity",
        "leaves_until",
        "log",
        "made_by",
        "members",
        "name",
        "nudge",
        "occupied",
        "on_demand",
        "relays",
        "unannounced",
        "verified_only",
        "watchers",
    )

    def __init__(
        self,
        name: str,
        buffer: History,
        now: float,
        *,
        invite_only: bool = False,
        verified_only: bool = False,
        on_demand: bool = False,
        made_by: str | None = None,
        occupied: Iterable[Callable[["Channel"], None]] = (),
    ) -> None:
        self.name = name
        self.occupied = occupied  # called when the first member has entered, and when the last has left
        self.made_by = made_by  # the address of its maker; None: the hall made it, and it stays
        self.on_demand = on_demand  # can be joined at any time, and is shown while it has members
        self.invite_only = invite_only
        self.verified_only = verified_only
        self.is_public = not (invite_only or verified_only)  # any agent may enter
        self.invited: set[str] = set()
        self.members: dict[str, Agent] = {}
        self.watchers: dict[str, Agent] = {}
        self.relays: dict[Relay, int] = {}  # with the number of their agents that are members
        self.unannounced: set[str] = set()  # ids of members whose arrival the watchers are yet to be told
        self.buffer = buffer
        self.last_activity = now
        self.leaves_until = 0.0  # it makes way for another channel: until then it counts as gone
        self.nudge: Chat | None = None  # the last idle prompt
        # In a hall of several nodes: what they know of each other's members and lines.
        self.log: ChannelRoom | None = None
        self.elsewhere = 0  # members that are connected to other nodes
        self.counted = 0  # members, as the home of the channel has said last

    @property
    def is_shown(self) -> bool:
        return not self.on_demand or self.size > 0

    @property
    def size(self) -> int:
        """The number of members, on all nodes."""
        return len(self.members) or self.counted

    def has(self, agent: Agent) -> bool:
        """True if it is a member. An earlier connection of its id is another agent: its node may have yet to say
        that it is gone."""
        return self.members.get(agent.id) is agent

    def enter(self, agent: Agent) -> None:
        self.members[agent.id] = agent
        if agent.session.is_remote:
            self.elsewhere += 1
        elif agent.relay is None:
            self.watchers[agent.id] = agent
        else:
            self.relays[agent.relay] = self.relays.get(agent.relay, 0) + 1
        agent.channels[self.name] = self
        if self.log is not None:
            self.log.entered(agent)
        if len(self.members) == 1:
            self._tell_occupied()

    def leave(self, agent: Agent) -> None:
        del self.members[agent.id]
        if agent.session.is_remote:
            self.elsewhere -= 1
        elif agent.relay is None:
            del self.watchers[agent.id]
        elif self.relays[agent.relay] > 1:
            self.relays[agent.relay] -= 1
        else:
            del self.relays[agent.relay]
        del agent.channels[self.name]
        if self.log is not None:
            self.log.left(agent)
        if not self.members:
            self._tell_occupied()

    def _tell_occupied(self) -> None:
        for told in self.occupied:
            told(self)

    @property
    def watched(self) -> int:
        """How many agents are told of what happens here, on all nodes."""
        return len(self.watchers) + self.elsewhere

    @property
    def away(self) -> int:
        """How many members other nodes have; as the home said last, if this node does not follow the channel."""
        return self.elsewhere if self.log is None or self.log.is_known else self.counted

    @property
    def audience(self) -> int:
        """How many connections get a line of this channel."""
        return len(self.watchers) + len(self.relays) + self.elsewhere


class Channels:
    """All channels, in the order of their making."""

    def __init__(self, buffer_size: int, memory: SharedMemory) -> None:
        self._buffer_size = buffer_size
        self.memory = memory
        self._by_name: dict[str, Channel] = {}
        self._openings: list[Callable[[Channel], None]] = []
        self._occupied: list[Callable[[Channel], None]] = []
        self._removals: list[Callable[[Channel], None]] = []
        self._made: Counter[str] = Counter()  # how many there are, by the address of who made them
        self._leaving: dict[Channel, None] = {}  # that make way, and are not gone yet

    def __iter__(self) -> Iterator[Channel]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, name: str) -> Channel | None:
        return self._by_name.get(name)

    def find(self, name: str) -> Channel:
        channel = self._by_name.get(name)
        if channel is None:
            raise ChannelNotFound(f"There is no channel {name}")
        return channel

    def create(
        self,
        name: str,
        now: float,
        *,
        invite_only: bool = False,
        verified_only: bool = False,
        on_demand: bool = False,
        made_by: str | None = None,
    ) -> Channel:
        if name in self._by_name:
            raise ChannelExists(f"Channel {name} exists already")
        channel = Channel(
            name,
            History(self.memory, self._buffer_size),
            now,
            invite_only=invite_only,
            verified_only=verified_only,
            on_demand=on_demand,
            made_by=made_by,
            occupied=self._occupied,
        )
        self._by_name[name] = channel
        if made_by is not None:
            self._made[made_by] += 1
        for told in self._openings:
            told(channel)
        return channel

    def on_opening(self, told: Callable[[Channel], None]) -> None:
        """Call `told` after a channel was made."""
        self._openings.append(told)

    def on_occupied(self, told: Callable[[Channel], None]) -> None:
        """Call `told` with a channel when its first member has entered, and when its last has left."""
        self._occupied.append(told)

    def on_removal(self, told: Callable[[Channel], None]) -> None:
        """Call `told` after a channel was removed."""
        self._removals.append(told)

    def made_by(self, address: str) -> int:
        return self._made[address]

    def count(self, now: float, address: str | None = None) -> int:
        """How many channels there are, or were made from this address, without those that make way."""
        for channel in [each for each in self._leaving if not _is_leaving(each, now)]:
            del self._leaving[channel]
        every = len(self._by_name) if address is None else self._made[address]
        return every - sum(address in (None, channel.made_by) for channel in self._leaving)

    def make_room(self, now: float, wanted: int, address: str | None = None) -> bool:
        """Remove so many empty channels, of this address if it is given. False when there are too few of them.

        The address that made most channels loses one first, so that a flood of them does not remove others.
        Of its channels, one without messages goes first, then the one that was quiet the longest.
        """
        vacant = [
            channel
            for channel in self._by_name.values()
            if not channel.size
            and channel.made_by is not None
            and address in (None, channel.made_by)
            and not _is_leaving(channel, now)
        ]
        if len(vacant) < wanted:
            return False
        for channel in nsmallest(wanted, vacant, key=self._worth):
            if channel.log is None:
                self.remove(channel)
                continue
            channel.leaves_until = now + LEAVING_SECONDS
            self._leaving[channel] = None
            channel.log.discard()
        return True

    def _worth(self, channel: Channel) -> tuple[int, bool, float]:
        return (-self._made[channel.made_by or ""], bool(channel.buffer), channel.last_activity)

    def remove(self, channel: Channel) -> None:
        del self._by_name[channel.name]
        self._leaving.pop(channel, None)
        self.memory.discard(channel.buffer)
        if channel.made_by is not None:
            self._made[channel.made_by] -= 1
            if not self._made[channel.made_by]:
                del self._made[channel.made_by]
        for told in self._removals:
            told(channel)

    def shared_with(self, agent: Agent) -> list[Agent]:
        """All other watchers of the channels that this agent is in, once."""
        others: dict[str, Agent] = {}
        for channel in agent.channels.values():
            others.update(channel.watchers)
        others.pop(agent.id, None)
        return list(others.values())


def _is_leaving(channel: Channel, now: float) -> bool:
    """False as well, if an agent has entered it meanwhile: then it stays."""
    return channel.leaves_until > now and not channel.size
