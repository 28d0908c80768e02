"""The connection of a model to a keep server: one for all calls, with a key that stays (keep wire 13)."""

import os
from typing import TYPE_CHECKING, Final

from moothall.errors import UsageError

if TYPE_CHECKING:
    from moothall.keep import AsyncKeepClient

HOST_VARIABLE: Final = "KEEP_HOST"
PORT_VARIABLE: Final = "KEEP_PORT"
SRC_VARIABLE: Final = "KEEP_SRC"
DEFAULT_HOST: Final = "localhost"
DEFAULT_PORT: Final = "9009"
DEFAULT_SRC: Final = "bot:mcp-agent"
KEY_FILE: Final = "~/.keep/mcp.pem"


class KeepLine:
    """Connects when it is needed."""

    def __init__(self) -> None:
        self._client: AsyncKeepClient | None = None

    @property
    def place(self) -> tuple[str, int]:
        port = os.environ.get(PORT_VARIABLE) or DEFAULT_PORT
        if not port.isdecimal() or not 0 < int(port) < 65536:
            raise UsageError(f"{PORT_VARIABLE} is a port, from 1 to 65535. Ask the user to correct it.")
        return os.environ.get(HOST_VARIABLE) or DEFAULT_HOST, int(port)

    async def client(self, src: str | None = None) -> "AsyncKeepClient":
        """Connected. Raises OSError."""
        from moothall.keep import AsyncKeepClient, key_from_file

        wanted = src or os.environ.get(SRC_VARIABLE) or DEFAULT_SRC
        client = self._client
        if client is None or (src is not None and client.src != wanted) or not client.is_connected:
            await self.close()
            host, port = self.place
            client = AsyncKeepClient(host, port, key_from_file(KEY_FILE, create=True), src=wanted)
            await client.connect()
            self._client = client
            await client.send("", wait_reply=True)  # the server knows `src` from now on
        return client

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.disconnect()
