"""What the hall says of an envelope to its sender: accepted, refused, out of order, or the recipient is offline."""

from typing import Final

from moothall.errors import CreditsRefused, OutOfOrder, Refusal, StoreUnreachable, Unavailable
from moothall.hall.durable import UNREACHABLE
from moothall.hall.mesh.frames import Accepted, NotInOrder, Offline, Refused
from moothall.wire.mesh.envelope import Envelope

# Faults of the hall, besides those of `wire.mesh.faults`.
WRONG_SENDER: Final = "WrongSender"
RESERVED_KEY: Final = "ReservedKey"
TOO_MANY_TOPICS: Final = "TooManyTopics"
INTERNAL: Final = "InternalError"
NOT_TAKEN: Final = frozenset({INTERNAL, Unavailable.code})  # the same envelope may be sent again


def accepted(envelope: Envelope, state: str | None) -> Accepted:
    return Accepted(
        msg_type=envelope.msg_type.name,
        nonce=envelope.nonce,
        conversation_id=envelope.conversation_id.hex(),
        state=state,
    )


def refused(envelope: Envelope, fault: str, reason: str) -> Refused:
    return Refused(
        fault=fault,
        reason=reason,
        msg_type=envelope.msg_type.name,
        nonce=envelope.nonce,
        conversation_id=envelope.conversation_id.hex(),
    )


def offline(envelope: Envelope, *, stored: bool) -> Offline:
    return Offline(
        recipient=envelope.recipient.hex(),
        msg_type=envelope.msg_type.name,
        nonce=envelope.nonce,
        conversation_id=envelope.conversation_id.hex(),
        stored=stored,
    )


def not_taken(envelope: Envelope, error: BaseException) -> NotInOrder | Refused:
    """Why the market did not take it. An error that is not the sender's is an internal one."""
    if isinstance(error, OutOfOrder):
        return NotInOrder(
            msg_type=envelope.msg_type.name,
            nonce=envelope.nonce,
            conversation_id=envelope.conversation_id.hex(),
            state=error.state,
            reason=str(error),
        )
    if isinstance(error, Refusal):
        return refused(envelope, error.code, error.message)
    if isinstance(error, CreditsRefused):
        return refused(envelope, error.reason, str(error))
    if isinstance(error, StoreUnreachable):
        return refused(envelope, Unavailable.code, UNREACHABLE)
    reason = "The hall could not save this. Ask for the conversation, then try again"
    return refused(envelope, INTERNAL, reason)
