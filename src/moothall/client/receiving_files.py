"""One transfer to this agent: asks for it, spools its chunks, checks its hash and unpacks it."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final, TypeVar

from moothall.client.file_offer import OnProgress, ReceivedFiles
from moothall.client.logs import log
from moothall.client.transfer import Say, Transfer
from moothall.errors import (
    AgentNotFound,
    ConnectionLost,
    HashMismatch,
    MoothallError,
    NotConnected,
    ReplyTimeout,
    TransferCancelled,
    TransferFailed,
    TransferTimeout,
)
from moothall.files.control import MAX_REASON, Accept, Ack, Chunk, Known, Offer
from moothall.files.progress import Progress
from moothall.files.receiving import Check, Receiving, SendAccept
from moothall.files.saving import unpack
from moothall.files.sending import Over, Wait
from moothall.files.spool import Spool, TooMuch

HASH_MISMATCH: Final = "hash mismatch"  # the reference's words (agentchat wire 15.1)

Result = TypeVar("Result")


class IncomingFiles(Transfer):
    def __init__(
        self,
        offer: Offer,
        sender: str,
        folder: Path,
        spool: Spool,
        say: Say,
        progress: OnProgress | None,
        timeout: float,
        own_address: str,
    ) -> None:
        super().__init__(sender, say, progress, own_address)
        self._started = self._clock()
        self._machine = Receiving(offer, self._started, timeout)
        self._folder = folder
        self._spool = spool
        self._timeout_at = self._started + timeout
        self.ack: Ack | None = None  # what the sender was told at the end

    # -- what happens ------------------------------------------------------------------------------

    def hear(self, message: Known) -> None:
        self._machine.hear(message, self._clock())
        self._changed.set()

    def take(self, chunk: Chunk) -> None:
        if not self._machine.wants(chunk):
            return
        try:
            self._spool.put(chunk.idx, chunk.data)
        except TooMuch:
            self.fail("more data came than was offered")
        except OSError as error:
            self.fail(_disk_fault(error))
        else:
            self._machine.take(chunk.idx, self._clock())
            offer, elapsed = self._machine.offer, self._clock() - self._started
            self._show(Progress(self._machine.chunks_here, offer.chunks, offer.total_size, elapsed))
            if self._machine.chunks_here == self._machine.offer.chunks:
                self._changed.set()

    def reconnected(self, address: str) -> None:
        self._machine.reconnected()
        super().reconnected(address)

    def fail(self, reason: str) -> None:
        self._machine.fail(reason)
        self._changed.set()

    # -- from accept to ack ------------------------------------------------------------------------

    async def run(self, executable: frozenset[str]) -> ReceivedFiles:
        try:
            sha256 = await self._collect()
            return await _to_the_end(self._unpack(sha256, executable))
        except asyncio.CancelledError:
            if self._machine.cancel():
                await self._give_up()
            raise
        except TransferFailed:
            if self._machine.state == "failed":
                await self._give_up()
            raise

    async def _collect(self) -> str:
        """Return the hash that the archive must have, when all of it is here."""
        while True:
            step = self._machine.step(self._clock())
            if isinstance(step, Check):
                return step.sha256
            if isinstance(step, SendAccept):
                await self._ask(step.message)
            elif isinstance(step, Wait):
                await self._wait(step.until - self._clock())
            else:
                assert isinstance(step, Over)  # noqa: S101  # there are no others
                raise self._failure()

    async def _ask(self, message: Accept) -> None:
        is_first = message.have is None
        try:
            await self._say(self._peer, message)
        except AgentNotFound:
            if is_first:
                self._machine.fail(f"{self._peer} has left")
                return
            self._machine.asked(self._clock())
            self._machine.reconnected()  # ask again soon: the sender may be on its way back
        except (ConnectionLost, NotConnected, ReplyTimeout):
            await self._wait_to_retry()
        except MoothallError as error:
            self._machine.fail(str(error))
        else:
            self._machine.asked(self._clock())

    async def _unpack(self, expected: str, executable: frozenset[str]) -> ReceivedFiles:
        try:
            if await asyncio.to_thread(self._spool.sha256) != expected:
                self._machine.fail(HASH_MISMATCH)
                raise HashMismatch(f"the files from {self._peer} are not what was offered: {HASH_MISMATCH}")
            found = await asyncio.to_thread(unpack, self._spool.read(), self._folder, executable)
        except OSError as error:
            self._machine.fail(_disk_fault(error))
            raise self._failure() from None
        self._machine.matched()
        self.ack = Ack(self._machine.offer.tid, ok=True)
        try:
            await self._say(self._peer, self.ack)
        except MoothallError as error:
            log.info("%s does not know yet that its files arrived: %s", self._peer, error)
        return ReceivedFiles(self._folder, tuple(found.files), tuple(found.skipped), found.more_skipped)

    def _failure(self) -> TransferFailed:
        machine = self._machine
        text = f"the files from {self._peer} did not arrive: {machine.reason}"
        if machine.state == "cancelled":
            return TransferCancelled(text)
        return TransferTimeout(text) if self._clock() >= self._timeout_at else TransferFailed(text)

    async def _give_up(self) -> None:
        """Tell the sender, if that is possible at once."""
        self.ack = Ack(self._machine.offer.tid, ok=False, error=self._machine.reason[:MAX_REASON])
        await self._say_at_once(self.ack)


def _disk_fault(error: OSError) -> str:
    return f"cannot write the files: {error.strerror}"


async def _to_the_end(work: Coroutine[Any, Any, Result]) -> Result:
    """Files are being moved to their places: a caller that gives up waits until this is done."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait((task,))
        raise
