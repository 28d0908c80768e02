"""Signatures that wait to be checked, on wires where every message has one.

A connection keeps what arrived until its turn. Then a few messages of each connection are checked together
(`moothall.gateways.batches`) and handled in the order of arrival.
"""

from collections.abc import MutableSequence
from typing import Any, Protocol

from msgspec import Struct


class Proof(Struct, frozen=True, gc=False):
    key: bytes
    message: bytes
    signature: bytes


class Arrival(Struct, eq=False):
    """A message between its arrival and its handling. One without a proof has nothing to be checked."""

    source: "Source"
    proof: Proof | None = None
    valid: bool = False  # the signature holds


class Source(Protocol):
    """A connection with messages that wait."""

    listed: bool  # among those that have their turn next
    held: int  # reasons to leave its messages alone
    closing: bool  # nothing more of it is handled

    @property
    def checked(self) -> MutableSequence[Any]:
        """Messages whose turn came while the connection was held."""

    @property
    def has_waiting(self) -> bool:
        """True if messages wait to be checked."""

    def take(self, batch: list[Any], most: int) -> int:
        """Move messages to the batch, up to this number. Return their bytes."""

    def handle(self, arrival: Any) -> None:
        """A message that was checked."""


class Checks(Protocol):
    """Where connections say that they have messages to be checked and handled."""

    @property
    def is_at_work(self) -> bool:
        """True while received messages are being checked and handled."""

    def ready(self, source: Source) -> None:
        """The connection has something to be checked."""
