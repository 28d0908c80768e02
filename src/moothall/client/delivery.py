"""Delivery receipts: what became of a message, on the side of its sender and of its recipients.

A sender gets a `Delivery` from `Agent.send(..., receipt=True)`. A recipient says SEEN by itself when a handler gets
the message, CLAIMED when the floor is granted, and DONE or FAILED when its code says so. The receipts of deals are
something else: see `ratings`.
"""

# ruff: noqa: ASYNC109  # every operation has a timeout, so that no caller waits for ever

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal
from weakref import WeakValueDictionary

from moothall.client.handlers import Handlers
from moothall.client.logs import log
from moothall.client.pace import FramePace
from moothall.client.requests import Exchange
from moothall.client.session import Session
from moothall.errors import MoothallError, NotConnected, NotOffered, ReplyTimeout, UsageError
from moothall.wire.agentchat import client, server
from moothall.wire.agentchat.client import ReportedStatus
from moothall.wire.agentchat.server import DeliveryStatus

RECEIPTS: Final = "receipts"  # among the features of a hall, and in IDENTIFY
GAPS: Final = "gaps"  # likewise: the hall tells of messages that are missing
DELIVERY_TIMEOUT: Final = 10.0  # seconds
# Messages whose senders asked, and receipts that come before the id of their message
REMEMBERED: Final = 1000
# SEEN is a courtesy that others ask for, and must not use up the frames that a hall allows: 60 in 10 seconds.
SEEN_IN_WINDOW: Final = 20

ReceiptMode = Literal["auto", "manual", "off"]
_FROM: Final[Mapping[ReportedStatus, frozenset[ReportedStatus]]] = {
    "SEEN": frozenset(("SEEN", "CLAIMED", "DONE", "FAILED")),
    "CLAIMED": frozenset(("CLAIMED", "DONE", "FAILED")),
}
MODES: Final = ("auto", "manual", "off")


@dataclass(frozen=True, slots=True)
class DeliveryReceipt:
    """What became of a message at one recipient, or at so many of them."""

    msg_id: str
    status: DeliveryStatus
    to: str  # `@` and the id of the recipient; with `count`, the channel
    of: int  # recipients of the message
    count: int | None = None  # how many of them have had this status by now
    reason: str | None = None


class Delivery:
    """A message that was sent with `receipt=True`, and what is known of it so far."""

    def __init__(self, msg_id: str | None, to: str) -> None:
        self._id = msg_id
        self._to = to
        self._of: int | None = None if msg_id is not None else 0
        self._statuses: dict[str, DeliveryStatus] = {}
        self._reasons: dict[str, str] = {}
        self._counts: dict[DeliveryStatus, int] = {}
        self._first: dict[DeliveryStatus, DeliveryReceipt] = {}  # the first one of each status
        self._changed = asyncio.Event()
        self._ended: BaseException | None = None

    def __repr__(self) -> str:
        return f"<Delivery {self._id} to {self._to}>"

    @property
    def id(self) -> str | None:
        """The message's id. None if the message held callbacks only, and so has no recipients."""
        return self._id

    @property
    def to(self) -> str:
        """The channel or the agent that it was sent to."""
        return self._to

    @property
    def recipients(self) -> int | None:
        """How many recipients it has. None until the first receipt."""
        return self._of

    @property
    def statuses(self) -> Mapping[str, DeliveryStatus]:
        """The last status of each recipient, by `@id`. With more than 50 recipients see `counts`."""
        return MappingProxyType(self._statuses)

    @property
    def reasons(self) -> Mapping[str, str]:
        """Why it was not delivered, or has failed, by `@id` or channel, where that was told."""
        return MappingProxyType(self._reasons)

    @property
    def counts(self) -> Mapping[DeliveryStatus, int]:
        """How many recipients have had each status, where the hall counts them."""
        return MappingProxyType(self._counts)

    @property
    def is_settled(self) -> bool:
        """True if it is known of every recipient whether the message was delivered."""
        counted = self._counts.get("DELIVERED", 0) + self._counts.get("UNDELIVERED", 0)
        return self._of is not None and max(len(self._statuses), counted) >= self._of

    @property
    def is_delivered(self) -> bool:
        """True if every recipient has it, and there is at least one."""
        is_missing = "UNDELIVERED" in self._statuses.values() or self._counts.get("UNDELIVERED", 0) > 0
        return bool(self._of) and self.is_settled and not is_missing

    async def delivered(self, timeout: float = DELIVERY_TIMEOUT) -> bool:
        """Wait until it is known of every recipient whether the message was delivered.

        Returns True if all of them have it, False if one has not or the channel is empty. Raises ReplyTimeout after
        `timeout` seconds, and NotConnected when the agent leaves the hall.
        """
        await self._until(lambda: self.is_settled, timeout, "not all of its recipients have the message")
        return self.is_delivered

    async def wait_for(self, status: DeliveryStatus, timeout: float = DELIVERY_TIMEOUT) -> DeliveryReceipt:
        """Wait until a recipient has had this `status`, such as "SEEN" or "DONE", and return its first receipt.

        Raises ReplyTimeout after `timeout` seconds, and NotConnected when the agent leaves the hall.
        """
        await self._until(lambda: status in self._first, timeout, f"no recipient said {status}")
        return self._first[status]

    async def _until(self, is_so: Callable[[], bool], timeout: float, otherwise: str) -> None:
        try:
            async with asyncio.timeout(timeout):
                while not is_so():
                    if self._ended is not None:
                        raise self._ended
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise ReplyTimeout(f"{otherwise} after {timeout:g} s") from None

    def apply(self, receipt: DeliveryReceipt) -> None:
        """What the hall says of it."""
        self._of = receipt.of
        if receipt.count is None:
            self._statuses[receipt.to] = receipt.status
        else:
            self._counts[receipt.status] = receipt.count
        if receipt.reason is not None:
            self._reasons[receipt.to] = receipt.reason
        self._first.setdefault(receipt.status, receipt)
        self._changed.set()

    def end(self, error: BaseException | None) -> None:
        """The agent has left the hall: nothing more will be known."""
        self._ended = error or NotConnected("the agent left the hall")
        self._changed.set()


