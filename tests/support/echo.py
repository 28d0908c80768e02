"""The hall's own gateway with an echo behind it: `python -m tests.support.echo PORT`.

For conformance suites, which want every message back as it came, and as the ceiling of the benchmarks: what
the gateway costs when the hall costs nothing. Tests run it in their own event loop with `running`.
"""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

import uvloop

from moothall.gateways.connection import Connection
from moothall.gateways.port import PATIENCE, Patience, Port
from moothall.gateways.room import Lobby
from moothall.settings import Settings
from moothall.wire.websocket import BINARY, INTERNAL_ERROR, encode_frame, encode_text

MAX_MESSAGE: Final = 64 * 1024 * 1024
# Suites send a batch of their largest messages before they read the first one back.
OUTBOX_LIMIT: Final = 16 * MAX_MESSAGE

# No pings of ours: a suite expects nothing but what it sent.
SETTINGS: Final = Settings(port=0, max_frame=MAX_MESSAGE, outbox_limit=OUTBOX_LIMIT, ping_interval=0)


class Echo:
    """A room where everybody hears only themselves."""

    def connect(
        self, link: Connection, ip: str, user_agent: str, *, is_loopback: bool, host: str
    ) -> Connection | None:
        return link

    def admit(self, ip: str, frames: float, *, is_loopback: bool) -> bool:
        return True

    def receive_control(self, guest: Connection, size: int) -> bool:
        return True

    def receive_piece(self, guest: Connection, size: int) -> None:
        pass

    def receive(self, guest: Connection, payload: bytes) -> None:
        guest.put_frame(encode_text(payload))

    def receive_binary(self, guest: Connection, payload: bytes) -> None:
        guest.put_frame(encode_frame(BINARY, payload))

    def waiting_bytes(self, guest: Connection) -> int:
        return 0

    def disconnect(self, guest: Connection) -> None:
        pass

    def fail(self, guest: Connection) -> None:
        guest.close(INTERNAL_ERROR, "Internal error")

    def note(self, event: str, **facts: object) -> None:
        pass

    def turn_away(self, ip: str, *, is_news: bool) -> None:
        pass


class Journal:
    """A log that remembers: the names of the events, and the facts of each."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, dict[str, object]]] = []

    def info(self, event: str, **facts: object) -> None:
        self.entries.append((event, facts))

    warning = info

    @property
    def events(self) -> list[str]:
        return [event for event, _ in self.entries]


@asynccontextmanager
async def running(
    room: Lobby | None = None,
    log: Journal | None = None,
    patience: Patience = PATIENCE,
    **chosen: Any,
) -> AsyncIterator[Port]:
    """The gateway in this event loop, on a free port of 127.0.0.1, with an echo unless told otherwise."""
    port = Port(room or Echo(), replace(SETTINGS, **chosen), log or Journal(), patience=patience)
    await port.open()
    try:
        yield port
    finally:
        await port.close("Server shutting down")


async def serve(number: int) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for wanted in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(wanted, stop.set)
    async with running(port=number) as port:
        host, bound = port.address
        sys.stdout.write(f"echo listening on ws://{host}:{bound}\n")
        sys.stdout.flush()
        await stop.wait()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
