"""Envelopes of the mesh as agents send them."""

from moothall.identity import PrivateKey
from moothall.wire.mesh.envelope import NO_CONVERSATION, NO_RECIPIENT, Envelope, encode, seal
from moothall.wire.mesh.msg_types import MsgType
from tests.identity.vectors import NOW_MS

CONVERSATION = bytes(range(16))


def envelope(
    sender: PrivateKey,
    msg_type: MsgType,
    payload: bytes = b"",
    *,
    to: PrivateKey | None = None,
    conversation_id: bytes = NO_CONVERSATION,
    nonce: int = 1,
    now: int = NOW_MS * 1000,
) -> Envelope:
    return seal(
        msg_type,
        payload,
        sender=sender.public.raw,
        sign=sender.sign_bytes,
        nonce=nonce,
        now=now,
        recipient=NO_RECIPIENT if to is None else to.public.raw,
        conversation_id=conversation_id,
    )


def sent(
    sender: PrivateKey, msg_type: MsgType, payload: bytes = b"", **fields: object
) -> tuple[Envelope, bytes]:
    """An envelope, and its bytes."""
    made = envelope(sender, msg_type, payload, **fields)  # type: ignore[arg-type]
    return made, encode(made)
