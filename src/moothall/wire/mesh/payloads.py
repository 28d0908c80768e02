"""Which payload a message type has (mesh wire 4, 5)."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from moothall.wire.mesh.announcements import Advertise, Beacon, Bounty, Discover
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.notaries import NotarizeAssign, NotarizeBid, Verdict
from moothall.wire.mesh.offers import Accept, Counter, Propose
from moothall.wire.mesh.outcomes import Deliver, Feedback
from moothall.wire.mesh.reasons import Dispute, Reject

Payload: TypeAlias = (
    Advertise
    | Discover
    | Propose
    | Counter
    | Accept
    | Reject
    | Deliver
    | NotarizeBid
    | NotarizeAssign
    | Verdict
    | Feedback
    | Dispute
    | Beacon
    | Broadcast
    | Bounty
)

PAYLOADS: Final[Mapping[MsgType, type[Payload]]] = {
    MsgType.ADVERTISE: Advertise,
    MsgType.DISCOVER: Discover,
    MsgType.PROPOSE: Propose,
    MsgType.COUNTER: Counter,
    MsgType.ACCEPT: Accept,
    MsgType.REJECT: Reject,
    MsgType.DELIVER: Deliver,
    MsgType.NOTARIZE_BID: NotarizeBid,
    MsgType.NOTARIZE_ASSIGN: NotarizeAssign,
    MsgType.VERDICT: Verdict,
    MsgType.FEEDBACK: Feedback,
    MsgType.DISPUTE: Dispute,
    MsgType.BEACON: Beacon,
    MsgType.BROADCAST: Broadcast,
    MsgType.BOUNTY: Bounty,
}


def decode_payload(msg_type: MsgType, payload: bytes) -> Payload:
    """Raises PayloadParseError. That is no reason to refuse the envelope: it is passed on as it is."""
    return PAYLOADS[msg_type].decode(payload)
