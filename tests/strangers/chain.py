"""A stand-in for the chain that the reference node asks for the time: it says which slot it is."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tests.strangers.sandbox import PATIENCE

_ANSWER = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}"


class Chain:
    def __init__(self) -> None:
        self.url = ""
        self._slot = 0
        self._asked = asyncio.Condition()
        self._answered = 0  # with this slot

    async def set(self, slot: int) -> None:
        """Until the node knows: it has got this slot, and has asked again."""
        async with asyncio.timeout(PATIENCE), self._asked:
            self._slot = slot
            self._answered = 0
            await self._asked.wait_for(lambda: self._answered >= 2)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                size = head.partition("content-length:")[2].partition("\r\n")[0]
                question = json.loads(await reader.readexactly(int(size)))
                async with self._asked:
                    answer = json.dumps({"jsonrpc": "2.0", "id": question["id"], "result": self._slot})
                    writer.write(_ANSWER.format(len(answer), answer).encode())
                    self._answered += 1
                    self._asked.notify_all()
        writer.close()


@asynccontextmanager
async def chain() -> AsyncIterator[Chain]:
    made = Chain()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        server.close()
