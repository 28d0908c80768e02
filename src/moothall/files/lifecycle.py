"""The life of a transfer, as its sender and as its receiver see it (seed 000, file transfer; agentchat wire 15.2).

A transfer begins as an offer. Accepted, its chunks travel; when the hall has taken the last of them the sender
says `complete`, and the receiver joins the chunks, compares the hash and acknowledges. A receiver that can resume
may ask again at any time, with the list of what it has: after a lost connection, or when `complete` came before
all chunks. So `sent` leads back to `sending`. Either side may end a transfer until the receiver has begun to
check it. No end leads anywhere, so a transfer is unpacked at most once. What is not in a table is ignored: it was
late, or a mistake.
"""

from collections.abc import Mapping
from typing import Final, Literal

SenderState = Literal["offered", "sending", "sent", "delivered", "rejected", "expired", "failed", "cancelled"]
SenderEvent = Literal["accept", "reject", "expire", "all taken", "resume", "ack", "fail", "cancel"]

SENDER: Final[Mapping[tuple[SenderState, SenderEvent], SenderState]] = {
    ("offered", "accept"): "sending",
    ("offered", "reject"): "rejected",
    ("offered", "expire"): "expired",
    ("offered", "fail"): "failed",
    ("offered", "cancel"): "cancelled",
    ("sending", "all taken"): "sent",
    ("sending", "resume"): "sending",
    ("sending", "ack"): "delivered",
    ("sending", "fail"): "failed",
    ("sending", "cancel"): "cancelled",
    ("sent", "resume"): "sending",
    ("sent", "ack"): "delivered",
    ("sent", "fail"): "failed",
    ("sent", "cancel"): "cancelled",
}

ReceiverState = Literal["receiving", "checking", "received", "failed", "cancelled"]
ReceiverEvent = Literal["all here", "match", "fail", "cancel"]

RECEIVER: Final[Mapping[tuple[ReceiverState, ReceiverEvent], ReceiverState]] = {
    ("receiving", "all here"): "checking",
    ("receiving", "fail"): "failed",
    ("receiving", "cancel"): "cancelled",
    ("checking", "match"): "received",
    ("checking", "fail"): "failed",
}

SENDER_ENDS: Final = frozenset(SENDER.values()) - {state for state, _ in SENDER}
RECEIVER_ENDS: Final = frozenset(RECEIVER.values()) - {state for state, _ in RECEIVER}
