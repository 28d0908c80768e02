"""Staying connected: when a connection is lost, wait, connect again, and put everything back in place.

Some endings are final. An agent that was displaced by a takeover, kicked, banned or refused does not reconnect by
itself: it would fight the operator, or another copy of itself.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Final

from msgspec import UNSET

from moothall.client.backoff import Backoff
from moothall.client.connection import Applicant, HallConnection, shown_url, was_too_fast
from moothall.client.dispatch import Dispatch, enter
from moothall.client.events import Gap, MissedIn
from moothall.client.handlers import Handlers
from moothall.client.logs import log
from moothall.client.memory import Mark, Memory, Replayed, find_missed
from moothall.client.requests import Exchange, patiently
from moothall.client.session import Session
from moothall.errors import (
    CaptchaExpired,
    ConnectionFailed,
    ConnectionLost,
    InternalError,
    NotConnected,
    RateLimited,
    Refusal,
    ReplyTimeout,
    VerificationExpired,
)
from moothall.wire.agentchat import client, server

# What may be different the next time.
_PASSING: Final = (
    ConnectionFailed,
    ConnectionLost,
    ReplyTimeout,
    RateLimited,
    VerificationExpired,
    CaptchaExpired,
    InternalError,
)
NOTHING_HEARD: Final = Mark(frozenset(), 0)


class Stay:
    """An agent's stay in a hall: coming in, coming back, and what is put in order each time."""

    def __init__(
        self,
        url: str,
        applicant: Callable[[], Applicant],
        session: Session,
        memory: Memory,
        dispatch: Dispatch,
        handlers: Handlers,
        patience: float,
    ) -> None:
        self._url = url
        self._applicant = applicant
        self._session = session
        self._memory = memory
        self._dispatch = dispatch
        self._handlers = handlers
        self._patience = patience
        self._lost_at: datetime | None = None
        self._marks: dict[str, Mark] = {}

    async def dial(self, *, paced: bool) -> HallConnection:
        """A new connection, introduced and welcomed."""
        return await HallConnection.open(
            self._url, self._applicant(), self._dispatch, patience=self._patience, paced=paced
        )

    async def settle_in(self, connection: HallConnection, *, again: bool) -> Gap | None:
        """Put everything in place on a new connection, before other callers use it."""

        async def this_one() -> HallConnection:
            return connection

        exchange = Exchange(this_one, self._patience)
        if self._session.presence is not None:
            await patiently(partial(self._restore_presence, exchange))
        if again:
            return await self._catch_up(exchange)
        for channel in list(self._session.wanted):
            await patiently(partial(enter, exchange, channel))
        return None

    def arrived(self, gap: Gap | None) -> None:
        """The connection is in use."""
        how, own = "connected" if gap is None else "reconnected", self._session
        log.info("%s to %s as %s (%s)", how, shown_url(self._url), own.address, own.name)
        self._handlers.tell("on_connect", self._session.welcome)
        if gap is None:
            return
        self._lost_at = None
        self._marks.clear()
        self._dispatch.report(gap)
        for message in gap.missed:
            self._dispatch.pass_on(message)

    def departed(self, error: ConnectionLost) -> None:
        """The connection is gone, and another one will be tried."""
        self._lost_at = datetime.now(UTC)
        self._marks = {channel: self._memory.mark(channel) for channel in self._session.wanted}
        self._session.rooms.clear()
        self._dispatch.lost(error)
        log.warning("disconnected: %s; reconnecting", error)
        self._handlers.tell("on_disconnect", error)

    def ended(self, error: BaseException | None) -> None:
        """The connection is gone, and no other one will be tried."""
        self._session.rooms.clear()
        self._dispatch.end(error)
        log.info("disconnected from %s", shown_url(self._url))
        if error is not None:
            self._handlers.tell_last("on_disconnect", error)
        self._handlers.watches.end(error)

    # -- inside ------------------------------------------------------------------------------------

    async def _restore_presence(self, exchange: Exchange) -> None:
        if self._session.presence is not None:
            status, text = self._session.presence
            message = client.SetPresence(status=status, status_text=UNSET if text is None else text)
            await exchange.tell(message, server.Ack)

    async def _catch_up(self, exchange: Exchange) -> Gap:
        """Enter every channel again and find out what was said there meanwhile."""
        channels: dict[str, MissedIn] = {}
        replayed: list[Replayed] = []
        for channel in list(self._session.wanted):
            try:
                repeated = await patiently(partial(self._dispatch.ask_again, exchange, channel))
            except Refusal as refusal:
                log.warning("cannot enter %s again: %s", channel, refusal)
                channels[channel] = MissedIn((), complete=False)
                continue
            channels[channel] = find_missed(self._marks.get(channel, NOTHING_HEARD), repeated)
            replayed += repeated
        # Only now: if the connection is lost half-way, all of it is still news the next time.
        self._dispatch.remember(replayed)
        until = datetime.now(UTC)
        return Gap(self._lost_at or until, until, "reconnected", channels)


