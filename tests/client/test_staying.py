"""The coming and going of an agent, on a made-up wire."""

import asyncio

import pytest

from moothall.client.backoff import Backoff
from moothall.client.staying import Staying
from moothall.errors import ConnectionFailed, ConnectionLost, MoothallError, NotConnected, UsageError


class Line:
    def __init__(self) -> None:
        self.opened_at = asyncio.get_running_loop().time()
        self.is_open = True
        self.over = asyncio.Event()

    async def lost(self) -> MoothallError:
        await self.over.wait()
        return ConnectionLost("gone")

    async def close(self) -> None:
        self.is_open = False
        self.over.set()


class Visit:
    def __init__(self, url: str) -> None:
        self.url = url
        self.lines: list[Line] = []

    async def dial(self) -> Line:
        if self.url.startswith("ws://nowhere"):
            raise ConnectionFailed("cannot reach nowhere")
        self.lines.append(Line())
        return self.lines[-1]

    async def settle_in(self, connection: Line, *, again: bool) -> None: ...

    def arrived(self, *, again: bool) -> None: ...

    def departed(self, error: ConnectionLost) -> None: ...

    def ended(self, error: BaseException | None) -> None: ...


class Walker(Staying[Line]):
    def __init__(self, url: str | None = None, *, reconnect: bool = True) -> None:
        super().__init__(url, Backoff(), reconnect=reconnect)
        self.visit = Visit("")

    async def connect(self, url: str | None = None) -> None:
        self.visit = Visit(self._address_of(url))
        await self._stay(self.visit)

    async def close(self) -> None:
        if self._lifeline is not None:
            await self._lifeline.close()

    async def line(self) -> Line:
        return await self._connection()


async def test_an_agent_comes_stays_and_leaves() -> None:
    walker = Walker("hall.example")
    with pytest.raises(NotConnected):
        await walker.line()
    with pytest.raises(NotConnected):
        await walker.wait_closed()
    assert (walker.is_connected, walker.has_left) == (False, False)
    async with walker as same:
        assert same is walker
        assert walker.visit.url == "ws://hall.example:6667"
        assert await walker.line() is walker.visit.lines[0]
        assert (walker.is_connected, walker.has_left) == (True, False)
        with pytest.raises(RuntimeError, match="already"):
            await walker.connect()
    assert (walker.is_connected, walker.has_left) == (False, True)
    await walker.wait_closed()
    async with walker.connected("ws://other.example:7000"):  # an agent that has left may come again
        assert walker.visit.url == "ws://other.example:7000"


async def test_the_environment_names_the_hall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOOTHALL_URL", "ws://127.0.0.1:7007")
    async with Walker() as walker:
        assert walker.visit.url == "ws://127.0.0.1:7007"


async def test_errors_of_the_first_connection_are_raised() -> None:
    with pytest.raises(ConnectionFailed):
        await Walker("ws://nowhere").connect()
    with pytest.raises(UsageError):
        await Walker("ftp://hall.example").connect()


async def test_without_reconnect_a_lost_connection_is_the_end() -> None:
    walker = Walker("ws://hall.example", reconnect=False)
    await walker.connect()
    walker.visit.lines[0].over.set()
    with pytest.raises(ConnectionLost):
        await walker.wait_closed()
    assert walker.has_left
