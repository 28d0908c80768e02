"""What happens to an agent of the mesh besides messages of others."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from moothall.client.dispute import Dispute
    from moothall.mesh.conversation import Conversation


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of an envelope: the hall took it."""

    type: str
    nonce: int
    state: str | None = None  # of its conversation, after it
    away: bool = False  # the recipient was not connected
    stored: bool = False  # then it waits in the inbox of the recipient


@dataclass(frozen=True, slots=True)
class Disputed(Sent):
    """The hall took a DISPUTE: the parties negotiate again, or one of them goes to court."""

    conversation: "Conversation" = field(kw_only=True, repr=False, compare=False)
    reason: str = field(kw_only=True, default="")

    async def to_court(self, reason: str | None = None, *, nonce: str | None = None) -> "Dispute":
        """Take the conversation to court: see `Conversation.to_court` for `nonce`, and for what is returned and
        raised. `reason` is by default that of the DISPUTE."""
        return await self.conversation.to_court(self.reason if reason is None else reason, nonce=nonce)


@dataclass(frozen=True, slots=True)
class Found:
    """An agent that DISCOVER found in the hall's directory."""

    agent_id: str  # 64 hex digits
    name: str
    capabilities: tuple[str, ...]
    rating: int
    transactions: int
    online: bool
    advertised: dict[str, Any] = field(default_factory=dict)  # what it advertised besides


@dataclass(frozen=True, slots=True)
class Change:
    """A conversation changed without an envelope to this agent. With the cause "message", other participants
    exchanged one, which is in the history: a delivery that this agent judges as the notary, or a DISPUTE. With the
    cause "away", one of these happened while the agent was not connected."""

    conversation: "Conversation"
    state: str
    cause: Literal["review", "timeout", "cancel", "court", "message", "away"]


@dataclass(frozen=True, slots=True)
class Assigned:
    """The hall assigned a notary to a conversation of this agent."""

    conversation: "Conversation"
    notary: str  # 64 hex digits
    fee: int  # millionths


@dataclass(frozen=True, slots=True)
class Away:
    """The recipient of an envelope was not connected. What the envelope does is done all the same."""

    recipient: str
    type: str
    nonce: int
    conversation_id: str
    stored: bool  # it waits in the inbox of the recipient


@dataclass(frozen=True, slots=True)
class Missed:
    """Envelopes that were kept for this agent while it was away, and had to make way."""

    count: int
