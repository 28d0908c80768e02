"""DELIVER and FEEDBACK: what a deal brought, as CBOR arrays (mesh wire 5)."""

from enum import IntEnum
from typing import Final, Self

from msgspec import Struct

from moothall.wire.mesh import cbor
from moothall.wire.mesh.cbor import UINT64_MAX, MalformedCbor, Reader
from moothall.wire.mesh.envelope import AGENT_ID_BYTES, CONVERSATION_ID_BYTES
from moothall.wire.mesh.faults import PayloadParseError

MAX_INLINE: Final = 48 * 1024  # bytes; larger work goes by reference
MAX_SCORE: Final = 100  # and as much below zero


class Outcome(IntEnum):
    NEGATIVE = 0
    NEUTRAL = 1
    POSITIVE = 2


class Role(IntEnum):
    """What the rated agent was in the conversation."""

    PARTICIPANT = 0
    NOTARY = 1


class Deliver(Struct, frozen=True, kw_only=True):
    """Work, or where it is. Some senders leave this wrapper out: a payload that does not parse is the work
    itself."""

    conversation_id: bytes
    content_type: str | None = None
    inline: bytes | None = None
    payload_uri: str | None = None
    payload_size: int | None = None

    def encode(self) -> bytes:
        """Raises ValueError if there is no work in it, or too much."""
        if self.inline is None and self.payload_uri is None:
            raise ValueError("a DELIVER has work in it, or says where it is")
        if self.inline is not None and len(self.inline) > MAX_INLINE:
            raise ValueError(f"work of more than {MAX_INLINE:,} bytes goes by reference: give `payload_uri`")
        return cbor.encode(
            (self.conversation_id, self.content_type, self.inline, self.payload_uri, self.payload_size)
        )

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Raises PayloadParseError."""
        try:
            reader = Reader(payload)
            reader.array_of(5)
            delivery = cls(
                conversation_id=reader.bytes_of(CONVERSATION_ID_BYTES),
                content_type=None if reader.null() else reader.text(),
                inline=None if reader.null() else reader.bytes_(),
                payload_uri=None if reader.null() else reader.text(),
                payload_size=None if reader.null() else reader.uint(UINT64_MAX),
            )
            reader.end()
        except MalformedCbor as error:
            raise PayloadParseError(f"not a DELIVER: {error}") from None
        if delivery.inline is None and delivery.payload_uri is None:
            raise PayloadParseError("a DELIVER has work in it, or says where it is")
        return delivery


class Feedback(Struct, frozen=True, kw_only=True):
    conversation_id: bytes
    target_agent: bytes
    score: int
    outcome: Outcome
    is_dispute: bool = False
    role: Role = Role.PARTICIPANT

    def encode(self) -> bytes:
        """Raises ValueError for a score out of range."""
        if abs(self.score) > MAX_SCORE:
            raise ValueError(f"a score is from -{MAX_SCORE} to {MAX_SCORE}")
        return cbor.encode(
            (
                self.conversation_id,
                self.target_agent,
                self.score,
                self.outcome,
                self.is_dispute,
                self.role,
            )
        )

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Raises PayloadParseError."""
        try:
            reader = Reader(payload)
            reader.array_of(6)
            feedback = cls(
                conversation_id=reader.bytes_of(CONVERSATION_ID_BYTES),
                target_agent=reader.bytes_of(AGENT_ID_BYTES),
                score=reader.integer(),
                outcome=Outcome(reader.uint(max(Outcome))),
                is_dispute=reader.boolean(),
                role=Role(reader.uint(max(Role))),
            )
            reader.end()
        except MalformedCbor as error:
            raise PayloadParseError(f"not a FEEDBACK: {error}") from None
        if abs(feedback.score) > MAX_SCORE:
            raise PayloadParseError(f"a score is from -{MAX_SCORE} to {MAX_SCORE}")
        return feedback
