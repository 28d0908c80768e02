"""Transfers of files: which message belongs to which, and what is remembered of them."""

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from moothall.client.chunk_lane import ChunkLane
from moothall.client.file_offer import FileOffer, FileTransfer, OnProgress, ReceivedFiles
from moothall.client.handlers import Handlers
from moothall.client.logs import log
from moothall.client.message import Message
from moothall.client.receiving_files import IncomingFiles
from moothall.client.requests import Exchange
from moothall.client.sending_files import OutgoingFiles
from moothall.client.session import Session
from moothall.client.speech import Speech
from moothall.errors import MoothallError, OfferNotFound, TransferFailed
from moothall.files import control
from moothall.files.control import MAX_OFFER, MAX_REASON, Accept, Ack, Complete, Known, Offer, Reject
from moothall.files.offers import PendingOffers, objection
from moothall.files.packing import Packed
from moothall.files.spool import Spool
from moothall.wire.agentchat import server
from moothall.wire.agentchat.client import MAX_CONTENT

MAX_AT_ONCE: Final = 16  # transfers in each direction
MAX_FINISHED: Final = 64  # received transfers whose `ack` can be repeated
# Seconds between two answers that no caller waits for: refusals of offers, and repeated acks. Other agents cause
# them, and a hall lets an agent say one thing a second.
ANSWER_SPACING: Final = 5.0
ACK_PATIENCE: Final = 30.0  # seconds

Key = tuple[str, str]  # the other agent, with @, and the transfer id


