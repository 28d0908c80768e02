"""The application's webhook, against a receiver on loopback."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from moothall.errors import NodeRefused, UsageError
from moothall.node.reports import Received
from moothall.node_api.objects import camel_case
from moothall.node_api.webhook import CURSOR_FILE, MAX_ATTEMPTS, Webhook, wanted_types
from moothall.wire.mesh.msg_types import MsgType
from tests.node_api.test_objects import received
from tests.support.server import PATIENCE


class Inbox:
    """What a webhook reads: rows with cursors, and callbacks for new ones."""

    def __init__(self) -> None:
        self.rows: list[Received] = []
        self.at_the_end = asyncio.Event()  # the webhook has read all rows
        self._callbacks: list[Callable[[Received], None]] = []

    def add(self, msg_type: MsgType) -> None:
        self.at_the_end.clear()
        known = received(msg_type)
        is_kept = msg_type is not MsgType.BEACON
        row = Received(len(self.rows) + is_kept, known.envelope, known.at)
        if is_kept:
            self.rows.append(row)
        for callback in self._callbacks:
            callback(row)

    async def read(self, after: int, limit: int) -> list[Received]:
        found = [row for row in self.rows if row.cursor > after][:limit]
        if not found:
            self.at_the_end.set()
        return found

    def listen(self, callback: Callable[[Received], None]) -> Callable[[], None]:
        self._callbacks.append(callback)
        return lambda: self._callbacks.remove(callback)


class Receiver:
    """Answers with the statuses that it is told, and then with 200."""

    def __init__(self) -> None:
        self.posts: asyncio.Queue[tuple[dict[str, str], dict[str, Any]]] = asyncio.Queue()
        self.statuses: list[int] = []
        self.url = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        headers = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
        body = await reader.readexactly(int(headers["Content-Length"]))
        status = self.statuses.pop(0) if self.statuses else 200
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()
        self.posts.put_nowait(({"line": head.split("\r\n")[0], **headers}, json.loads(body)))
        writer.close()

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE):
            return (await self.posts.get())[1]


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    running = Receiver()
    server = await asyncio.start_server(running.answer, "127.0.0.1", 0)
    async with server:
        running.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook?a=1"
        yield running


@asynccontextmanager
async def telling(
    inbox: Inbox, receiver: Receiver, folder: Path, types: str | None = None
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    webhook = Webhook(
        receiver.url,
        secret="hook-secret",
        types=wanted_types(types),
        folder=folder,
        read=inbox.read,
        listen=inbox.listen,
        log=structlog.get_logger(),
        pause=0.001,
    )
    task = asyncio.create_task(webhook.run())
    await asyncio.sleep(0)

    async def until_kept() -> None:
        async with asyncio.timeout(PATIENCE):
            await inbox.at_the_end.wait()
        assert (folder / CURSOR_FILE).read_text() == str(inbox.rows[-1].cursor)

    try:
        yield until_kept
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_each_envelope_is_told(receiver: Receiver, tmp_path: Path) -> None:
    inbox = Inbox()
    inbox.add(MsgType.PROPOSE)  # before the webhook was there
    async with telling(inbox, receiver, tmp_path) as until_kept:
        for msg_type in MsgType:
            inbox.add(msg_type)
        headers, first = await receiver.posts.get()
        assert headers["line"] == "POST /hook?a=1 HTTP/1.1"
        assert headers["Authorization"] == "Bearer hook-secret"
        assert headers["Content-Type"] == "application/json"
        told = [first["msg_type"], *[(await receiver.next())["msg_type"] for _ in list(MsgType)[1:]]]
        assert set(told) == {camel_case(each) for each in MsgType}
        in_order = [each for each in MsgType if each is not MsgType.BEACON]
        assert [name for name in told if name != "Beacon"] == [camel_case(each) for each in in_order]
        await until_kept()


async def test_a_new_webhook_that_hears_a_beacon_first(receiver: Receiver, tmp_path: Path) -> None:
    inbox = Inbox()
    inbox.add(MsgType.PROPOSE)
    async with telling(inbox, receiver, tmp_path) as until_kept:
        inbox.add(MsgType.BEACON)
        assert (await receiver.next())["msg_type"] == "Beacon"
        inbox.add(MsgType.ACCEPT)
        assert (await receiver.next())["msg_type"] == "Accept"
        await until_kept()


@pytest.mark.parametrize("types", ["notarize_bid, FEEDBACK", "NotarizeBid,Feedback"])
async def test_the_filter_knows_all_types(types: str, receiver: Receiver, tmp_path: Path) -> None:
    inbox = Inbox()
    async with telling(inbox, receiver, tmp_path, types) as until_kept:
        for msg_type in MsgType:
            inbox.add(msg_type)
        assert [(await receiver.next())["msg_type"] for _ in range(2)] == ["NotarizeBid", "Feedback"]
        await until_kept()
    assert receiver.posts.empty()


def test_types_that_are_none() -> None:
    assert wanted_types(None) == wanted_types(" , ") == frozenset(MsgType)
    with pytest.raises(UsageError, match="'NONSENSE' is not a message type"):
        wanted_types("PROPOSE,NONSENSE")


async def test_a_receiver_that_fails_is_told_again(receiver: Receiver, tmp_path: Path) -> None:
    inbox = Inbox()
    receiver.statuses = [500, 302, 404]
    with capture_logs() as logs:
        async with telling(inbox, receiver, tmp_path) as until_kept:
            inbox.add(MsgType.PROPOSE)
            inbox.add(MsgType.ACCEPT)
            told = [(await receiver.next())["msg_type"] for _ in range(5)]
            await until_kept()
    assert told == ["Propose"] * 4 + ["Accept"]
    assert [line["reason"] for line in logs] == ["answered 500", "answered 302", "answered 404"]
    assert "hook-secret" not in repr(logs)
    assert "/hook" not in repr(logs)


async def test_after_some_attempts_the_next_one_has_its_turn(receiver: Receiver, tmp_path: Path) -> None:
    inbox = Inbox()
    receiver.statuses = [500] * MAX_ATTEMPTS
    async with telling(inbox, receiver, tmp_path) as until_kept:
        inbox.add(MsgType.PROPOSE)
        inbox.add(MsgType.ACCEPT)
        told = [(await receiver.next())["msg_type"] for _ in range(MAX_ATTEMPTS + 1)]
        await until_kept()
    assert told == ["Propose"] * MAX_ATTEMPTS + ["Accept"]


async def test_what_came_while_the_node_was_down_is_told_later(receiver: Receiver, tmp_path: Path) -> None:
    inbox = Inbox()
    async with telling(inbox, receiver, tmp_path) as until_kept:
        inbox.add(MsgType.PROPOSE)
        assert (await receiver.next())["msg_type"] == "Propose"
        await until_kept()
    inbox.add(MsgType.COUNTER)
    async with telling(inbox, receiver, tmp_path) as until_kept:
        assert (await receiver.next())["msg_type"] == "Counter"
        await until_kept()


@pytest.mark.parametrize(("url", "secret"), [("ftp://x", None), ("http://x", "a\nb"), ("nonsense", None)])
def test_what_no_request_can_carry(url: str, secret: str | None, tmp_path: Path) -> None:
    inbox = Inbox()
    with pytest.raises(UsageError, match="--app-webhook"):
        Webhook(
            url,
            secret=secret,
            types=frozenset(),
            folder=tmp_path,
            read=inbox.read,
            listen=inbox.listen,
            log=structlog.get_logger(),
        )


async def test_a_store_that_fails_for_a_while(receiver: Receiver, tmp_path: Path) -> None:
    class Failing(Inbox):
        failures = 2

        async def read(self, after: int, limit: int) -> list[Received]:
            if self.failures:
                self.failures -= 1
                raise NodeRefused(503, "The node could not save this: the disk failed. Try again later.")
            return await super().read(after, limit)

    inbox = Failing()
    with capture_logs() as logged:
        async with telling(inbox, receiver, tmp_path) as until_kept:
            inbox.add(MsgType.PROPOSE)
            assert (await receiver.next())["msg_type"] == "Propose"
            await until_kept()
    assert [line["event"] for line in logged] == ["webhook_cannot_read"] * 2


async def test_a_cursor_that_cannot_be_written(receiver: Receiver, tmp_path: Path) -> None:
    inbox, folder = Inbox(), tmp_path / "gone"
    with capture_logs() as logged:
        async with telling(inbox, receiver, folder):
            for msg_type in (MsgType.PROPOSE, MsgType.REJECT):
                inbox.add(msg_type)
                assert (await receiver.next())["msg_type"] == camel_case(msg_type)
            async with asyncio.timeout(PATIENCE):
                await inbox.at_the_end.wait()
    assert {line["event"] for line in logged} == {"webhook_cursor_not_written"}
