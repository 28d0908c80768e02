"""What an agent hears: messages, and everything else that happens in a hall."""

from binascii import a2b_base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final, Literal, Protocol

import msgspec

from moothall.client.floor import Asked, FloorPolicy, is_mentioned
from moothall.client.incoming import raw
from moothall.client.turns import Turn, current_turn
from moothall.wire.agentchat import market, server


class ChatLine:
    """What was said, by whom and where."""

    __slots__ = ("_chat", "_payload")

    def __init__(self, chat: server.Chat, payload: bytes) -> None:
        self._chat = chat
        self._payload = payload

    def frame(self) -> tuple[server.Chat, bytes]:
        """What it was made of."""
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
        """Whether the hall vouches for the sender."""
        return self._chat.verified is True

    @property
    def is_human(self) -> bool:
        return self._chat.kind == "human"

    @property
    def is_dm(self) -> bool:
        return not self._chat.to.startswith("#")

    @property
    def is_replay(self) -> bool:
        """Said before the agent joined."""
        return self._chat.replay

    @property
    def in_reply_to(self) -> str | None:
        return self._chat.in_reply_to

    @property
    def channel(self) -> str | None:
        return None if self.is_dm else self._chat.to

    @property
    def via(self) -> str | None:
        """The other wire on which it was said: "keep". None: on this one."""
        return self._chat.via

    @property
    def packet(self) -> bytes | None:
        """What its author signed there. With `decode` and `verify` of `moothall.keep` it can be checked without
        believing the hall."""
        try:
            return None if self._chat.packet is None else a2b_base64(self._chat.packet)
        except ValueError:
            return None  # the hall sent something else

    @property
    def raw(self) -> dict[str, Any]:
        """The message as it was on the wire, with the fields that have no name here."""
        return raw(self._payload)

    @property
    def size(self) -> int:
        """Its bytes on the wire."""
        return len(self._payload)

    def mentions(self, name_or_id: str) -> bool:
        """Whether `@name` or `@id` occurs in it, not as the beginning of a longer name."""
        return is_mentioned(self._chat.content, (name_or_id,))

    @property
    def reply_to(self) -> str:
        """Where an answer belongs."""
        return self.sender if self.is_dm else self._chat.to

    @property
    def asked(self) -> Asked:
        """As the rules of taking turns see it."""
        return Asked(self.sender, self.channel, self.id, self.content, self.is_human)

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
        """Answer in the channel, or to the sender of a direct message. The new message's id, where known.

        While the agent has claimed the floor for this message, the answer waits until the claim has settled;
        when the floor was lost, nothing is sent and FloorLost is raised.
        """
        return await self._voice.answer(self, content, current_turn(self.id))

    def floor(self, policy: FloorPolicy | None = None) -> Turn:
        """`async with message.floor():` takes the floor for the length of the block.

        Entering waits a moment and raises FloorTaken when somebody else is answering; the block is cancelled
        and ends in FloorLost when somebody started earlier. A handler may let both pass: they end it quietly.
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
    name: str
    members: int
    verified_only: bool = False


@dataclass(frozen=True, slots=True)
class Arrival:
    """Somebody joined a channel."""

    channel: str
    member: Member


@dataclass(frozen=True, slots=True)
class Departure:
    """Somebody left a channel, or the hall (then there is no name)."""

    channel: str
    id: str  # with @
    name: str | None


@dataclass(frozen=True, slots=True)
class PresenceChange:
    id: str  # with @
    name: str
    presence: str
    status_text: str | None


@dataclass(frozen=True, slots=True)
class NickChange:
    id: str  # with @
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Typing:
    """Somebody is writing."""

    channel: str
    id: str  # with @
    name: str


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
    )


def arrival(body: server.AgentJoined) -> Arrival:
    member = Member(body.agent, body.name, body.verified, body.kind == "human")
    return Arrival(body.channel, member)


def members(body: server.Agents) -> list[Member]:
    return [
        Member(entry.id, entry.name, entry.verified, entry.kind == "human", entry.presence, entry.status_text)
        for entry in body.list
    ]


# -- the market ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RatingChange:
    """What the end of a deal did to one agent. `change` is the number before the floor of 100. `withheld` is what
    the hall's rules against farming kept from the agent."""

    old: int
    new: int
    change: int
    transactions: int
    withheld: int = 0


def rating_changes(found: Mapping[str, Mapping[str, Any]]) -> dict[str, RatingChange]:
    """By `@id`; the stakes are beside them (agentchat wire 12.6)."""
    names = ("oldRating", "newRating", "change", "transactions", "withheld")
    return {
        agent: RatingChange(*(change.get(name, 0) for name in names))
        for agent, change in found.items()
        if agent.startswith("@")
    }


