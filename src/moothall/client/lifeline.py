"""A connection that is taken up again when it is lost.

Some endings are final. An agent that was displaced by a takeover, kicked, banned or refused does not reconnect by
itself: it would fight the operator, or another copy of itself.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from moothall.client.backoff import Backoff
from moothall.client.logs import log
from moothall.errors import (
    CaptchaExpired,
    ConnectionFailed,
    ConnectionLost,
    InternalError,
    MoothallError,
    NotConnected,
    RateLimited,
    ReplyTimeout,
    Unavailable,
    VerificationExpired,
)

# What may be different the next time.
_PASSING: Final = (
    ConnectionFailed,
    ConnectionLost,
    ReplyTimeout,
    RateLimited,
    VerificationExpired,
    CaptchaExpired,
    InternalError,
    Unavailable,
)


class Line(Protocol):
    """One connection, from the proof of the agent's key to its end."""

    @property
    def opened_at(self) -> float:
        """The loop's time."""

    @property
    def is_open(self) -> bool:
        """True until the connection ends."""

    async def lost(self) -> MoothallError:
        """Why the connection ended, when it has."""

    async def close(self) -> None:
        """End it. Raises nothing."""


L = TypeVar("L", bound=Line)


class Visit(Protocol[L]):
    """What is done on the way in and on the way out."""

    async def dial(self) -> L:
        """A new connection. Raises MoothallError."""

    async def settle_in(self, connection: L, *, again: bool) -> None:
        """Put everything in place on a new connection, before other callers use it. Raises MoothallError."""

    def arrived(self, *, again: bool) -> None:
        """The connection is in use."""

    def departed(self, error: ConnectionLost) -> None:
        """The connection is gone, and another one will be tried."""

    def ended(self, error: BaseException | None) -> None:
        """The connection is gone, and no other one will be tried."""


class Lifeline(Generic[L]):
    def __init__(
        self, stay: Visit[L], backoff: Backoff, random: Callable[[], float], *, reconnect: bool
    ) -> None:
        self._stay = stay
        self._backoff = backoff
        self._random = random
        self._reconnect = reconnect
        self._connection: L | None = None
        self._ready = asyncio.Event()  # a connection is in place, or there will be none
        self._attempt = 0
        self._error: BaseException | None = None
        self.is_over = False
        self._keeping: asyncio.Task[None] | None = None

    @property
    def is_connected(self) -> bool:
        return self._connection is not None and self._connection.is_open

    async def start(self) -> None:
        """The first connection: what goes wrong here is for the caller to know."""
        try:
            connection = await self._stay.dial()
            await self._take(connection, again=False)
        except BaseException:
            self.is_over = True
            self._ready.set()
            raise
        self._keeping = asyncio.create_task(self._keep(connection))
        self._keeping.add_done_callback(self._end)

    async def connection(self) -> L:
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

    async def _take(self, connection: L, *, again: bool) -> None:
        try:
            await self._stay.settle_in(connection, again=again)
        except BaseException:
            await connection.close()
            raise
        self._connection = connection
        self._ready.set()
        self._stay.arrived(again=again)

    async def _keep(self, connection: L) -> None:
        while True:
            error = await connection.lost()
            self._connection = None
            if not self._reconnect or not isinstance(error, ConnectionLost):
                raise error
            self._ready.clear()
            if asyncio.get_running_loop().time() - connection.opened_at >= self._backoff.steady:
                self._attempt = 0
            self._stay.departed(error)
            connection = await self._come_back()

    async def _come_back(self) -> L:
        while True:
            await asyncio.sleep(self._backoff.delay(self._attempt, self._random))
            self._attempt += 1
            try:
                connection = await self._stay.dial()
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
