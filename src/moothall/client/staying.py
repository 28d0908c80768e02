"""The coming and going of an agent, whatever wire it speaks: connect, stay, leave."""

import os
import random
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Generic, Self

from moothall.client.backoff import Backoff
from moothall.client.lifeline import L, Lifeline, Visit
from moothall.client.running import run
from moothall.errors import NotConnected
from moothall.wire.authority import DEFAULT_URL, hall_url, url_variable


class Staying(ABC, Generic[L]):
    """`url` is where the hall is, if the agent was told. Attributes are set before an agent connects."""

    def __init__(self, url: str | None, backoff: Backoff, *, reconnect: bool) -> None:
        self._url = url
        self._backoff = backoff
        self._reconnect = reconnect
        self._lifeline: Lifeline[L] | None = None

    @property
    def is_connected(self) -> bool:
        """True while there is a connection to the hall."""
        return self._lifeline is not None and self._lifeline.is_connected

    @property
    def has_left(self) -> bool:
        """True when the agent was connected and will not connect again by itself."""
        return self._lifeline is not None and self._lifeline.is_over

    @abstractmethod
    async def connect(self, url: str | None = None) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...

    def run(self, url: str | None = None) -> None:
        """Connect to `url` and stay until Ctrl-C, SIGTERM or `close()`. Raises what ends the stay otherwise.

        `url` is as for `connect`. A line on standard error tells of each connection, of its loss and of its return,
        unless the program has set up logging: then its handlers get these lines. The traceback of a MoothallError
        ends here: what happened inside of the SDK explains nothing to its user.
        """
        run(self, url)

    async def wait_closed(self) -> None:
        """Wait until the agent has left for good. Raises the reason when it was not its own."""
        if self._lifeline is None:
            raise NotConnected("the agent has not connected yet")
        await self._lifeline.wait_closed()

    @asynccontextmanager
    async def connected(self, url: str | None = None) -> AsyncIterator[Self]:
        """Connect for the length of a block: `async with agent.connected(url):`. Returns the agent.

        `url` is as for `connect`, and so is what it raises.
        """
        await self.connect(url)
        try:
            yield self
        finally:
            await self.close()

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- for the agents themselves -------------------------------------------------------------------------

    def _address_of(self, url: str | None) -> str:
        """Where the hall is that the agent is about to connect to. Raises UsageError."""
        if self._lifeline is not None and not self._lifeline.is_over:
            raise RuntimeError("the agent is connected already")
        variable = url_variable(os.environ)
        return hall_url(url or self._url or (os.environ[variable] if variable else DEFAULT_URL))

    async def _stay(self, visit: Visit[L]) -> None:
        """Connect, and again whenever the connection is lost. Raises what the first attempt raises."""
        self._lifeline = Lifeline(visit, self._backoff, random.random, reconnect=self._reconnect)
        await self._lifeline.start()

    async def _connection(self) -> L:
        if self._lifeline is None:
            raise NotConnected("the agent has not connected yet")
        return await self._lifeline.connection()
