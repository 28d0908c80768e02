"""What users of the SDK hold of a transfer: an offer to this agent, what was received, and files on their way."""

# ruff: noqa: ASYNC109  # as for all operations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from moothall.files.control import Offer, OfferedFile
from moothall.files.lifecycle import SenderState
from moothall.files.progress import Progress
from moothall.files.receiving import RECEIVE_TIMEOUT
from moothall.files.saving import SavedFile, Skipped

OnProgress = Callable[[Progress], object]


@dataclass(frozen=True, slots=True)
class ReceivedFiles:
    """What a transfer has brought. Its hash was right, or there would be none of this."""

    folder: Path
    files: tuple[SavedFile, ...]
    skipped: tuple[Skipped, ...]  # what could not become a file, with the reason
    more_skipped: int  # not listed

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


class OfferFacts:
    """Files that another agent offers, as it describes them. Names and sizes are only its word."""

    __slots__ = ("_offer", "received_at", "sender", "sender_name", "verified")

    def __init__(
        self, offer: Offer, sender: str, sender_name: str, verified: bool, received_at: float
    ) -> None:
        self._offer = offer
        self.sender = sender
        self.sender_name = sender_name
        self.verified = verified
        self.received_at = received_at

    @property
    def transfer_id(self) -> str:
        """The id of the transfer."""
        return self._offer.tid

    @property
    def files(self) -> tuple[OfferedFile, ...]:
        """The files, each with `name` and `size`, as far as the offer lists them."""
        return tuple(self._offer.files)

    @property
    def more_files(self) -> int:
        """How many files the offer does not list."""
        return self._offer.more

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return self._offer.total_size

    @property
    def chunks(self) -> int:
        """In how many chunks the files travel."""
        return self._offer.chunks

    @property
    def age(self) -> float:
        """Seconds since it came. An offer expires after 30 minutes."""
        return time.monotonic() - self.received_at

    def facts(self) -> tuple[Offer, str, str, bool, float]:
        """What makes another view of the same offer."""
        return (self._offer, self.sender, self.sender_name, self.verified, self.received_at)

    def __repr__(self) -> str:
        count = len(self._offer.files) + self._offer.more
        return f"<{type(self).__name__} {self.transfer_id} {count} files from {self.sender}>"


class Receiver(Protocol):
    """The agent that got an offer."""

    async def receive(
        self,
        offer: "FileOffer",
        folder: Path,
        executable: frozenset[str],
        progress: OnProgress | None,
        timeout: float,
    ) -> ReceivedFiles: ...

    async def decline(self, offer: "FileOffer", reason: str) -> None: ...


class FileOffer(OfferFacts):
    """Files that another agent offers, which can be accepted or rejected."""

    __slots__ = ("_receiver",)

    def __init__(
        self,
        offer: Offer,
        sender: str,
        sender_name: str,
        verified: bool,
        received_at: float,
        receiver: Receiver,
    ) -> None:
        super().__init__(offer, sender, sender_name, verified, received_at)
        self._receiver = receiver

    async def accept(
        self,
        folder: str | os.PathLike[str],
        *,
        executable: Iterable[str] = (),
        progress: OnProgress | None = None,
        timeout: float = RECEIVE_TIMEOUT,
    ) -> ReceivedFiles:
        """Receive the files into `folder`, which is made if it is not there.

        A file that exists there is kept, and the new one gets a number. No file is executable unless `executable`
        names it. `progress` is called with a Progress after every chunk. To cancel, cancel the task that waits
        here. Returns the ReceivedFiles when the hash was right and all is in its place. Raises OfferNotFound,
        TransferTimeout after `timeout` seconds, TransferCancelled when the sender ends it, HashMismatch, and
        TransferFailed, such as when the disk is full.
        """
        return await self._receiver.receive(self, Path(folder), frozenset(executable), progress, timeout)

    async def reject(self, reason: str = "") -> None:
        """Decline the files. `reason` is for the people on the other side. Raises OfferNotFound."""
        await self._receiver.decline(self, reason)


class Outgoing(Protocol):
    """A transfer under way."""

    @property
    def state(self) -> SenderState: ...
    @property
    def progress(self) -> Progress: ...
    async def outcome(self, timeout: float | None) -> None: ...
    async def cancel(self) -> None: ...


class TransferFacts:
    """Files that this agent has offered to another one."""

    __slots__ = ("_outgoing", "files", "size", "skipped", "to", "transfer_id")

    def __init__(
        self,
        outgoing: Outgoing,
        transfer_id: str,
        to: str,
        files: tuple[OfferedFile, ...],
        skipped: tuple[str, ...],
    ) -> None:
        self._outgoing = outgoing
        self.transfer_id = transfer_id
        self.to = to
        self.files = files
        self.size = sum(file.size for file in files)
        self.skipped = skipped  # links and the like inside of folders, which are not sent

    @property
    def state(self) -> SenderState:
        """How far it is: offered, sending, sent, delivered, rejected, expired, failed or cancelled."""
        return self._outgoing.state

    @property
    def progress(self) -> Progress:
        """How many chunks the hall has taken."""
        return self._outgoing.progress

    def facts(self) -> tuple[Outgoing, str, str, tuple[OfferedFile, ...], tuple[str, ...]]:
        """What makes another view of the same transfer."""
        return (self._outgoing, self.transfer_id, self.to, self.files, self.skipped)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.transfer_id} to {self.to} {self.state}>"


class FileTransfer(TransferFacts):
    """Files that this agent has offered to another one. Its `outcome()` waits until they have arrived."""

    __slots__ = ()

    async def outcome(self, timeout: float | None = None) -> None:
        """Wait until the other agent has the files and says that their hash is right.

        `timeout` is in seconds; the transfer goes on if it passes. Raises TransferRejected, TransferCancelled,
        TransferTimeout when the other agent does not answer, and TransferFailed.
        """
        await self._outgoing.outcome(timeout)

    async def cancel(self) -> None:
        """End the transfer, and tell the other agent. Raises nothing."""
        await self._outgoing.cancel()
