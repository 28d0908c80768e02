"""What a node tells the program that runs it."""

from typing import Any, TypeAlias

from msgspec import Struct

from moothall.wire.mesh.envelope import Envelope
from moothall.wire.mesh.msg_types import MsgType


class Sent(Struct, frozen=True):
    """An envelope that is on the disk and on its way. A delivery that fails later is an event."""

    nonce: int
    payload_hash: bytes


class KnownAgent(Struct, frozen=True):
    """An agent whose BEACON was seen."""

    agent_id: bytes
    peer_id: str
    last_active_epoch: int
    name: str = ""


class Received(Struct, frozen=True):
    """An envelope in the inbox. `cursor` is its number there, from 1; numbers rise, and have gaps.

    `at` is when it arrived, in Unix milliseconds. `slot` is the same in seconds, as the API of the reference has
    it. `out_of_order` says why a message changed nothing: the state of its conversation does not allow it. It is
    for the application; the peer is not told (mesh wire 8).
    """

    cursor: int
    envelope: Envelope
    at: int
    out_of_order: str | None = None

    @property
    def slot(self) -> int:
        return self.at // 1000


class DeliveryFailed(Struct, frozen=True):
    """The peer of the recipient did not acknowledge an envelope, nor a second one with a new nonce.

    It may have arrived all the same. To try again, send the same message again: it is not a new step of its
    conversation. `number` counts failures of this node, from 1; numbers have gaps.
    """

    number: int
    sender: bytes  # our agent, or a hosted one
    recipient: bytes
    msg_type: MsgType
    conversation_id: bytes
    nonce: int
    reason: str
    at: int  # Unix milliseconds


class PeerRegistered(Struct, frozen=True):
    """The first BEACON of an agent."""

    agent_id: bytes
    peer_id: str
    name: str


class ReputationChanged(Struct, frozen=True):
    """FEEDBACK of a conversation that this node knows has moved the numbers of an agent."""

    agent_id: bytes
    score: int
    reputation: "AgentReputation"


class BatchClosed(Struct, frozen=True):
    """An epoch has ended."""

    batch: "BatchSummary"


Event: TypeAlias = Received | DeliveryFailed | PeerRegistered | ReputationChanged | BatchClosed


class AgentReputation(Struct, frozen=True):
    """mesh wire 11.1"""

    agent_id: bytes
    reliability: int
    cooperation: int
    notary_accuracy: int
    total_tasks: int
    total_notarized: int
    total_disputes: int
    last_active_epoch: int


class BatchSummary(Struct, frozen=True):
    """What the API tells of the batch of an epoch (mesh wire 12). An epoch that is not over has one so far."""

    agent_id: bytes
    epoch: int
    message_count: int
    log_merkle_root: bytes
    batch_hash: bytes


class Task(Struct, frozen=True):
    """A row of the task log. `fields` is what the program logged, without `id` and `shared`."""

    id: int
    at: int  # Unix milliseconds
    shared: bool
    fields: dict[str, Any]


class NodeStatistics(Struct, frozen=True):
    """Numbers since the start, but for those of this moment: `agents`, `hosted`, `pending`, `topics`, `peers`."""

    peers: int
    topics: int  # that the node has joined
    agents: int  # whose BEACON was seen
    hosted: int  # sessions
    pending: int  # letters that have no ACK yet
    received: int  # envelopes that were taken
    sent: int
    out_of_order: int
    refused: dict[str, int]  # inbound envelopes, by the rule that they break
    limited: int  # inbound envelopes over a limit
    retried: int
    delivery_failed: int
    store_failed: int  # inbound envelopes that the disk did not take