class Transfers:
    def __init__(self, exchange: Exchange, session: Session, speech: Speech, handlers: Handlers) -> None:
        self._exchange = exchange
        self._session = session
        self._speech = speech
        self._handlers = handlers
        self._offers: PendingOffers[FileOffer] = PendingOffers()
        self._incoming: dict[Key, IncomingFiles] = {}
        self._outgoing: dict[Key, OutgoingFiles] = {}
        self._finished: OrderedDict[Key, Ack] = OrderedDict()
        self._answered_at = float("-inf")
        self.listeners: Final[dict[type, Callable[[Any], None]]] = {server.Chunk: self._hear_chunk}
        self.begin()

    def begin(self) -> None:
        """A new stay in a hall, perhaps on another event loop."""
        self._lane = ChunkLane(self._exchange)

    # -- what arrives ------------------------------------------------------------------------------

    def hear(self, message: Message) -> bool:
        """True if a direct message belongs to a transfer: then it is no chat."""
        found = control.decode(message.content)
        if found is None:
            return False
        if not isinstance(found, control.Unknown):
            self._hear(found, message)
        return True

    def _hear(self, found: Known, message: Message) -> None:
        key = (message.sender, found.tid)
        if isinstance(found, Offer):
            self._hear_offer(found, message)
        elif (outgoing := self._outgoing.get(key)) is not None:
            outgoing.hear(found)
        elif (incoming := self._incoming.get(key)) is not None:
            incoming.hear(found)
        elif isinstance(found, control.Cancel):
            self._offers.remove(*key)
        elif isinstance(found, Complete) and (ack := self._finished.get(key)) is not None:
            self._answer(message.sender, ack)  # it was lost
        elif isinstance(found, Accept) and found.resume:
            # The process that offered it has ended, or has given up: the receiver would wait for nothing.
            self._answer(message.sender, control.Cancel(found.tid, "the offer is not there any more"))

    def _hear_offer(self, offer: Offer, message: Message) -> None:
        if len(message.content) > MAX_OFFER:
            return
        reason = objection(offer)
        if reason is not None:
            log.info("refused files from %s: %s", message.sender, reason)
            self._answer(message.sender, Reject(offer.tid, reason))
            return
        self._offers.sweep(time.monotonic())
        found = FileOffer(
            control.trimmed(offer),
            message.sender,
            message.sender_name,
            message.verified,
            time.monotonic(),
            self,
        )
        if self._offers.add(found):
            self._handlers.tell("on_file_offer", found, len(message.content))

    def _hear_chunk(self, body: server.Chunk) -> None:
        found = control.decode(body.content)
        if isinstance(found, control.Chunk):
            incoming = self._incoming.get((body.from_, found.tid))
            if incoming is not None:
                incoming.take(found)

    def _answer(self, to: str, message: Known) -> None:
        """Say something that no caller waits for, if the last time is some seconds ago."""
        now = time.monotonic()
        if now >= self._answered_at + ANSWER_SPACING:
            self._answered_at = now
            self._handlers.start(self._try_to_say(to, message))

    async def _try_to_say(self, to: str, message: Known) -> None:
        try:
            await self._say(to, message)
        except MoothallError as error:
            log.info("the answer about files for %s was lost: %s", to, error)

    async def _say(self, to: str, message: Known) -> None:
        await self._speech.say(to, control.encode(message), patience=ACK_PATIENCE)

    # -- the connection ----------------------------------------------------------------------------

    def welcomed(self) -> None:
        """The agent is connected, perhaps again: what was under way to it is lost."""
        for transfer in (*self._incoming.values(), *self._outgoing.values()):
            transfer.reconnected(self._session.address)

    def end(self, error: BaseException | None) -> None:
        reason = f"the agent left the hall: {error}" if error is not None else "the agent left the hall"
        for transfer in (*self._incoming.values(), *self._outgoing.values()):
            transfer.fail(reason)

    # -- receiving ---------------------------------------------------------------------------------

    def offers(self) -> list[FileOffer]:
        self._offers.sweep(time.monotonic())
        return list(self._offers)

    def offer(self, transfer_id: str) -> FileOffer:
        found = next((offer for offer in self.offers() if offer.transfer_id == transfer_id), None)
        if found is None:
            raise OfferNotFound(
                f"no offer {transfer_id!r} is here: it expires after 30 minutes, and is answered once"
            )
        return found

    async def receive(
        self,
        offer: FileOffer,
        folder: Path,
        executable: frozenset[str],
        progress: OnProgress | None,
        timeout: float,  # noqa: ASYNC109  # as for all operations
    ) -> ReceivedFiles:
        content, sender, *_ = offer.facts()
        key = (sender, content.tid)
        self._check(offer)
        if len(self._incoming) >= MAX_AT_ONCE:
            raise TransferFailed(f"{MAX_AT_ONCE} transfers are under way: wait for one of them")
        folder = await asyncio.to_thread(folder.expanduser)
        spool = await asyncio.to_thread(_open_spool, folder, content)
        with spool:
            self._take(offer)
            incoming = IncomingFiles(
                content, sender, folder, spool, self._say, progress, timeout, self._session.address
            )
            self._incoming[key] = incoming
            try:
                return await incoming.run(executable)
            finally:
                del self._incoming[key]
                self._finish(key, incoming.ack)

    def _finish(self, key: Key, ack: Ack | None) -> None:
        if ack is not None:
            self._finished[key] = ack
            if len(self._finished) > MAX_FINISHED:
                self._finished.popitem(last=False)

    async def decline(self, offer: FileOffer, reason: str) -> None:
        self._take(offer)
        await self._say(offer.sender, Reject(offer.transfer_id, reason[:MAX_REASON]))

    def _take(self, offer: FileOffer) -> None:
        self._check(offer)
        self._offers.remove(offer.sender, offer.transfer_id)

    def _check(self, offer: FileOffer) -> None:
        if offer not in self.offers():
            raise OfferNotFound(
                f"the offer {offer.transfer_id} is not here any more: it has expired, or was answered before"
            )

    # -- sending -----------------------------------------------------------------------------------

    def check_room(self) -> None:
        if len(self._outgoing) >= MAX_AT_ONCE:
            raise TransferFailed(f"{MAX_AT_ONCE} transfers are under way: wait for one of them")

    async def send(
        self, to: str, packed: Packed, patience: float, progress: OnProgress | None
    ) -> FileTransfer:
        """Offer what is packed, and send it when it is accepted."""
        tid = secrets.token_hex(8)
        offer = packed.offer(tid, self._session.name)
        outgoing = OutgoingFiles(
            offer, to, packed, self._lane, self._say, progress, patience, self._session.address
        )
        self._outgoing[to, tid] = outgoing  # before the answer can come
        try:
            room = self._session.max_content or MAX_CONTENT
            await self._speech.say(to, control.encode_offer(offer, room))
        except BaseException:
            del self._outgoing[to, tid]
            raise
        self._handlers.start(outgoing.run()).add_done_callback(lambda _: self._end((to, tid)))
        return FileTransfer(outgoing, tid, to, tuple(packed.files), packed.skipped)

    def _end(self, key: Key) -> None:
        self._outgoing.pop(key).end()


def _open_spool(folder: Path, offer: Offer) -> Spool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return Spool(folder, offer)
    except OSError as error:
        raise TransferFailed(f"cannot write to {str(folder)!r}: {error.strerror}") from None


def now_text() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