class Lifeline:
    def __init__(self, stay: Stay, backoff: Backoff, random: Callable[[], float], *, reconnect: bool) -> None:
        self._stay = stay
        self._backoff = backoff
        self._random = random
        self._reconnect = reconnect
        self._connection: HallConnection | None = None
        self._ready = asyncio.Event()  # a connection is in place, or there will be none
        self._attempt = 0
        self._paced = False
        self._error: BaseException | None = None
        self.is_over = False
        self._keeping: asyncio.Task[None] | None = None

    @property
    def is_connected(self) -> bool:
        return self._connection is not None and self._connection.is_open

    async def start(self) -> None:
        """The first connection: what goes wrong here is for the caller to know."""
        try:
            connection = await self._stay.dial(paced=False)
            await self._take(connection, again=False)
        except BaseException:
            self.is_over = True
            self._ready.set()
            raise
        self._keeping = asyncio.create_task(self._keep(connection))
        self._keeping.add_done_callback(self._end)

    async def connection(self) -> HallConnection:
        """The one in use, when there is one; how long to wait for it is the caller's business."""
        if self._connection is None and not self.is_over:
            await self._ready.wait()
        if self._connection is None:
            why = f": {self._error}" if self._error is not None else ""
            raise NotConnected(f"the agent is not connected{why}") from self._error
        return self._connection

    async def close(self) -> None:
        connection = self._connection
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait((self._keeping,))
        if connection is not None:
            await connection.close()

    async def wait_closed(self) -> None:
        """Wait until the lifeline ends. Raises the error that ended it, if there is one."""
        if self._keeping is not None:
            await asyncio.wait((self._keeping,))
        if self._error is not None:
            raise self._error

    # -- inside ------------------------------------------------------------------------------------

    async def _take(self, connection: HallConnection, *, again: bool) -> None:
        try:
            gap = await self._stay.settle_in(connection, again=again)
        except BaseException:
            await connection.close()
            raise
        self._connection = connection
        self._ready.set()
        self._stay.arrived(gap)

    async def _keep(self, connection: HallConnection) -> None:
        while True:
            error = await connection.lost()
            self._connection = None
            if not self._reconnect or not isinstance(error, ConnectionLost):
                raise error
            self._ready.clear()
            self._paced = self._paced or was_too_fast(error)
            if asyncio.get_running_loop().time() - connection.opened_at >= self._backoff.steady:
                self._attempt = 0
            self._stay.departed(error)
            connection = await self._come_back()

    async def _come_back(self) -> HallConnection:
        while True:
            await asyncio.sleep(self._backoff.delay(self._attempt, self._random))
            self._attempt += 1
            try:
                connection = await self._stay.dial(paced=self._paced)
                await self._take(connection, again=True)
            except _PASSING as error:
                log.debug("attempt %d: %s", self._attempt, error)
            else:
                return connection

    def _end(self, keeping: "asyncio.Task[None]") -> None:
        self.is_over = True
        self._error = None if keeping.cancelled() else keeping.exception()
        self._connection = None
        self._ready.set()
        self._stay.ended(self._error)
