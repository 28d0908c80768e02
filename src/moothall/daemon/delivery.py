"""Carries lines from the outbox to the hall, one after the other."""

import asyncio
import logging
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from moothall.daemon.drafts import Draft, Unreadable
from moothall.daemon.outbox import Entry, Outbox
from moothall.errors import (
    ConnectionLost,
    MoothallError,
    NotConnected,
    RateLimited,
    Refusal,
    ReplyTimeout,
)

POLL: Final = 0.5  # seconds (agentchat wire 19.2)
log: Final = logging.getLogger("moothall.daemon")


class Confirmed(NamedTuple):
    """What is known of a message that the hall has taken."""

    msg_id: str | None
    recipients: int | None = None  # None from a hall without delivery receipts
    delivered: bool | None = None  # True if all of them have it; None if that is not known in time


class Sender(Protocol):
    """What an agent is needed for here."""

    @property
    def is_connected(self) -> bool: ...

    @property
    def rooms(self) -> frozenset[str]: ...

    async def join(self, channel: str) -> object: ...

    async def send(self, draft: Draft) -> Confirmed: ...


class Delivery:
    def __init__(self, sender: Sender, outbox: Outbox) -> None:
        self._sender = sender
        self._outbox = outbox
        self._stopping = asyncio.Event()
        self._complained = False

    def stop(self) -> None:
        """Let `run` end after the line that is on its way."""
        self._stopping.set()

    async def run(self) -> None:
        """Look into the outbox again and again, until `stop`."""
        while not self._stopping.is_set():
            try:
                await self.deliver()
                self._complained = False
            except OSError as error:
                if not self._complained:
                    self._complained = True
                    log.warning("the outbox cannot be read, or not noted: %s", error.strerror)
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL):
                    await self._stopping.wait()

    async def deliver(self) -> None:
        """Send every line that is there. Stop while there is no connection. Raises OSError."""
        self._outbox.recover()
        while self._may_send and (entry := self._outbox.next()) is not None:
            if isinstance(entry.what, Unreadable):
                self._outbox.reject(entry, entry.what.reason, "unreadable")
                log.warning("a line of the outbox was rejected: it is not a message")
            elif not await self._carry(entry, entry.what):
                return
        self._outbox.empty()

    @property
    def _may_send(self) -> bool:
        return self._sender.is_connected and not self._stopping.is_set()

    async def _carry(self, entry: Entry, draft: Draft) -> bool:
        """False if the line has to wait."""
        try:
            if draft.to.startswith("#") and draft.to not in self._sender.rooms:
                await self._sender.join(draft.to)
        except (RateLimited, NotConnected, ConnectionLost, ReplyTimeout):
            return False  # nothing was sent
        except MoothallError as error:
            self._refuse(entry, draft, error)
            return True
        self._outbox.begin(entry)
        try:
            confirmed = await self._sender.send(draft)
        except (RateLimited, NotConnected):
            self._outbox.put_back()
            return False
        except (ConnectionLost, ReplyTimeout) as error:
            reason = f"whether the hall got this line is unknown: {error}"
            self._outbox.reject(entry, reason, "unknown")
            log.warning("whether the hall got a message to %s is unknown: %s", draft.to, error)
        except MoothallError as error:
            self._refuse(entry, draft, error)
        else:
            self._outbox.sent(entry, draft, confirmed._asdict())
            log.info("sent a message to %s", draft.to)
        return True

    def _refuse(self, entry: Entry, draft: Draft, error: MoothallError) -> None:
        reason = f"{error.code}: {error}" if isinstance(error, Refusal) else str(error)
        self._outbox.reject(entry, reason, "refused")
        log.warning("a message to %s was refused: %s", draft.to, reason)
