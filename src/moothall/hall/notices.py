"""Arrivals and departures of agents of other wires, as the watchers of their channels are told of them.

One connection may bring a thousand agents in a second and take them away again in the next, so these notices have a
rate of their own: those within it are told at once, the others wait. What waits is one entry per agent and channel.
An agent that comes and goes while its arrival waits is not told of at all. Lists leave out the agents whose arrival
waits (`Channel.unannounced`), so every watcher ends with the right picture, whenever it joined.
"""

from typing import Final, NamedTuple

from moothall.hall.agenda import Appointment
from moothall.hall.channels import Channel
from moothall.hall.gate import Gate
from moothall.hall.session import Agent
from moothall.settings.limits import Rate, Window
from moothall.wire.agentchat.server import AgentJoined, AgentLeft
from moothall.wire.outgoing import Bundle, Outgoing

# For all channels together. Each notice goes to all watchers of a channel: with a thousand of them, this is about a
# tenth of what one core delivers.
NOTICES: Final = Rate(100, 1)
# Seconds between two looks at what waits; what a channel is told in one of them is one write
TICK: Final = 0.1


class _Change(NamedTuple):
    channel: Channel
    left: Agent | None  # whom the watchers take for present
    joined: Agent | None  # who is there now under the same id


class Notices:
    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._window = Window(NOTICES)
        self._waiting: dict[tuple[str, str], _Change] = {}  # by channel and agent id, the oldest first
        self._planned: Appointment | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def joined(self, channel: Channel, agent: Agent) -> None:
        """The agent is in the channel now."""
        place = (channel.name, agent.id)
        if not self._gate.delivery.is_watched(channel):
            self._waiting.pop(place, None)
            return
        before = self._waiting.get(place)
        change = _Change(channel, before.left if before is not None else None, agent)
        if before is None and self._may_tell():
            self._tell(channel, _notices(self._gate, change))
            return
        self._waiting[place] = change
        channel.unannounced.add(agent.id)
        self._plan()

    def left(self, channel: Channel, agent: Agent) -> None:
        """The agent is no longer in the channel."""
        channel.unannounced.discard(agent.id)
        place = (channel.name, agent.id)
        before = self._waiting.get(place)
        if before is not None and before.left is None:
            del self._waiting[place]  # it came and went before anyone was told
        elif self._gate.delivery.is_watched(channel):
            change = _Change(channel, agent if before is None else before.left, None)
            if before is None and self._may_tell():
                self._tell(channel, _notices(self._gate, change))
            else:
                self._waiting[place] = change
                self._plan()
        elif before is not None:
            del self._waiting[place]

    def introduce(self, channel: Channel, agent: Agent) -> None:
        """Tell now of an arrival that waits: the agent is about to speak."""
        change = self._waiting.pop((channel.name, agent.id), None)
        if change is not None:
            channel.unannounced.discard(agent.id)
            self._tell(channel, _notices(self._gate, change))

    def _may_tell(self) -> bool:
        """A notice does not overtake those that wait."""
        return not self._waiting and self._window.admit(self._gate.now())

    def _plan(self) -> None:
        if self._planned is None:
            self._planned = self._gate.agenda.at(self._gate.now() + TICK, self._catch_up)

    def _catch_up(self) -> None:
        self._planned = None
        told: dict[Channel, list[Outgoing]] = {}
        waiting, now = self._waiting, self._gate.now()
        while waiting and self._window.admit(now):
            change = waiting.pop(next(iter(waiting)))
            if change.joined is not None:
                change.channel.unannounced.discard(change.joined.id)
            told.setdefault(change.channel, []).extend(_notices(self._gate, change))
        for channel, notices in told.items():
            self._tell(channel, notices)
        if waiting:
            self._plan()

    def _tell(self, channel: Channel, notices: list[Outgoing]) -> None:
        self._gate.delivery.spread(channel, Bundle(notices))


def _notices(gate: Gate, change: _Change) -> list[Outgoing]:
    channel, left, joined = change
    notices, now = [], gate.timestamp()
    if left is not None:
        notices.append(Outgoing(AgentLeft(ts=now, channel=channel.name, agent=left.address)))
    if joined is not None:
        arrival = AgentJoined(
            ts=now,
            channel=channel.name,
            agent=joined.address,
            name=joined.name,
            verified=joined.verified,
            kind=joined.kind,
        )
        notices.append(Outgoing(arrival))
    return notices
