"""/watch of a real hall: people who only look, some of them with bad manners."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.support.agentchat import AgentChat
from tests.support.server import HallProcess, running_hall
from tests.support.sockets import head

PATIENCE = 30.0
WATCHERS = 12
OUTBOX = 512 * 1024
LIMITS = ("--no-limits", "--set", f"max_watchers={WATCHERS}", "--set", f"outbox_limit={OUTBOX}")

Message = dict[str, Any]


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    with running_hall(tmp_path_factory.mktemp("hall"), *LIMITS) as running:
        yield running


@asynccontextmanager
async def watching(hall: HallProcess, url: str = "", **options: Any) -> AsyncIterator[ClientConnection]:
    async with asyncio.timeout(PATIENCE), connect(url or f"{hall.url}/watch", **options) as connection:
        yield connection


async def until(connection: ClientConnection, kind: str, **fields: Any) -> Message:
    """The next message of this type with these fields."""
    while True:
        message: Message = json.loads(await connection.recv())
        if message["type"] == kind and all(message.get(name) == value for name, value in fields.items()):
            return message


async def metric(hall: HallProcess, name: str) -> float:
    _, _, body = await hall.get("/metrics")
    return next(float(line.split()[1]) for line in body.splitlines() if line.startswith(f"{name} "))


async def test_a_watcher_sees_the_hall_and_is_not_seen(hall: HallProcess) -> None:
    async with await AgentChat.connect(hall.url, "alice") as alice, watching(hall) as watcher:
        await until(watcher, "HALL")
        await alice.join("#general")
        await until(watcher, "AGENT_JOINED", agent=alice.agent_id)
        await alice.say("#general", "hello")
        line = await until(watcher, "MSG", content="hello")
        assert (line["from"], "replay" in line) == (alice.agent_id, False)
        await watcher.send('{"type":"PING"}')
        await until(watcher, "PONG")
        assert await metric(hall, "moothall_watchers") == 1
        assert await metric(hall, "moothall_agents") == 1
        assert [entry["id"] for entry in await alice.list_agents("#general")] == [alice.agent_id]


async def test_no_more_watchers_than_there_are_places(hall: HallProcess) -> None:
    async with AsyncExitStack() as all_of_them:
        for _ in range(WATCHERS):
            watcher = await all_of_them.enter_async_context(watching(hall))
            await until(watcher, "HALL")
        async with watching(hall) as one_more:
            with pytest.raises(ConnectionClosed):
                await one_more.recv()
            assert one_more.close_code == 1013
        async with await AgentChat.connect(hall.url, "alice") as alice:  # agents have places of their own
            assert alice.agent_id
        assert await metric(hall, "moothall_watchers_refused_total") >= 1


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://evil.example:{port}", "http://127.0.0.1:1"]
)
async def test_foreign_pages_may_not_watch(hall: HallProcess, origin: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with watching(hall, origin=origin.format(port=hall.port)):
            pass
    assert refused.value.response.status_code == 403


async def test_a_page_under_a_name_that_was_made_to_point_here_may_not_watch(hall: HallProcess) -> None:
    name = f"evil.example:{hall.port}"
    address = {"host": "127.0.0.1", "port": hall.port}
    with pytest.raises(InvalidStatus) as refused:
        async with watching(hall, url=f"ws://{name}/watch", origin=f"http://{name}", **address):
            pass
    assert refused.value.response.status_code == 403


async def test_a_long_frame_ends_it(hall: HallProcess) -> None:
    async with watching(hall) as watcher:
        await watcher.send("x" * 5000)
        with pytest.raises(ConnectionClosed):
            await until(watcher, "PONG")
        assert watcher.close_code == 1009


async def test_one_that_does_not_read_hurts_only_itself_and_is_told(hall: HallProcess) -> None:
    loop = asyncio.get_running_loop()
    sleeper = socket.socket()
    sleeper.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sleeper.setblocking(False)
    with sleeper:
        await loop.sock_connect(sleeper, ("127.0.0.1", hall.port))
        await loop.sock_sendall(sleeper, head(target="/watch"))
        async with await AgentChat.connect(hall.url, "alice") as alice, watching(hall) as watcher:
            await alice.join("#general")
            before = await metric(hall, "moothall_watcher_gaps_total")
            sent = 0
            while await metric(hall, "moothall_watcher_gaps_total") == before:
                assert sent < 20_000, "it never fell behind"
                for _ in range(200):
                    sent += 1
                    await alice.say("#general", f"{sent} " + "x" * 4000)
                await until(watcher, "MSG", content=f"{sent} " + "x" * 4000)
            assert await metric(hall, "moothall_outbox_peak_bytes") <= OUTBOX
            received = b""
            async with asyncio.timeout(PATIENCE):
                while b'"type":"GAP"' not in received[-200_000:]:
                    received = received[-200_000:] + await loop.sock_recv(sleeper, 1 << 16)
                assert received
                last = received[received.index(b'"type":"GAP"') :]
                while b'"type":"HALL"' not in last:
                    last += await loop.sock_recv(sleeper, 1 << 16)


async def test_it_can_be_turned_off(tmp_path: Path) -> None:
    with running_hall(tmp_path, "--no-page-public") as hall, pytest.raises(InvalidStatus) as refused:
        async with watching(hall):
            pass
    assert refused.value.response.status_code == 404