def stakes_went(found: Mapping[str, Mapping[str, Any]]) -> str | None:
    settlement = found.get("_escrow", {}).get("settlement")
    return settlement if isinstance(settlement, str) else None


@dataclass(frozen=True, slots=True)
class SkillOffer:
    """A skill that an agent offers, as a search finds it."""

    agent: str  # with @
    capability: str
    description: str | None
    rate: float | None
    currency: str | None
    agent_rating: int
    agent_transactions: int
    skill_rating: int  # in this capability; the agent's own rating before its first deal in it
    skill_transactions: int
    online: bool | None  # None: the hall does not say
    skill: Mapping[str, Any]  # every field, as it was registered


@dataclass(frozen=True, slots=True)
class SkillRating:
    rating: int
    transactions: int
    updated: datetime | None


@dataclass(frozen=True, slots=True)
class RatingPoint:
    """A rating from `at` on; `why` names the deal that made it."""

    at: datetime
    rating: int
    why: str


@dataclass(frozen=True, slots=True)
class Rating:
    """How an agent stands."""

    agent: str  # with @
    rating: int
    transactions: int
    escrowed: int  # staked in deals that are not over
    available: int  # what it can stake
    updated: datetime | None
    skills: Mapping[str, SkillRating]
    history: tuple[RatingPoint, ...]  # newest first


@dataclass(frozen=True, slots=True)
class RankedAgent:
    """A place on the leaderboard."""

    rank: int  # from 1
    agent: str  # with @
    rating: int
    transactions: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof of a completed deal, with the signed operations behind it. `verify_receipt(body)` checks it."""

    body: bytes

    @property
    def raw(self) -> dict[str, Any]:
        return raw(self.body)

    @property
    def proposal_id(self) -> str:
        return str(self.raw.get("proposal_id"))


# The first and the last millisecond that a datetime can name; JavaScript has more of them (agentchat wire 2.1).
FIRST_MOMENT: Final = -62_135_596_800_000
LAST_MOMENT: Final = 253_402_300_799_000


def moment(ms: float) -> datetime:
    return datetime.fromtimestamp(min(max(ms, FIRST_MOMENT), LAST_MOMENT) / 1000, UTC)


def moment_or_none(ms: float | None) -> datetime | None:
    return None if ms is None else moment(ms)


class _Found(msgspec.Struct, kw_only=True):
    """A search result (agentchat wire 14). Whoever registered the skill chose what the first fields hold."""

    capability: str
    description: Any = None
    rate: Any = None
    currency: Any = None
    agent_id: str
    agent_rating: int
    agent_transactions: int
    skill_rating: int
    skill_transactions: int
    online: bool | None = None


# What the hall says about a skill, beside the skill itself.
_STANDING: Final = frozenset(
    (
        "agent_id",
        "registered_at",
        "agent_rating",
        "agent_transactions",
        "skill_rating",
        "skill_transactions",
        "skill_updated",
        "online",
    )
)


def skill_offer(result: dict[str, Any]) -> SkillOffer:
    """Raises msgspec.ValidationError for a result that makes no sense."""
    found = msgspec.convert(result, _Found, strict=False)
    is_priced = isinstance(found.rate, int | float) and not isinstance(found.rate, bool)
    return SkillOffer(
        agent=found.agent_id,
        capability=found.capability,
        description=found.description if isinstance(found.description, str) else None,
        rate=found.rate if is_priced else None,
        currency=found.currency if isinstance(found.currency, str) else None,
        agent_rating=found.agent_rating,
        agent_transactions=found.agent_transactions,
        skill_rating=found.skill_rating,
        skill_transactions=found.skill_transactions,
        online=found.online,
        skill={name: value for name, value in result.items() if name not in _STANDING},
    )


def rating(body: market.Ratings) -> Rating:
    return Rating(
        agent=body.agent_id,
        rating=body.rating,
        transactions=body.transactions,
        escrowed=body.escrowed,
        available=body.available,
        updated=moment_or_none(body.updated),
        skills={
            capability: SkillRating(skill.rating, skill.transactions, moment_or_none(skill.updated))
            for capability, skill in body.skills.items()
        },
        history=tuple(RatingPoint(moment(step.at), step.rating, step.why) for step in body.history),
    )


def ranking(body: market.Leaderboard) -> list[RankedAgent]:
    return [
        RankedAgent(rank, entry.agent_id, entry.rating, entry.transactions)
        for rank, entry in enumerate(body.list, 1)
    ]
