"""What a `SyncAgent` hands out: messages, deals, disputes and the operator's tools, all without `await`."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping
from threading import Thread
from typing import Any, TypeVar

from moothall.client.admin import Admin, Approved, Bans, Budgets
from moothall.client.delivery import DELIVERY_TIMEOUT, Delivery, DeliveryReceipt
from moothall.client.dispute import Dispute, Filing, Items
from moothall.client.docket import Ruling
from moothall.client.file_offer import (
    FileOffer,
    FileTransfer,
    OfferFacts,
    OnProgress,
    ReceivedFiles,
    TransferFacts,
)
from moothall.client.message import ChatLine, Message
from moothall.client.proposal import Deal, Proposal
from moothall.files.receiving import RECEIVE_TIMEOUT
from moothall.identity import PublicKey
from moothall.wire.agentchat.market import Status
from moothall.wire.agentchat.server import DeliveryStatus

Result = TypeVar("Result")
Class = TypeVar("Class", bound=type)


class BackgroundLoop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="moothall", daemon=True)
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C in a notebook must not leave the operation behind
            raise

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def documented_by(original: type) -> Callable[[Class], Class]:
    """Take over the docstrings of the class for asyncio, so that what a method does is said in one place."""

    def document(own: Class) -> Class:
        for name, member in vars(own).items():
            if not name.startswith("_") and member.__doc__ is None:
                member.__doc__ = getattr(original, name).__doc__
        return own

    return document


@documented_by(Message)
class SyncMessage(ChatLine):
    """A message that is answered without `await`."""

    __slots__ = ("_loop", "_message")

    def __init__(self, message: Message, loop: BackgroundLoop) -> None:
        super().__init__(*message.frame())
        self._message = message
        self._loop = loop

    def reply(self, content: str) -> str | None:
        return self._loop.wait(self._message.reply(content))

    def seen(self) -> bool:
        return self._loop.wait(self._message.seen())

    def done(self) -> bool:
        return self._loop.wait(self._message.done())

    def failed(self, reason: str | None = None) -> bool:
        return self._loop.wait(self._message.failed(reason))


@documented_by(Delivery)
class SyncDelivery:
    """A message that was sent with `receipt=True`, without `await`."""

    __slots__ = ("_delivery", "_loop")

    def __init__(self, delivery: Delivery, loop: BackgroundLoop) -> None:
        self._delivery = delivery
        self._loop = loop

    def __repr__(self) -> str:
        return f"<Sync{repr(self._delivery)[1:]}"

    @property
    def id(self) -> str | None:
        return self._delivery.id

    @property
    def to(self) -> str:
        return self._delivery.to

    @property
    def recipients(self) -> int | None:
        return self._delivery.recipients

    @property
    def statuses(self) -> Mapping[str, DeliveryStatus]:
        return self._delivery.statuses

    @property
    def reasons(self) -> Mapping[str, str]:
        return self._delivery.reasons

    @property
    def counts(self) -> Mapping[DeliveryStatus, int]:
        return self._delivery.counts

    @property
    def is_settled(self) -> bool:
        return self._delivery.is_settled

    @property
    def is_delivered(self) -> bool:
        return self._delivery.is_delivered

    def delivered(self, timeout: float = DELIVERY_TIMEOUT) -> bool:
        return self._loop.wait(self._delivery.delivered(timeout))

    def wait_for(self, status: DeliveryStatus, timeout: float = DELIVERY_TIMEOUT) -> DeliveryReceipt:
        return self._loop.wait(self._delivery.wait_for(status, timeout))


@documented_by(Proposal)
class SyncProposal(Deal):
    """A deal one can act on without `await`."""

    __slots__ = ("_loop", "_proposal")

    def __init__(self, proposal: Proposal, loop: BackgroundLoop) -> None:
        super().__init__(proposal.facts())
        self._proposal = proposal
        self._loop = loop

    def accept(
        self, *, stake: int | None = None, payment_code: str | None = None, timeout: float | None = None
    ) -> None:
        self._loop.wait(self._proposal.accept(stake=stake, payment_code=payment_code, timeout=timeout))

    def reject(self, reason: str | None = None, *, timeout: float | None = None) -> None:
        self._loop.wait(self._proposal.reject(reason, timeout=timeout))

    def complete(self, proof: str | None = None, *, timeout: float | None = None) -> None:
        self._loop.wait(self._proposal.complete(proof, timeout=timeout))

    def dispute(self, reason: str, *, timeout: float | None = None) -> None:
        self._loop.wait(self._proposal.dispute(reason, timeout=timeout))

    def file_dispute(
        self, reason: str, *, nonce: str | None = None, timeout: float | None = None
    ) -> "SyncDispute":
        found = self._loop.wait(self._proposal.file_dispute(reason, nonce=nonce, timeout=timeout))
        return SyncDispute(found, self._loop)

    def outcome(self, timeout: float | None = None) -> Status:
        return self._loop.wait(self._proposal.outcome(timeout))


@documented_by(Dispute)
class SyncDispute(Filing):
    """A dispute one can act on without `await`."""

    __slots__ = ("_dispute", "_loop")

    def __init__(self, dispute: Dispute, loop: BackgroundLoop) -> None:
        super().__init__(dispute.docket())
        self._dispute = dispute
        self._loop = loop

    def reveal(self, *, timeout: float | None = None) -> None:
        self._loop.wait(self._dispute.reveal(timeout=timeout))

    def submit(self, items: Items, statement: str = "", *, timeout: float | None = None) -> None:
        self._loop.wait(self._dispute.submit(items, statement, timeout=timeout))

    def outcome(self, timeout: float | None = None) -> Ruling:
        return self._loop.wait(self._dispute.outcome(timeout))

    def case(self, *, timeout: float | None = None) -> dict[str, Any]:
        return self._loop.wait(self._dispute.case(timeout=timeout))


@documented_by(FileOffer)
class SyncFileOffer(OfferFacts):
    """Files that another agent offers, which can be accepted or rejected without `await`."""

    __slots__ = ("_loop", "_original")

    def __init__(self, original: FileOffer, loop: BackgroundLoop) -> None:
        super().__init__(*original.facts())
        self._original = original
        self._loop = loop

    def accept(
        self,
        folder: str | os.PathLike[str],
        *,
        executable: Iterable[str] = (),
        progress: OnProgress | None = None,
        timeout: float = RECEIVE_TIMEOUT,
    ) -> ReceivedFiles:
        return self._loop.wait(
            self._original.accept(folder, executable=executable, progress=progress, timeout=timeout)
        )

    def reject(self, reason: str = "") -> None:
        self._loop.wait(self._original.reject(reason))


@documented_by(FileTransfer)
class SyncFileTransfer(TransferFacts):
    """Files that this agent has offered to another one, without `await`."""

    __slots__ = ("_loop", "_original")

    def __init__(self, original: FileTransfer, loop: BackgroundLoop) -> None:
        super().__init__(*original.facts())
        self._original = original
        self._loop = loop

    def outcome(self, timeout: float | None = None) -> None:
        self._loop.wait(self._original.outcome(timeout))

    def cancel(self) -> None:
        self._loop.wait(self._original.cancel())


@documented_by(Admin)
class SyncAdmin:
    """What the operator of a hall can do, without `await`."""

    def __init__(self, admin: Admin, loop: BackgroundLoop) -> None:
        self._admin = admin
        self._loop = loop

    def approve(self, key: PublicKey | str, note: str | None = None, *, timeout: float | None = None) -> str:
        return self._loop.wait(self._admin.approve(key, note, timeout=timeout))

    def revoke(self, agent: PublicKey | str, *, timeout: float | None = None) -> None:
        self._loop.wait(self._admin.revoke(agent, timeout=timeout))

    def list_approved(self, *, timeout: float | None = None) -> list[Approved]:
        return self._loop.wait(self._admin.list_approved(timeout=timeout))

    def kick(self, agent: str, reason: str | None = None, *, timeout: float | None = None) -> None:
        self._loop.wait(self._admin.kick(agent, reason, timeout=timeout))

    def ban(self, agent: str, reason: str | None = None, *, timeout: float | None = None) -> None:
        self._loop.wait(self._admin.ban(agent, reason, timeout=timeout))

    def unban(self, agent: str, *, timeout: float | None = None) -> None:
        self._loop.wait(self._admin.unban(agent, timeout=timeout))

    def bans(self, *, timeout: float | None = None) -> Bans:
        return self._loop.wait(self._admin.bans(timeout=timeout))

    def budgets(self, day: str | None = None, *, timeout: float | None = None) -> Budgets:
        return self._loop.wait(self._admin.budgets(day, timeout=timeout))

    def set_budget(
        self, agent: PublicKey | str | None, tokens: int | None, *, timeout: float | None = None
    ) -> str | None:
        return self._loop.wait(self._admin.set_budget(agent, tokens, timeout=timeout))

    def set_motd(self, motd: str | None, *, kick: bool = False, timeout: float | None = None) -> None:
        self._loop.wait(self._admin.set_motd(motd, kick=kick, timeout=timeout))

    def set_verified(self, agent: str, verified: bool, *, timeout: float | None = None) -> None:
        self._loop.wait(self._admin.set_verified(agent, verified, timeout=timeout))
