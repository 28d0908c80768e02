"""What the receiver of a transfer does next. Pure: messages, disk and clock are the caller's business."""

from dataclasses import dataclass
from typing import Final

from moothall.files.control import Accept, Cancel, Chunk, Complete, Known, Offer, ranges
from moothall.files.lifecycle import RECEIVER, RECEIVER_ENDS, ReceiverEvent, ReceiverState
from moothall.files.sending import Over, Wait

RECEIVE_TIMEOUT: Final = 120.0  # seconds from accept to complete (seed 001, file transfer)
ASK_AGAIN: Final = 10.0  # seconds without a chunk, before a sender that can resume is asked again
LEAST_PAUSE: Final = 2.0  # seconds between two questions


@dataclass(frozen=True, slots=True)
class SendAccept:
    message: Accept


@dataclass(frozen=True, slots=True)
class Check:
    """Everything is here: compare the hash."""

    sha256: str


ReceiverStep = SendAccept | Check | Wait | Over


class Receiving:
    """One transfer. `step` says what to do; `chunk`, `accepted`, `hear` and the like say what happened."""

    def __init__(self, offer: Offer, now: float, timeout: float = RECEIVE_TIMEOUT) -> None:
        self.offer = offer
        self.state: ReceiverState = "receiving"
        self.reason = ""
        self._here = bytearray(offer.chunks)
        self._missing = offer.chunks
        self._sha256: str | None = None  # what `complete` said
        self._timeout = timeout
        self._deadline = now + timeout
        self._asked_at: float | None = None
        self._moved = now
        self._has_to_ask = True

    @property
    def is_over(self) -> bool:
        return self.state in RECEIVER_ENDS

    @property
    def chunks_here(self) -> int:
        return self.offer.chunks - self._missing

    def step(self, now: float) -> ReceiverStep:
        if self.state == "receiving" and not self._missing and self._sha256 is not None:
            self._advance("all here")
        if self.state == "checking":
            return Check((self._sha256 or self.offer.sha256).lower())
        if not self.is_over and now >= self._deadline:
            self.fail(
                f"timeout: {self._missing} of {self.offer.chunks} chunks are missing after {self._timeout:g} s"
            )
        if self.is_over:
            return Over()
        if self._asked_at is None:
            return SendAccept(self._question())
        if not self.offer.resume:
            return Wait(self._deadline)
        again = self._asked_at + LEAST_PAUSE if self._has_to_ask else self._moved + ASK_AGAIN
        return SendAccept(self._question()) if now >= again else Wait(min(again, self._deadline))

    def _question(self) -> Accept:
        if not self.offer.resume:
            return Accept(self.offer.tid)
        if self._asked_at is None:
            return Accept(self.offer.tid, resume=True)
        have = ranges(idx for idx, is_here in enumerate(self._here) if is_here)
        return Accept(self.offer.tid, resume=True, have=have)

    # -- what happened -----------------------------------------------------------------------------

    def asked(self, now: float) -> None:
        """The hall took the accept."""
        self._asked_at = self._moved = now
        self._has_to_ask = False

    def wants(self, chunk: Chunk) -> bool:
        """False for a chunk that is here already, and for one that makes no sense."""
        is_known = chunk.total == self.offer.chunks and chunk.idx < self.offer.chunks
        return self.state == "receiving" and is_known and not self._here[chunk.idx]

    def take(self, idx: int, now: float) -> None:
        """A wanted chunk is on disk."""
        self._here[idx] = 1
        self._missing -= 1
        self._moved = now

    def hear(self, message: Known, now: float) -> None:
        """The sender says something."""
        if isinstance(message, Complete):
            self._sha256 = message.sha256 or self.offer.sha256
            self._has_to_ask = self._has_to_ask or self._missing > 0
        elif isinstance(message, Cancel):
            self.reason = message.reason or "cancelled by the sender"
            self._advance("cancel")

    def reconnected(self) -> None:
        """What was under way is lost."""
        self._has_to_ask = True

    def matched(self) -> None:
        self._advance("match")

    def fail(self, reason: str) -> None:
        if not self.is_over:
            self.reason = reason
            self._advance("fail")

    def cancel(self) -> bool:
        """True if there was something to cancel: the sender is to be told."""
        if self.state != "receiving":
            return False
        self.reason = "cancelled by the receiver"
        self._advance("cancel")
        return True

    def _advance(self, event: ReceiverEvent) -> None:
        self.state = RECEIVER.get((self.state, event), self.state)
