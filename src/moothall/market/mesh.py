"""Envelopes of the mesh as steps of a conversation.

What a rule depends on must be readable: an amount, a verdict, a rating. A payload of REJECT, DELIVER or DISPUTE may
be anything (mesh wire 5).
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from msgspec import structs

from moothall.errors import OutOfOrder
from moothall.market.conversations import Event, Step
from moothall.market.credits import Authority
from moothall.wire.mesh.envelope import NO_CONVERSATION, Envelope
from moothall.wire.mesh.faults import PayloadParseError
from moothall.wire.mesh.keccak import keccak256
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.notaries import Judgement, NotarizeAssign, NotarizeBid, Verdict
from moothall.wire.mesh.offers import Accept, Counter, Propose
from moothall.wire.mesh.outcomes import Feedback, Outcome, Role

_MARK_BYTES: Final = 16


def step_of(envelope: Envelope) -> Step:
    """The step that an envelope asks for. Its signature was checked.

    Raises OutOfOrder if the message belongs to no conversation, or a rule depends on a payload that cannot be read.
    """
    read = _READERS.get(envelope.msg_type)
    if read is None:
        raise OutOfOrder(f"{envelope.msg_type.name} is not a message of a conversation")
    try:
        return structs.replace(read(envelope), mark=_mark(envelope))
    except PayloadParseError as error:
        raise OutOfOrder(f"The payload of this {envelope.msg_type.name} cannot be read: {error}") from None


def authority_of(envelope: Envelope, raw: bytes) -> Authority:
    """The envelope as postings name it. `raw` is its encoding."""
    return Authority(keccak256(raw), envelope.sender, envelope.nonce)


def conversation_id_of(envelope: Envelope) -> bytes:
    """The id of its conversation, or that of zeros. FEEDBACK and NOTARIZE_BID may name it in the payload alone."""
    with suppress(PayloadParseError):  # then what the envelope itself names
        if envelope.msg_type is MsgType.FEEDBACK:
            return Feedback.decode(envelope.payload).conversation_id
        if envelope.msg_type is MsgType.NOTARIZE_BID:
            return NotarizeBid.decode(envelope.payload).conversation_id
    return envelope.conversation_id


def assigned_notary(envelope: Envelope) -> bytes | None:
    """The agent that a NOTARIZE_ASSIGN names. None if it is another message, or cannot be read."""
    if envelope.msg_type is not MsgType.NOTARIZE_ASSIGN:
        return None
    try:
        return NotarizeAssign.decode(envelope.payload).notary
    except PayloadParseError:
        return None


def _mark(envelope: Envelope) -> bytes:
    """The same for a message that is sent again, with another nonce and time."""
    parts = (bytes((envelope.msg_type,)), envelope.sender, envelope.recipient, envelope.payload_hash)
    return keccak256(b"".join(parts))[:_MARK_BYTES]


def _step(envelope: Envelope, event: Event, **others: Any) -> Step:
    return Step(
        event=event,
        conversation_id=envelope.conversation_id,
        sender=envelope.sender,
        recipient=envelope.recipient,
        **others,
    )


def _propose(envelope: Envelope) -> Step:
    offer = Propose.decode(envelope.payload)
    return _step(
        envelope,
        "PROPOSE",
        amount=offer.amount,
        max_rounds=offer.max_rounds,
        offers_work=offer.role == "provider",
    )


def _counter(envelope: Envelope) -> Step:
    offer = Counter.decode(envelope.payload)
    return _step(envelope, "COUNTER", amount=offer.amount, round=offer.round)


def _accept(envelope: Envelope) -> Step:
    return _step(envelope, "ACCEPT", amount=Accept.decode(envelope.payload).amount)


def _reject(envelope: Envelope) -> Step:
    return _step(envelope, "REJECT")


def _deliver(envelope: Envelope) -> Step:
    return _step(envelope, "DELIVER")


def _dispute(envelope: Envelope) -> Step:
    return _step(envelope, "DISPUTE")


def _assign(envelope: Envelope) -> Step:
    return _step(envelope, "NOTARIZE_ASSIGN", about=NotarizeAssign.decode(envelope.payload).notary)


def _verdict(envelope: Envelope) -> Step:
    verdict = Verdict.decode(envelope.payload)
    event: Event = "APPROVE" if verdict.judgement is Judgement.APPROVE else "DISAPPROVE"
    return _step(envelope, event, parties=(verdict.requester, verdict.provider))


def _feedback(envelope: Envelope) -> Step:
    """The conversation is the one in the payload. The envelope may leave it out, and must not name another."""
    feedback = Feedback.decode(envelope.payload)
    if envelope.conversation_id not in (NO_CONVERSATION, feedback.conversation_id):
        raise OutOfOrder("This FEEDBACK and its envelope name two conversations")
    return Step(
        event="FEEDBACK",
        conversation_id=feedback.conversation_id,
        sender=envelope.sender,
        about=feedback.target_agent,
        about_notary=feedback.role is Role.NOTARY,
        score=feedback.score,
        positive=feedback.outcome is Outcome.POSITIVE,
    )


_READERS: Final[Mapping[MsgType, Callable[[Envelope], Step]]] = {
    MsgType.PROPOSE: _propose,
    MsgType.COUNTER: _counter,
    MsgType.ACCEPT: _accept,
    MsgType.REJECT: _reject,
    MsgType.DELIVER: _deliver,
    MsgType.DISPUTE: _dispute,
    MsgType.NOTARIZE_ASSIGN: _assign,
    MsgType.VERDICT: _verdict,
    MsgType.FEEDBACK: _feedback,
}
