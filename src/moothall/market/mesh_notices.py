"""What participants of a conversation are told besides the envelopes that they get (docs/wire-mesh.md, Notices)."""

from typing import Literal

from moothall.hall.mesh.frames import ConversationChanged, NotaryAssigned, Notice
from moothall.market.conversations import Conversation
from moothall.market.conversing import Dealt
from moothall.wire.mesh.envelope import NO_RECIPIENT, Envelope
from moothall.wire.mesh.msg_types import MsgType

Cause = Literal["review", "timeout", "cancel", "court"]
Addressed = tuple[bytes, Notice]  # to the agent with this key


def of_envelope(dealt: Dealt, envelope: Envelope) -> tuple[Addressed, ...]:
    """What an envelope that was taken gives to tell. A resend gives nothing."""
    if dealt.resent:
        return ()
    return *_assigned(dealt), *_message(dealt, envelope)


def of_change(conversation: Conversation, cause: Cause) -> ConversationChanged:
    """The conversation has changed without an envelope: all participants are told."""
    return ConversationChanged(conversation_id=conversation.id.hex(), state=conversation.state, cause=cause)


def _assigned(dealt: Dealt) -> tuple[Addressed, ...]:
    """Both parties are told of the notary."""
    if dealt.assigned is None:
        return ()
    conversation = dealt.conversation
    notice = NotaryAssigned(conversation_id=conversation.id.hex(), notary=dealt.assigned.hex(), fee=dealt.fee)
    return tuple((party, notice) for party in conversation.parties)


def _message(dealt: Dealt, envelope: Envelope) -> tuple[Addressed, ...]:
    """Participants that do not get the envelope: there is a delivery to judge, or a DISPUTE."""
    conversation, receiver = dealt.conversation, envelope.recipient
    if receiver == NO_RECIPIENT or not (dealt.changed or envelope.msg_type is MsgType.DELIVER):
        return ()
    others = set(conversation.participants) - {envelope.sender, receiver, dealt.assigned}
    return tuple((key, _changed_for(key, conversation)) for key in sorted(others))


def _changed_for(key: bytes, conversation: Conversation) -> ConversationChanged:
    return ConversationChanged(
        conversation_id=conversation.id.hex(), state=conversation.state_of(key), cause="message"
    )
