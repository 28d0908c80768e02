"""NOTARIZE_BID, NOTARIZE_ASSIGN and VERDICT: fixed fields, then bytes that only the agents know (mesh wire 5)."""

from enum import IntEnum
from typing import Final, Self

from msgspec import Struct

from moothall.wire.mesh.envelope import AGENT_ID_BYTES, CONVERSATION_ID_BYTES
from moothall.wire.mesh.faults import PayloadParseError

_BID_BYTES: Final = 1 + CONVERSATION_ID_BYTES
_VERDICT_BYTES: Final = 1 + 2 * AGENT_ID_BYTES


class BidType(IntEnum):
    REQUEST = 0x00
    OFFER = 0x01


class Judgement(IntEnum):
    APPROVE = 0x00
    REJECT = 0x01


class NotarizeBid(Struct, frozen=True):
    """A party asks for a notary, or an agent offers to be one."""

    bid_type: BidType
    conversation_id: bytes
    opaque: bytes = b""

    def encode(self) -> bytes:
        return bytes((self.bid_type,)) + self.conversation_id + self.opaque

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Raises PayloadParseError."""
        if len(payload) < _BID_BYTES or payload[0] > max(BidType):
            raise PayloadParseError(
                f"a NOTARIZE_BID starts with 00 or 01 and {CONVERSATION_ID_BYTES} bytes of a conversation id"
            )
        return cls(BidType(payload[0]), payload[1:_BID_BYTES], payload[_BID_BYTES:])


class NotarizeAssign(Struct, frozen=True):
    """A node, or a party, says which agent is the notary."""

    notary: bytes
    opaque: bytes = b""

    def encode(self) -> bytes:
        return self.notary + self.opaque

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Raises PayloadParseError."""
        if len(payload) < AGENT_ID_BYTES:
            raise PayloadParseError(f"a NOTARIZE_ASSIGN starts with {AGENT_ID_BYTES} bytes of an agent id")
        return cls(payload[:AGENT_ID_BYTES], payload[AGENT_ID_BYTES:])


class Verdict(Struct, frozen=True):
    """The payload of VERDICT: what a notary judges, or that the requester approves. Not a verdict of the court."""

    judgement: Judgement
    requester: bytes
    provider: bytes
    opaque: bytes = b""

    def encode(self) -> bytes:
        return bytes((self.judgement,)) + self.requester + self.provider + self.opaque

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Raises PayloadParseError."""
        if len(payload) < _VERDICT_BYTES or payload[0] > max(Judgement):
            raise PayloadParseError(
                f"a VERDICT starts with 00 or 01 and two agent ids of {AGENT_ID_BYTES} bytes each"
            )
        parties = payload[1:_VERDICT_BYTES]
        return cls(
            Judgement(payload[0]),
            parties[:AGENT_ID_BYTES],
            parties[AGENT_ID_BYTES:],
            payload[_VERDICT_BYTES:],
        )
