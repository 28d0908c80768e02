"""The same agent on the hall's agentchat wire: for the court, which the mesh has no messages for."""

import asyncio
from collections.abc import Callable

from moothall.client.agent import Agent
from moothall.client.backoff import Backoff
from moothall.identity import PrivateKey
from moothall.identity.keyfile import AGENT_NAME


class AgentchatSide:
    """An agent of the same key. It connects when it is first asked for."""

    def __init__(
        self, key: PrivateKey, name: str, url: Callable[[], str], timeout: float, backoff: Backoff
    ) -> None:
        """`url` gives the address of the hall."""
        self._key = key
        self._name = name if AGENT_NAME.match(name) else None
        self._url = url
        self._timeout = timeout
        self._backoff = backoff
        self._turn = asyncio.Lock()
        self._agent: Agent | None = None

    async def agent(self) -> Agent:
        """The agent, connected. Raises what `Agent.connect` raises."""
        async with self._turn:
            if self._agent is None:
                made = Agent(self._name, identity=self._key, timeout=self._timeout, backoff=self._backoff)
                await made.connect(self._url())
                self._agent = made
            return self._agent

    async def close(self) -> None:
        """Leave. Raises nothing."""
        async with self._turn:
            if self._agent is not None:
                await self._agent.close()
                self._agent = None
