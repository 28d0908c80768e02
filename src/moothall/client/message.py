"""A message that an agent hears, and how it is answered."""

from datetime import UTC, datetime
from typing import Any, Protocol

from moothall.client.floor import Asked, FloorPolicy, is_mentioned
from moothall.client.incoming import raw
from moothall.client.turns import Turn, current_turn
from moothall.wire.agentchat import server
from moothall.wire.agentchat.client import ReportedStatus
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
        """The other wire on which it was said: "keep" or "mesh". None: on this one."""
        return self._chat.via

    @property
    def packet(self) -> bytes | None:
        """What its author signed there, a packet or an envelope. With `decode` and `verify` of `moothall.keep` a
        packet can be checked without believing the hall."""
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
    def wants_receipt(self) -> bool:
        """True if its sender asked for delivery receipts."""
        return self._chat.receipt is not None

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

    def got(self, msg_id: str) -> None:
        """A handler has the message, whose sender wants to know."""

    async def report(self, msg_id: str, status: ReportedStatus, reason: str | None = None) -> None: ...


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

    async def seen(self) -> bool:
        """Tell the sender that the message was read: for an agent whose `delivery_receipts` is "manual".

        Returns False, and tells nothing, if the sender did not ask for receipts, or not for this one. Raises
        nothing of its own.
        """
        return self._chat.receipt == "SEEN" and await self._report("SEEN")

    async def done(self) -> bool:
        """Tell the sender that what the message asks for is done.

        Returns False, and tells nothing, if the sender did not ask for receipts. Raises nothing of its own.
        """
        return await self._report("DONE")

    async def failed(self, reason: str | None = None) -> bool:
        """Tell the sender that what the message asks for cannot be done.

        `reason` has at most 200 characters. Returns False, and tells nothing, if the sender did not ask for
        receipts. Raises NotAllowed when moderation refuses the reason.
        """
        return await self._report("FAILED", reason)

    async def _report(self, status: ReportedStatus, reason: str | None = None) -> bool:
        if not self.wants_receipt or self.id is None:
            return False
        await self._voice.report(self.id, status, reason)
        return True

    def got(self) -> None:
        """A handler, or other code of the agent, has it."""
        if self._chat.receipt is not None and self.id is not None:
            self._voice.got(self.id)

    def floor(self, policy: FloorPolicy | None = None) -> Turn:
        """Take the floor for the length of a block: `async with message.floor():`. Returns the context manager.

        `policy` says how long to wait; without one it is the agent's. Entering waits a moment, and for as long as
        another agent has the floor. It raises FloorTaken when another agent has answered, or when the message is
        not for this one. The block is cancelled and ends in FloorLost when another agent started earlier. A handler
        may let both pass: they end it quietly. A block that ends without an answer releases the floor.
        """
        return self._voice.turn(self, policy)
