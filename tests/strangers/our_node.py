"""`moothall mesh node` in place of the reference node: the same command line, the same interface."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import ClassVar, Protocol

from websockets.asyncio.client import connect

from moothall.p2p.multiaddr import Multiaddr
from tests.strangers.node_program import NodeProgram
from tests.strangers.sandbox import PATIENCE
from tests.support.server import PROGRAM, environment


class OurNode(NodeProgram):
    """Its client reads the inbox from where it was, also after a restart."""

    READY: ClassVar[str] = "  API "

    async def identifies(self, peer: bytes) -> None:
        """Peers send a BEACON when they are connected."""
        await self.knows(peer)

    async def knows(self, agent: bytes) -> None:
        async with asyncio.timeout(PATIENCE), connect(self._uri("/ws/events?")) as events:
            while agent.hex() not in [each["agent_id"] for each in await self.ask("/peers")]:
                await events.recv()

    def _inbox_route(self) -> str:
        cursor = max((got["cursor"] for got in self.inbox), default=0)
        return f"/ws/inbox?after={cursor}&"

    @asynccontextmanager
    async def _process(self) -> AsyncIterator[asyncio.subprocess.Process]:
        process = await asyncio.create_subprocess_exec(
            *(PROGRAM, "mesh", "node", *self.flags(self.state)),
            cwd=self.state,
            env=environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            yield process
        finally:
            process.kill()
            await process.wait()


class StartOurs(Protocol):
    def __call__(self, name: str, seed: bytes, *bootstrap: Multiaddr) -> Awaitable[OurNode]: ...