class Deliveries:
    """The receipts that an agent waits for, and those that it owes."""

    def __init__(
        self, exchange: Exchange, session: Session, handlers: Handlers, mode: ReceiptMode = "auto"
    ) -> None:
        if mode not in MODES:
            raise UsageError(f'`delivery_receipts` is "auto", "manual" or "off", not {mode!r}')
        self._exchange = exchange
        self._session = session
        self._handlers = handlers
        self._mode = mode
        self._open: WeakValueDictionary[str, Delivery] = WeakValueDictionary()
        self._expected = 0
        self._early: deque[DeliveryReceipt] = deque(maxlen=REMEMBERED)
        # Ids of messages whose senders asked, and what they were told.
        self._asked: dict[str, set[ReportedStatus]] = {}
        self._pace = FramePace(SEEN_IN_WINDOW)
        self.listeners: dict[type, Callable[[Any], None]] = {server.Receipt: self._hear}

    @property
    def features(self) -> tuple[str, ...]:
        """What IDENTIFY says."""
        return (GAPS,) if self._mode == "off" else (RECEIPTS, GAPS)

    # -- as a sender -------------------------------------------------------------------------------

    def require(self) -> None:
        """Raises NotOffered or UsageError if there will be no receipts."""
        if self._mode == "off":
            raise UsageError('this agent takes no part in delivery receipts: make it without "off"')
        if RECEIPTS not in self._session.welcome.features:
            raise NotOffered("this hall gives no delivery receipts; send the message without `receipt`")

    @contextmanager
    def expected(self) -> Iterator[None]:
        """Keep what arrives meanwhile: the first receipt can be here before the id of the message is."""
        self._expected += 1
        try:
            yield
        finally:
            self._expected -= 1
            if not self._expected:
                self._early.clear()

    def open(self, msg_id: str | None, to: str) -> Delivery:
        delivery = Delivery(msg_id, to)
        if msg_id is not None:
            self._open[msg_id] = delivery
            for receipt in self._early:
                if receipt.msg_id == msg_id:
                    delivery.apply(receipt)
        return delivery

    def _hear(self, body: server.Receipt) -> None:
        receipt = DeliveryReceipt(body.msg_id, body.status, body.to, body.of, body.count, body.reason)
        delivery = self._open.get(receipt.msg_id)
        if delivery is not None:
            delivery.apply(receipt)
        elif self._expected:
            self._early.append(receipt)
        self._handlers.tell("on_receipt", receipt)

    def end(self, error: BaseException | None) -> None:
        for delivery in list(self._open.values()):
            delivery.end(error)

    # -- as a recipient ----------------------------------------------------------------------------

    def asked(self, msg_id: str) -> None:
        """The sender of this message wants receipts."""
        self._asked[msg_id] = set()
        if len(self._asked) > REMEMBERED:
            del self._asked[next(iter(self._asked))]

    def got(self, msg_id: str) -> None:
        """A handler has the message."""
        now = asyncio.get_running_loop().time()
        if self._mode == "auto" and self._is_due(msg_id, "SEEN") and self._pace.has_room(now):
            self._pace.reserve(now)
            self._handlers.start(self._courtesy(msg_id, "SEEN"))

    def claimed(self, msg_id: str) -> None:
        """The agent has claimed the message."""
        if self._is_due(msg_id, "CLAIMED"):
            self._handlers.start(self._courtesy(msg_id, "CLAIMED"))

    async def report(
        self,
        msg_id: str,
        status: ReportedStatus,
        reason: str | None = None,
        patience: float | None = None,
    ) -> None:
        self.require()
        if (told := self._asked.get(msg_id)) is not None:
            told.add(status)
        await self._exchange.tell(
            client.Receipt(msg_id=msg_id, status=status, reason=reason), server.Ack, patience=patience
        )

    def _is_due(self, msg_id: str, status: ReportedStatus) -> bool:
        """True if the sender asked, and was told neither this status nor one that comes after it."""
        told = self._asked.get(msg_id)
        return told is not None and not told.intersection(_FROM[status])

    def _courtesy(self, msg_id: str, status: ReportedStatus) -> Coroutine[Any, Any, None]:
        self._asked[msg_id].add(status)
        return self._send(msg_id, status)

    async def _send(self, msg_id: str, status: ReportedStatus) -> None:
        try:
            await self.report(msg_id, status)
        except MoothallError as error:
            log.debug("no receipt for %s: %s", msg_id, error)
