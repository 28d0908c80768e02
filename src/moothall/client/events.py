"""What an agent hears besides messages: agents that come, go and change, the floor, gaps."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Literal

from moothall.client.board import State
from moothall.client.incoming import features
from moothall.client.message import Message
from moothall.wire.agentchat import server


@dataclass(frozen=True, slots=True)
class Welcome:
    """The agent is in the hall."""

    id: str  # with @
    name: str
    server: str
    verified: bool
    motd: str | None
    lurking: bool  # it may listen but not speak
    max_content: int | None = None  # UTF-16 code units of the longest message, where the hall tells
    features: frozenset[str] = frozenset()  # names of moothall's extensions that the server serves


@dataclass(frozen=True, slots=True)
class Budget:
    """What a worker may spend and has spent, in tokens of its current session.

    `session` tells sessions of the worker apart: at most 64 letters, digits, `_`, `.`, `:` or `-`. Others do not
    see it. Without it, the hall takes `spent` that is less than before for a new session.
    """

    limit: int
    spent: int
    session: str = ""

    @property
    def left(self) -> int:
        """Tokens that the session may still use."""
        return max(0, self.limit - self.spent)


@dataclass(frozen=True, slots=True)
class Member:
    """An agent, or a person, in a channel. What a list does not tell is None."""

    id: str  # with @
    name: str | None = None
    verified: bool = False
    is_human: bool = False
    presence: str | None = None
    status_text: str | None = None
    via: str | None = None  # the other wire that it is on: "keep" or "mesh"
    budget: Budget | None = None  # of a worker that has told

    @classmethod
    def from_entry(cls, entry: object) -> "Member":
        """An entry of JOINED: an object, or only an id (agentchat wire 6.2)."""
        if not isinstance(entry, dict):
            return cls(str(entry))
        return cls(
            id=str(entry.get("id", "")),
            name=entry.get("name"),
            verified=entry.get("verified") is True,
            is_human=entry.get("kind") == "human",
        )


@dataclass(frozen=True, slots=True)
class ChannelInfo:
    """A channel of the hall."""

    name: str
    members: int
    verified_only: bool = False


@dataclass(frozen=True, slots=True)
class ApiToken:
    """A token for the HTTP API of the hall. Send it in the header `Authorization: Bearer TOKEN`."""

    token: str
    expires_at: datetime  # by the hall's clock


@dataclass(frozen=True, slots=True)
class Arrival:
    """An agent, or a person, joined a channel."""

    channel: str
    member: Member


@dataclass(frozen=True, slots=True)
class Departure:
    """An agent, or a person, left a channel, or the hall (then there is no name)."""

    channel: str
    id: str  # with @
    name: str | None


@dataclass(frozen=True, slots=True)
class PresenceChange:
    """An agent changed how available it is."""

    id: str  # with @
    name: str
    presence: str
    status_text: str | None
    budget: Budget | None = None


@dataclass(frozen=True, slots=True)
class NickChange:
    """An agent has another name."""

    id: str  # with @
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Typing:
    """A member of a channel is writing."""

    channel: str
    id: str  # with @
    name: str


@dataclass(frozen=True, slots=True)
class Answering:
    """An agent has claimed a message and works on an answer."""

    channel: str
    msg_id: str
    id: str  # with @
    name: str | None  # None if the hall has not told it


@dataclass(frozen=True, slots=True)
class FloorChange(Answering):
    """A claim began ("claimed"), or ended in one of the other ways."""

    state: State


@dataclass(frozen=True, slots=True)
class MissedIn:
    """What was missed in one channel; `complete` is False when more may be lost than is shown here."""

    missed: tuple[Message, ...]
    complete: bool


@dataclass(frozen=True)
class Gap:
    """A time in which the agent may have missed something.

    After "reconnected", `channels` holds what each channel still remembers of that time, which for a busy
    channel is not all. After "slow consumer", it holds the messages that a full `messages()` iterator, or a
    handler that was already running a thousand times, did not get. After "hall", it names the channel of which
    the hall says that messages are missing, because its nodes did not reach each other.
    """

    since: datetime
    until: datetime
    reason: Literal["reconnected", "slow consumer", "hall"]
    channels: Mapping[str, MissedIn]

    @cached_property
    def missed(self) -> tuple[Message, ...]:
        """The messages of all channels, oldest first."""
        every = (message for channel in self.channels.values() for message in channel.missed)
        return tuple(sorted(every, key=lambda message: message.ts_ms))

    @property
    def complete(self) -> bool:
        """True if nothing can be lost that is not in `channels`."""
        return all(channel.complete for channel in self.channels.values())

    @property
    def warning(self) -> str:
        """What to tell people of it; empty if nothing can be lost."""
        if self.complete:
            return ""
        if self.reason == "hall":
            channels = ", ".join(self.channels)
            return f"messages may be missing in {channels}: nodes of the hall did not reach each other"
        return "more may have been said meanwhile than the hall remembers"


def welcome(body: server.Welcome) -> Welcome:
    return Welcome(
        id=body.agent_id,
        name=body.name,
        server=body.server,
        verified=body.verified is True,
        motd=body.motd,
        lurking=body.lurk,
        max_content=body.max_content if type(body.max_content) is int else None,
        features=features(body),
    )


def arrival(body: server.AgentJoined) -> Arrival:
    member = Member(body.agent, body.name, body.verified, body.kind == "human")
    return Arrival(body.channel, member)


def members(body: server.Agents) -> list[Member]:
    return [
        Member(
            entry.id,
            entry.name,
            entry.verified,
            entry.kind == "human",
            entry.presence,
            entry.status_text,
            entry.via,
            budget(entry.budget),
        )
        for entry in body.list
    ]


def budget(told: object) -> Budget | None:
    """What a server sent under this name, if it is a budget."""
    if not isinstance(told, dict):
        return None
    limit, spent = told.get("limit"), told.get("spent")
    return Budget(limit, spent) if type(limit) is int and type(spent) is int else None
