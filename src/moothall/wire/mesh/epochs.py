"""Epochs: a day of the mesh, the file that logs it, and the batch that sums it up (mesh wire 12)."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct, structs

from moothall.wire.mesh import cbor
from moothall.wire.mesh.cbor import UINT64_MAX
from moothall.wire.mesh.envelope import HASH_BYTES
from moothall.wire.mesh.keccak import keccak256
from moothall.wire.mesh.msg_types import MsgType

EPOCH_SECONDS: Final = 86_400
MAX_ENTRIES: Final = 1000  # of each list in a batch; the rest is only in a hash

_TYPE_COUNTS: Final = max(MsgType) + 1  # by code; 0 is not used


def epoch_of(seconds: int) -> int:
    """The epoch at a Unix time in seconds."""
    return seconds // EPOCH_SECONDS


def log_name(epoch: int) -> str:
    """The name of the file with the frames of an epoch."""
    return f"zerox1-epoch-{epoch:06}.cbor"


class BidValue(Struct, frozen=True):
    conversation_id: bytes
    counterparty: bytes
    bid_value: int
    slot: int


class TaskSelection(Struct, frozen=True):
    conversation_id: bytes
    counterparty: bytes
    slot: int


class VerifierId(Struct, frozen=True):
    conversation_id: bytes
    verifier_id: bytes
    slot: int


class FeedbackEvent(Struct, frozen=True):
    conversation_id: bytes
    from_agent: bytes
    score: int
    outcome: int
    role: int
    slot: int


class BehaviorBatch(Struct, frozen=True, kw_only=True):
    """What an agent did in an epoch. The lists have all entries; what is over the limit is cut when it is written.

    `msg_type_counts` has a number for each code, from 0.
    """

    agent_id: bytes
    epoch_number: int
    slot_start: int
    slot_end: int
    message_count: int
    msg_type_counts: tuple[int, ...]
    unique_counterparties: int
    tasks_completed: int
    notarizations: int
    disputes: int
    bid_values: Sequence[BidValue]
    task_selections: Sequence[TaskSelection]
    verifier_ids: Sequence[VerifierId]
    feedback_events: Sequence[FeedbackEvent]
    log_merkle_root: bytes

    def encode(self) -> bytes:
        """A CBOR map whose members are in the order of the reference, which is not sorted."""
        if len(self.msg_type_counts) != _TYPE_COUNTS:
            raise ValueError(f"a batch has {_TYPE_COUNTS} counts of messages")
        members = structs.asdict(self)
        lists = self._lists()
        root = members.pop("log_merkle_root")
        members |= {name: entries[:MAX_ENTRIES] for name, entries in lists.items()}
        overflow = any(len(entries) > MAX_ENTRIES for entries in lists.values())
        members["overflow"] = overflow
        members["overflow_data_hash"] = self.lists_hash() if overflow else bytes(HASH_BYTES)
        members["log_merkle_root"] = root
        return cbor.encode(members)

    def hash(self) -> bytes:
        return keccak256(self.encode())

    def lists_hash(self) -> bytes:
        """The hash of all entries, for a batch that cannot hold them."""
        return keccak256(b"".join(map(cbor.encode, self._lists().values())))

    def _lists(self) -> dict[str, list[tuple[int | bytes, ...]]]:
        return {
            "bid_values": [
                (bid.conversation_id, bid.counterparty, _in_range(bid.bid_value), bid.slot)
                for bid in self.bid_values
            ],
            "task_selections": [structs.astuple(each) for each in self.task_selections],
            "verifier_ids": [structs.astuple(each) for each in self.verifier_ids],
            "feedback_events": [structs.astuple(each) for each in self.feedback_events],
        }


def _in_range(bid_value: int) -> int:
    """CBOR has no number for the rest of what 128 bits can hold; the reference writes 0."""
    return bid_value if -1 - UINT64_MAX <= bid_value <= UINT64_MAX else 0
