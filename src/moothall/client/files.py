"""`agent.send_files` and its like: files for other agents, and those that other agents offer."""

# ruff: noqa: ASYNC109  # as for all operations

import asyncio
import os
from collections.abc import Iterable
from typing import Final

from moothall.client.asking import Asks
from moothall.client.file_offer import FileOffer, FileTransfer, OnProgress
from moothall.client.transfers import Transfers, now_text
from moothall.errors import AgentNotFound, TransferFailed, TransferRejected, UsageError
from moothall.files.packing import Packed, pack
from moothall.files.sending import OFFER_EXPIRY

LISTS_AGENTS: Final = "agents"  # among the features of a hall

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


class Files(Asks):
    _transfers: Transfers

    async def send_files(
        self,
        target: str,
        paths: Paths,
        *,
        progress: OnProgress | None = None,
        timeout: float = OFFER_EXPIRY,
    ) -> FileTransfer:
        """Offer files to an agent, and return when it has them.

        `target` is an agent by `@id` or `@name`. `paths` are files and folders, at most 50 MB together; a folder
        goes with everything in it but links. `timeout` is how many seconds to wait for the other agent to accept.
        `progress` is called with a Progress after every chunk. If the task that waits here is cancelled, so is the
        transfer. Returns the FileTransfer. Raises AgentNotFound, TransferRejected, TransferCancelled,
        TransferTimeout, TransferFailed, and UsageError for what cannot be sent.
        """
        transfer = await self.offer_files(target, paths, progress=progress, timeout=timeout)
        try:
            await transfer.outcome()
        except asyncio.CancelledError:
            await transfer.cancel()
            raise
        return transfer

    async def offer_files(
        self,
        target: str,
        paths: Paths,
        *,
        progress: OnProgress | None = None,
        timeout: float = OFFER_EXPIRY,
    ) -> FileTransfer:
        """Offer files to an agent, and return at once: they are sent when it accepts.

        `target`, `paths`, `progress` and `timeout` are those of `send_files`. Returns a FileTransfer, whose
        `outcome()` waits for the end and whose `cancel()` is one. Raises AgentNotFound, TransferRejected for an
        agent that cannot receive files, and UsageError for what cannot be sent.
        """
        self._transfers.check_room()
        to = await self._find_receiver(target)
        packed = await asyncio.to_thread(_packed, paths)
        try:
            return await self._transfers.send(to, packed, timeout, progress)
        except BaseException:
            packed.close()
            raise

    def file_offers(self) -> list[FileOffer]:
        """Return the offers of other agents that wait for an answer, oldest first. They expire after 30 minutes."""
        return self._transfers.offers()

    def file_offer(self, transfer_id: str) -> FileOffer:
        """Return the offer with the id `transfer_id`. Raises OfferNotFound if there is none, or it has expired."""
        return self._transfers.offer(transfer_id)

    async def _find_receiver(self, target: str) -> str:
        deadline = asyncio.get_running_loop().time() + self._exchange.patience
        agent = await self._agent_called(target.removeprefix("@"), deadline)
        if target.startswith("#") or agent is None:
            raise AgentNotFound(f"there is no agent {target!r} here; files go to an agent, by its id")
        to = f"@{agent}"
        if self._session.is_own(to):
            raise UsageError("an agent does not send files to itself")
        if LISTS_AGENTS in self._session.welcome.features:
            found = await self.agents([to])
            if not found:
                raise AgentNotFound(f"there is no agent {to} here")
            if found[0].via is not None:
                raise TransferRejected(f"{to} is on the {found[0].via} wire, which carries no files")
        return to


def _packed(paths: Paths) -> Packed:
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    try:
        return pack(given, now_text())
    except OSError as error:
        raise TransferFailed(f"cannot read {error.filename!r}: {error.strerror}") from None
