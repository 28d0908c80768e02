"""What an agent of the mesh sends and gets: an envelope whose signature holds, with its payload read."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from moothall.wire.mesh.announcements import Bounty
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.envelope import MICROSECONDS, NO_CONVERSATION, NO_RECIPIENT, Envelope, encode
from moothall.wire.mesh.faults import PayloadParseError
from moothall.wire.mesh.keccak import keccak256
from moothall.wire.mesh.notaries import NotarizeBid, Verdict
from moothall.wire.mesh.outcomes import Deliver
from moothall.wire.mesh.payloads import Payload, decode_payload

if TYPE_CHECKING:
    from moothall.mesh.conversation import Conversation


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """A message of the mesh: `type`, `sender`, `payload`, and the `conversation` it belongs to.

    `payload` has the fields of its type (`moothall.wire.mesh`); it is None if it cannot be read.
    """

    envelope: Envelope
    conversation: "Conversation | None"  # None for messages to a topic that belong to none
    payload: Payload | None

    @property
    def type(self) -> str:
        """The name of its type: "PROPOSE" and so on."""
        return self.envelope.msg_type.name

    @property
    def sender(self) -> str:
        """The id of the sender, which is its public key: 64 hex digits."""
        return self.envelope.sender.hex()

    @property
    def recipient(self) -> str | None:
        """The id of the agent that it was sent to. None if it was sent to a topic."""
        return None if self.envelope.recipient == NO_RECIPIENT else self.envelope.recipient.hex()

    @property
    def conversation_id(self) -> str | None:
        """32 hex digits. None if it belongs to no conversation."""
        named = self.envelope.conversation_id
        return None if named == NO_CONVERSATION else named.hex()

    @property
    def nonce(self) -> int:
        """The number that its sender used for it alone."""
        return self.envelope.nonce

    @property
    def sent_at(self) -> datetime:
        """When it was sent, as its sender says."""
        return datetime.fromtimestamp(self.envelope.timestamp / MICROSECONDS, UTC)

    @property
    def raw(self) -> bytes:
        """The envelope as it travels, with its signature."""
        return encode(self.envelope)

    @property
    def hash(self) -> str:
        """Keccak-256 of the envelope: its name in the hall's log and in the ledger. 64 hex digits."""
        return keccak256(self.raw).hex()

    @property
    def amount(self) -> int:
        """The amount of an offer, in millionths; 0 if it has none."""
        return getattr(self.payload, "amount", 0)

    @property
    def text(self) -> str:
        """What the sender says: the message of an offer, a reason, a note to a verdict, the terms of a bid, the
        text of a BROADCAST, or work as text."""
        payload = self.payload
        if isinstance(payload, Verdict | NotarizeBid):
            return payload.opaque.decode(errors="replace")
        if isinstance(payload, Bounty):
            return payload.task_summary
        if isinstance(payload, Broadcast):
            return (payload.content or b"").decode(errors="replace")
        if self.type == "DELIVER":
            return (self.work or b"").decode(errors="replace")
        return str(getattr(payload, "message", getattr(payload, "reason", "")))

    @property
    def work(self) -> bytes | None:
        """What was delivered; None if it is elsewhere (`payload.payload_uri`), or this is not a DELIVER.

        A DELIVER that is not in the usual form is the work itself (mesh wire 5).
        """
        if isinstance(self.payload, Deliver):
            return self.payload.inline
        return self.envelope.payload if self.type == "DELIVER" else None

    @property
    def size(self) -> int:
        """Roughly, in bytes."""
        return len(self.envelope.payload) + _ENVELOPE

    def __repr__(self) -> str:
        return f"<Message {self.type} from {self.sender[:8]}, {len(self.envelope.payload)} bytes>"


_ENVELOPE = 1000  # bytes that an envelope takes besides its payload


def read(envelope: Envelope, conversation: "Conversation | None" = None) -> Message:
    """The message in an envelope."""
    payload: Payload | None
    try:
        payload = decode_payload(envelope.msg_type, envelope.payload)
    except PayloadParseError:
        payload = None
    return Message(envelope, conversation, payload)
