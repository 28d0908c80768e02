"""One transfer from this agent: waits for the answer, sends its chunks, and waits until they are acknowledged."""

import asyncio
from typing import Final

from moothall.client.chunk_lane import ChunkLane
from moothall.client.file_offer import OnProgress
from moothall.client.transfer import Say, Transfer
from moothall.errors import (
    AgentNotFound,
    ConnectionLost,
    MoothallError,
    NotConnected,
    RateLimited,
    ReplyTimeout,
    TransferCancelled,
    TransferFailed,
    TransferRejected,
    TransferTimeout,
)
from moothall.files.control import Cancel, Complete, Known, Offer, encode
from moothall.files.lifecycle import SenderState
from moothall.files.packing import Packed
from moothall.files.progress import Progress
from moothall.files.sending import Over, SendChunk, SendComplete, Sending, Wait

# What may be different the next time.
_PASSING: Final = (AgentNotFound, ConnectionLost, NotConnected, RateLimited, ReplyTimeout)


class OutgoingFiles(Transfer):
    def __init__(
        self,
        offer: Offer,
        to: str,
        packed: Packed,
        lane: ChunkLane,
        say: Say,
        progress: OnProgress | None,
        patience: float,
        own_address: str,
    ) -> None:
        super().__init__(to, say, progress, own_address)
        self._machine = Sending(offer, self._clock(), patience)
        self._offer = offer
        self._packed = packed
        self._lane = lane
        self._accepted_at: float | None = None
        self._ended = asyncio.Event()

    # -- how it stands -----------------------------------------------------------------------------

    @property
    def state(self) -> SenderState:
        return self._machine.state

    @property
    def progress(self) -> Progress:
        taken = self._offer.chunks - self._machine.chunks_left
        elapsed = 0.0 if self._accepted_at is None else self._clock() - self._accepted_at
        return Progress(taken, self._offer.chunks, self._offer.total_size, elapsed)

    async def outcome(self, timeout: float | None) -> None:  # noqa: ASYNC109  # as for all operations
        try:
            async with asyncio.timeout(timeout):
                await self._ended.wait()
        except TimeoutError:
            raise TransferTimeout(
                f"the files for {self._peer} are still {self.state} after {timeout:g} s"
            ) from None
        if self.state != "delivered":
            raise self._failure()

    def _failure(self) -> TransferFailed:
        reason = self._machine.reason
        text = f"{self._peer} did not get the files: {reason or self.state}"
        if self.state == "rejected":
            return TransferRejected(f"{self._peer} rejected the files" + (f": {reason}" if reason else ""))
        if self.state == "cancelled":
            return TransferCancelled(text)
        return TransferTimeout(text) if self.state == "expired" else TransferFailed(text)

    # -- what happens ------------------------------------------------------------------------------

    def hear(self, message: Known) -> None:
        self._machine.hear(message, self._clock())
        if self._accepted_at is None and self.state == "sending":
            self._accepted_at = self._clock()
        self._changed.set()

    def fail(self, reason: str) -> None:
        self._machine.fail(reason)
        self._changed.set()

    async def cancel(self) -> None:
        if self._machine.cancel():
            self._changed.set()
            await self._tell_cancelled()

    # -- from offer to ack -------------------------------------------------------------------------

    async def run(self) -> None:
        try:
            while not isinstance(step := self._machine.step(self._clock()), Over):
                await self._do(step)
        except asyncio.CancelledError:
            if self._machine.cancel():
                await self._tell_cancelled()
            raise

    def end(self) -> None:
        """Called when `run` is over, also if it was cancelled before it began."""
        self._machine.fail("the transfer was interrupted")
        self._packed.close()
        self._ended.set()

    async def _do(self, step: SendChunk | SendComplete | Wait) -> None:
        if isinstance(step, Wait):
            await self._wait(step.until - self._clock())
            return
        try:
            if isinstance(step, SendChunk):
                chunk = await asyncio.to_thread(self._packed.chunk, self._offer.tid, step.idx)
                await self._lane.send(self._peer, encode(chunk))
                self._machine.taken(step.idx, self._clock())
                self._show(self.progress)
            else:
                await self._say(self._peer, Complete(self._offer.tid, self._offer.sha256))
                self._machine.completed(self._clock())
        except _PASSING:
            await self._wait_to_retry()
        except MoothallError as error:
            self._machine.fail(str(error))

    async def _tell_cancelled(self) -> None:
        await self._say_at_once(Cancel(self._offer.tid, self._machine.reason))
