"""What the log of the mesh keeps, and what may be asked of it (mesh wire 12). The store implements it.

Every envelope that changes something is logged in the unit of work that it causes: both are on the disk, or neither
is. An envelope belongs to the epoch in which it arrived. An epoch that has ended gets no more: a late envelope is
logged in the next one. Envelopes are leaves of the epoch's Merkle tree in the order of their numbers.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from msgspec import Struct

from moothall.market.books import MAX_READ, Page
from moothall.wire.mesh.envelope import Envelope
from moothall.wire.mesh.epochs import epoch_of

ROW: Final = 400  # bytes besides the envelope, with the indexes: more than a short envelope has itself


class TopicMessage(Struct, frozen=True, gc=False):
    """A message to a topic that is to be logged."""

    sender: bytes
    msg_type: int
    at: int  # ms, when it arrived
    hash: bytes  # of the envelope
    leaf: bytes  # of the tree
    envelope: bytes  # as it was received


class Logged(Struct, frozen=True, gc=False):
    number: int
    epoch: int
    at: int  # ms, when it arrived
    envelope: bytes


class Leaf(Struct, frozen=True, gc=False):
    number: int
    hash: bytes  # of the tree, not of the envelope


class Act(Struct, frozen=True, gc=False):
    """A message in the log, as far as the behaviour of its sender is concerned."""

    sender: bytes
    number: int
    msg_type: int
    at: int  # ms
    envelope: bytes | None  # of PROPOSE, COUNTER and ACCEPT
    notary: bytes | None  # of the conversation of an ACCEPT


class ClosedEpoch(Struct, frozen=True, gc=False):
    epoch: int
    envelopes: int
    root: bytes
    record: bytes  # JSON: what the hall signed, and the risk (see `epoch_ends`)


class LogBooks(Protocol):
    """A part of a unit of work."""

    def log(
        self,
        envelope: Envelope,
        raw: bytes,
        at: int,
        *,
        belongs: bool = True,
        envelope_hash: bytes | None = None,
    ) -> None:
        """Append an envelope. `raw` is the envelope as it was received, and `at` the time in ms. An envelope that
        is in the log already is not added again. `belongs`: it is a part of the conversation that it names. Any
        agent may name any conversation in a message to a topic. `envelope_hash` is the Keccak-256 of `raw`, where
        it is known."""

    def log_messages(self, messages: Sequence[TopicMessage]) -> None:
        """Append messages to topics, in their order. As with `log`, each is added once, and belongs to no
        conversation."""

    def logged(
        self, conversation_id: bytes, *, after: int = 0, limit: int = 100, most: int = MAX_READ
    ) -> Page[Logged]:
        """The envelopes of a conversation, oldest first. `after` is the number at which an earlier list ended. As
        many as have at most `most` bytes together, and at least one."""

    def logged_envelope(self, envelope_hash: bytes) -> bytes | None:
        """The envelope with this hash, which authorities name; None if it is not in the log."""

    def latest_logged(
        self, conversation_id: bytes, *, limit: int = 100, most: int = MAX_READ
    ) -> Page[Logged]:
        """The latest of these envelopes, oldest first, within the same bounds. `truncated`: there are earlier
        ones."""

    def leaves(self, epoch: int, *, after: int = 0, limit: int = 1000) -> list[Leaf]:
        """Of an epoch's tree, in order, those whose number is higher than `after`."""

    def acts(self, epoch: int, *, after: int = 0, limit: int = 100) -> list[Act]:
        """The messages of an epoch, in order, those whose number is higher than `after`."""

    def first_open_epoch(self) -> int | None:
        """The earliest epoch that has envelopes and has not ended; None if there is none."""

    def hold_log(self) -> None:
        """Let no other unit append until this one is committed, and wait for those that have."""

    def count_logged(self, epoch: int) -> int:
        """The number of envelopes in an epoch."""

    def close_epoch(self, closed: ClosedEpoch) -> None:
        """End an epoch, for ever."""

    def closed_epoch(self, epoch: int | None = None) -> ClosedEpoch | None:
        """An epoch that has ended; by default the last one."""

    def disk_used(self, account: str, day: int) -> int:
        """Bytes that were added to the store on behalf of this account on this day."""

    def charge_disk(self, account: str, day: int, size: int) -> None:
        """Count so many bytes as added by this account."""


def epoch_at(at: int) -> int:
    """The epoch at a time in ms."""
    return epoch_of(at // 1000)
