"""What the sender of a transfer does next. Pure: messages and clock are the caller's business."""

from dataclasses import dataclass
from typing import Final

from moothall.files.control import Accept, Ack, Known, Offer, Reject, indices
from moothall.files.lifecycle import SENDER, SENDER_ENDS, SenderEvent, SenderState

OFFER_EXPIRY: Final = 1800.0  # seconds (seed 001, file transfer)
# Seconds without a chunk taken or an answer: the receiver has given up by then (seed 001: 120 s from accept).
MAX_STANDSTILL: Final = 120.0
REPEAT_COMPLETE: Final = 10.0  # seconds, to a receiver that can resume: its `ack` may be lost
# Seconds between two `complete`, however often a receiver asks: an agent may say one thing a second, and needs it.
COMPLETE_SPACING: Final = 2.0
# How often all chunks may be asked for. A receiver that asks for them for ever is stopped.
MAX_ROUNDS: Final = 5


@dataclass(frozen=True, slots=True)
class SendChunk:
    idx: int


@dataclass(frozen=True, slots=True)
class SendComplete:
    pass


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do until this moment, unless a message comes."""

    until: float


@dataclass(frozen=True, slots=True)
class Over:
    pass


SenderStep = SendChunk | SendComplete | Wait | Over


class Sending:
    """One transfer. `step` says what to do; `taken`, `completed`, `hear` and the like say what happened."""

    def __init__(self, offer: Offer, now: float, patience: float = OFFER_EXPIRY) -> None:
        self.offer = offer
        self.state: SenderState = "offered"
        self.reason = ""  # why it failed or was rejected
        self._expires = now + patience
        self._patience = patience
        self._missing: list[int] = []  # descending: the next one is the last
        self._sent = 0
        self._moved = now
        self._told = False  # `complete`, since the last chunk
        self._told_at = float("-inf")
        self._resumes = False

    @property
    def is_over(self) -> bool:
        return self.state in SENDER_ENDS

    @property
    def chunks_left(self) -> int:
        return self.offer.chunks if self.state == "offered" else len(self._missing)

    def step(self, now: float) -> SenderStep:
        if self.state == "offered":
            if now < self._expires:
                return Wait(self._expires)
            self.reason = f"no answer within {self._patience:g} s. The receiver may have no file support"
            self._advance("expire")
        elif not self.is_over and now >= self._moved + MAX_STANDSTILL:
            self.fail(f"no progress for {MAX_STANDSTILL:g} s: the receiver does not answer")
        if self.state == "sending" and not self._missing:
            self._advance("all taken")
        if self.is_over:
            return Over()
        if self.state == "sending":
            return SendChunk(self._missing[-1])
        if not self._told and now >= self._told_at + COMPLETE_SPACING:
            return SendComplete()
        return self._wait_for_ack(now)

    def _wait_for_ack(self, now: float) -> SenderStep:
        give_up = self._moved + MAX_STANDSTILL
        if not self._told:
            return Wait(min(give_up, self._told_at + COMPLETE_SPACING))
        if not self._resumes:
            return Wait(give_up)
        if now >= self._told_at + REPEAT_COMPLETE:
            return SendComplete()
        return Wait(min(give_up, self._told_at + REPEAT_COMPLETE))

    # -- what happened -----------------------------------------------------------------------------

    def taken(self, idx: int, now: float) -> None:
        """The hall took a chunk."""
        if self.state == "sending" and self._missing and self._missing[-1] == idx:
            self._missing.pop()
        self._sent += 1
        self._moved = now
        if self._sent > MAX_ROUNDS * self.offer.chunks:
            self.fail("the receiver asks for the same chunks again and again")

    def completed(self, now: float) -> None:
        """The hall took `complete`."""
        self._told, self._told_at = True, now

    def hear(self, message: Known, now: float) -> None:
        """The receiver says something."""
        if isinstance(message, Accept):
            self._hear_accept(message, now)
        elif isinstance(message, Reject):
            self.reason = message.reason
            self._advance("reject")
            self.fail(message.reason or "the receiver rejected it")
        elif isinstance(message, Ack):
            if message.ok:
                self._advance("ack")
            else:
                self.fail(message.error or "the receiver could not use it")

    def _hear_accept(self, accept: Accept, now: float) -> None:
        is_first = self.state == "offered"
        if is_first:
            self._advance("accept")
        elif accept.have is None or self.is_over:
            return  # the first one again
        else:
            self._advance("resume")
        here = indices(accept.have, self.offer.chunks) if accept.have is not None else set()
        self._missing = [idx for idx in reversed(range(self.offer.chunks)) if idx not in here]
        self._resumes = accept.resume
        self._told = False
        if is_first or self._missing:  # one that lacks nothing has to acknowledge
            self._moved = now

    def fail(self, reason: str) -> None:
        if not self.is_over:
            self.reason = reason
            self._advance("fail")

    def cancel(self) -> bool:
        """True if there was something to cancel: the receiver is to be told."""
        if self.is_over:
            return False
        self.reason = "cancelled by the sender"
        self._advance("cancel")
        return True

    def _advance(self, event: SenderEvent) -> None:
        self.state = SENDER.get((self.state, event), self.state)
