"""What a node tells, as the JSON objects of the reference's API: inbox, events, webhook (mesh wire 13).

The order of the names is the reference's too. `cursor` and `out_of_order` are ours, and so is the event
`delivery_failed`.
"""

import base64
from typing import Any

from moothall.node.reports import (
    BatchClosed,
    DeliveryFailed,
    Event,
    PeerRegistered,
    Received,
    ReputationChanged,
)
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.envelope import Envelope
from moothall.wire.mesh.faults import PayloadParseError
from moothall.wire.mesh.msg_types import BILATERAL, MsgType
from moothall.wire.mesh.notaries import NotarizeBid
from moothall.wire.mesh.outcomes import Deliver, Feedback

Object = dict[str, Any]


def camel_case(msg_type: MsgType) -> str:
    """NOTARIZE_BID is NotarizeBid in events and in the webhook."""
    return "".join(word.capitalize() for word in msg_type.name.split("_"))


def inbox_object(received: Received) -> Object:
    envelope = received.envelope
    found: Object = {
        "msg_type": envelope.msg_type.name,
        "sender": envelope.sender.hex(),
        "recipient": envelope.recipient.hex(),
        "conversation_id": envelope.conversation_id.hex(),
        "slot": received.slot,
        "nonce": envelope.nonce,
        "payload_b64": _base64(envelope.payload),
        "feedback": None,
        "notarize_bid": None,
        "deliver": None,
        "cursor": received.cursor,
    }
    if envelope.msg_type.name.lower() in found:  # one of the three above
        found[envelope.msg_type.name.lower()] = _decoded(envelope)
    if received.out_of_order is not None:
        found["out_of_order"] = received.out_of_order
    return found


def _decoded(envelope: Envelope) -> Object | None:
    try:
        if envelope.msg_type is MsgType.FEEDBACK:
            return _feedback(Feedback.decode(envelope.payload))
        if envelope.msg_type is MsgType.NOTARIZE_BID:
            return _bid(NotarizeBid.decode(envelope.payload))
        return _delivery(Deliver.decode(envelope.payload))
    except PayloadParseError:
        return None


def _feedback(feedback: Feedback) -> Object:
    return {
        "conversation_id": feedback.conversation_id.hex(),
        "is_dispute": feedback.is_dispute,
        "outcome": int(feedback.outcome),
        "role": int(feedback.role),
        "score": feedback.score,
        "target_agent": feedback.target_agent.hex(),
    }


def _bid(bid: NotarizeBid) -> Object:
    return {
        "bid_type": int(bid.bid_type),
        "conversation_id": bid.conversation_id.hex(),
        "opaque_b64": _base64(bid.opaque),
    }


def _delivery(delivery: Deliver) -> Object:
    return {
        "content_type": delivery.content_type,
        "conversation_id": delivery.conversation_id.hex(),
        "inline_b64": None if delivery.inline is None else _base64(delivery.inline),
        "payload_size": delivery.payload_size,
        "payload_uri": delivery.payload_uri,
    }


def webhook_object(received: Received) -> Object:
    envelope = received.envelope
    return {
        "conversation_id": envelope.conversation_id.hex(),
        "msg_type": camel_case(envelope.msg_type),
        "nonce": envelope.nonce,
        "payload_b64": _base64(envelope.payload),
        "recipient": envelope.recipient.hex(),
        "sender": envelope.sender.hex(),
        "slot": received.slot,
        "timestamp": envelope.timestamp,
    }


def failure_object(failure: DeliveryFailed) -> Object:
    return {
        "number": failure.number,
        "sender": failure.sender.hex(),
        "recipient": failure.recipient.hex(),
        "msg_type": failure.msg_type.name,
        "conversation_id": failure.conversation_id.hex(),
        "nonce": failure.nonce,
        "reason": failure.reason,
        "timestamp": failure.at // 1000,
    }


def event_object(event: Event) -> Object | None:
    """None for what `/ws/events` does not tell: bilateral envelopes, which are in the inbox."""
    match event:
        case Received(envelope=envelope) if envelope.msg_type not in BILATERAL:
            return {
                "type": "envelope",
                "sender": envelope.sender.hex(),
                "msg_type": camel_case(envelope.msg_type),
                "slot": event.slot,
            }
        case PeerRegistered():
            return {"type": "peer_registered", "agent_id": event.agent_id.hex(), "peer_id": event.peer_id}
        case ReputationChanged(reputation=numbers):
            return {
                "type": "reputation_update",
                "agent_id": event.agent_id.hex(),
                "reliability": numbers.reliability,
                "cooperation": numbers.cooperation,
            }
        case BatchClosed(batch=batch):
            return {
                "type": "batch_submitted",
                "agent_id": batch.agent_id.hex(),
                "epoch": batch.epoch,
                "batch_hash": batch.batch_hash.hex(),
            }
        case DeliveryFailed():
            return {"type": "delivery_failed", **failure_object(event)}
        case _:
            return None


def is_of_topic(received: Received, slug: str) -> bool:
    """True for a BROADCAST on the topic."""
    if received.envelope.msg_type is not MsgType.BROADCAST:
        return False
    try:
        return Broadcast.decode(received.envelope.payload).topic == slug
    except PayloadParseError:
        return False


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
