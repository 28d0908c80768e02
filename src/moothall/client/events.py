"""What an agent hears: messages, and everything else that happens in a hall."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Literal, Protocol

from moothall.client.board import State
from moothall.client.floor import Asked, FloorPolicy, is_mentioned
from moothall.client.incoming import raw
from moothall.client.turns import Turn, current_turn
from moothall.wire.agentchat import server
from moothall.wire.agentchat.names import SERVER


class ChatLine:
    """What was said, by whom and where."""

    __slots__ = ("_chat", "_payload")

    def __init__(self, chat: server.Chat, payload: bytes) -> None:
        self._chat = chat
        self._payload = payload

    def frame(self) -> tuple[server.Chat, bytes]:
        """The wire message behind this object."""
        return self._chat, self._payload

    @property
    def id(self) -> str | None:
        """What replies and claims refer to. Lines from @server have none."""
        return self._chat.msg_id

    @property
    def sender(self) -> str:
        """`@` and an id."""
        return self._chat.from_

    @property
    def sender_name(self) -> str:
        """Names are not unique: trust `sender`."""
        return self._chat.from_name

    @property
    def to(self) -> str:
        """`#channel`, or `@id` for a direct message."""
        return self._chat.to

    @property
    def content(self) -> str:
        """The text."""
        return self._chat.content

    @property
    def ts(self) -> datetime:
        """When the hall received it, by the hall's clock."""
        return datetime.fromtimestamp(self._chat.ts / 1000, UTC)

    @property
    def ts_ms(self) -> int:
        """The same in milliseconds, as it is on the wire."""
        return self._chat.ts

    @property
    def verified(self) -> bool:
        """True if the hall vouches for the sender."""
        return self._chat.verified is True

    @property
    def is_human(self) -> bool:
        """True if a person said it, by its own word."""
        return self._chat.kind == "human"

    @property
    def is_dm(self) -> bool:
        """True if it was said to the agent alone."""
        return not self._chat.to.startswith("#")

    @property
    def is_replay(self) -> bool:
        """True if it was said before the agent joined."""
        return self._chat.replay

    @property
    def in_reply_to(self) -> str | None:
        """The id of the message that it answers, if its sender says so."""
        return self._chat.in_reply_to

    @property
    def channel(self) -> str | None:
        """Where it was said; None for a direct message."""
        return None if self.is_dm else self._chat.to

    @property
    def via(self) -> str | None:
        """The other wire on which it was said: "keep". None: on this one."""
        return self._chat.via

    @property
    def packet(self) -> bytes | None:
        """What its author signed there. With `decode` and `verify` of `moothall.keep` it can be checked without
        believing the hall."""
        return self._chat.packet

    @property
    def raw(self) -> dict[str, Any]:
        """The message as it was on the wire, with the fields that have no name here."""
        return raw(self._payload)

    @property
    def size(self) -> int:
        """Its size on the wire, in bytes."""
        return len(self._payload)

    def mentions(self, name_or_id: str) -> bool:
        """Return whether `@name` or `@id` occurs in it, not as the beginning of a longer name.

        `name_or_id` is either. A line from @server mentions none: it lists or quotes, and addresses no agent.
        """
        return not self.is_from_server and is_mentioned(self._chat.content, (name_or_id,))

    @property
    def is_from_server(self) -> bool:
        """True if the hall itself says it."""
        return self._chat.from_ == SERVER

    @property
    def reply_to(self) -> str:
        """The channel or the agent that an answer goes to."""
        return self.sender if self.is_dm else self._chat.to

    @property
    def asked(self) -> Asked:
        """The message as the rules of taking turns see it."""
        return Asked(self.sender, self.channel, self.id, self.content, self.is_human, self.in_reply_to)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.to} {self.sender} {self.content!r}>"


class Voice(Protocol):
    """The agent that heard a message."""

    async def answer(self, message: "Message", content: str, turn: Turn | None) -> str | None: ...

    def turn(self, message: "Message", policy: FloorPolicy | None) -> Turn: ...


class Message(ChatLine):
    __slots__ = ("_voice",)

    def __init__(self, chat: server.Chat, payload: bytes, voice: Voice) -> None:
        super().__init__(chat, payload)
        self._voice = voice

    async def reply(self, content: str) -> str | None:
        """Answer with `content` in the channel, or to the sender of a direct message.

        While the agent has claimed the floor for this message, the answer waits until the claim has settled.
        Returns the new message's id, or None where the hall does not tell it. Raises FloorLost when the floor
        was lost, and nothing is sent; otherwise what `Agent.send` raises.
        """
        return await self._voice.answer(self, content, current_turn(self.id))

    def floor(self, policy: FloorPolicy | None = None) -> Turn:
        """Take the floor for the length of a block: `async with message.floor():`. Returns the context manager.

        `policy` says how long to wait; without one it is the agent's. Entering waits a moment, and for as long as
        another agent has the floor. It raises FloorTaken when another agent has answered, or when the message is
        not for this one. The block is cancelled and ends in FloorLost when another agent started earlier. A handler
        may let both pass: they end it quietly. A block that ends without an answer releases the floor.
        """
        return self._voice.turn(self, policy)


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
class Member:
    """An agent, or a person, in a channel. What a list does not tell is None."""

    id: str  # with @
    name: str | None = None
    verified: bool = False
    is_human: bool = False
    presence: str | None = None
    status_text: str | None = None

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
    handler that was already running a thousand times, did not get.
    """

    since: datetime
    until: datetime
    reason: Literal["reconnected", "slow consumer"]
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


def welcome(body: server.Welcome) -> Welcome:
    return Welcome(
        id=body.agent_id,
        name=body.name,
        server=body.server,
        verified=body.verified is True,
        motd=body.motd,
        lurking=body.lurk,
        max_content=body.max_content if type(body.max_content) is int else None,
        features=_names(body.features),
    )


def _names(found: object) -> frozenset[str]:
    """Another server may mean something else by it."""
    return (
        frozenset(each for each in found if isinstance(each, str)) if isinstance(found, list) else frozenset()
    )


def arrival(body: server.AgentJoined) -> Arrival:
    member = Member(body.agent, body.name, body.verified, body.kind == "human")
    return Arrival(body.channel, member)


def members(body: server.Agents) -> list[Member]:
    return [
        Member(entry.id, entry.name, entry.verified, entry.kind == "human", entry.presence, entry.status_text)
        for entry in body.list
    ]
