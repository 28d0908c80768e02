"""The lane on which the chunks of all transfers of an agent leave: in turn, and 200 ms apart.

A hall takes ten chunks and six other frames a second, and 4 MB a second from one key. Five chunks a second stay
below all of these, also where a chunk full of commas counts as 660 KB.
"""

import asyncio
from typing import Final

from moothall.client.pace import CHUNK_SPACING
from moothall.client.requests import Exchange, Request
from moothall.wire.agentchat import client, server

PATIENCE: Final = 60.0  # seconds for the hall to take a chunk: a line may be slow


class ChunkLane:
    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._turn = asyncio.Lock()  # the first to ask is the first to send, so transfers take turns
        self._free_at = float("-inf")

    async def send(self, to: str, content: str) -> None:
        """Return when the hall has taken the chunk. Raises a Refusal, or what ends a connection."""
        clock = asyncio.get_running_loop().time
        async with self._turn:
            await asyncio.sleep(self._free_at - clock())
            self._free_at = clock() + CHUNK_SPACING
        chunk = client.FileChunk(to=to, content=content)
        request = Request(chunk, lambda body: isinstance(body, server.Ack), may_be_silent=True)
        await self._exchange.request(request, PATIENCE)
