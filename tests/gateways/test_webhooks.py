"""Webhooks against receivers on real sockets, of every kind there is."""

import asyncio
import hashlib
import hmac
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from moothall.errors import SettingsError
from moothall.gateways.webhooks import MAX_HEAD, Webhooks, parse_target
from moothall.market.records import HookEvent
from tests.gateways.test_tls import write_certificate, write_key
from tests.support.sockets import PATIENCE

SECRET = "ring the bell"
EVENT = HookEvent(
    id="prop_1/escrow:created",
    name="escrow:created",
    deal="prop_1",
    at=1,
    body=json.dumps({"id": "prop_1/escrow:created", "task": "über"}).encode(),
)
OK = b"HTTP/1.1 204 No Content\r\n\r\n"

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Request:
    line: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """Reads requests and answers as it is told."""

    def __init__(self, answer: bytes | Answer) -> None:
        self._answer = answer
        self.requests: list[Request] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            line, *lines = head.rstrip().split("\r\n")
            headers = dict(each.split(": ", 1) for each in lines)
            body = await reader.readexactly(int(headers["Content-Length"]))
            self.requests.append(Request(line, headers, body))
            if isinstance(self._answer, bytes):
                writer.write(self._answer)
                await writer.drain()
            else:
                await self._answer(writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the sender has heard enough
        finally:
            writer.close()


@asynccontextmanager
async def receiving(answer: bytes | Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    receiver = Receiver(answer)
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    receiver.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}/hall?key=1"
    try:
        yield receiver
    finally:
        server.close()
        await server.wait_closed()


async def delivered(*urls: str, timeout: float = PATIENCE, attempt: int = 1) -> list[str | None]:  # noqa: ASYNC109
    """How the delivery to each of these went."""
    webhooks = Webhooks(urls, SECRET, timeout)
    webhooks.start()
    outcomes: list[asyncio.Future[str | None]] = []
    for listener in webhooks.listeners:
        outcome: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        listener.deliver(EVENT, attempt, outcome.set_result)
        outcomes.append(outcome)
    try:
        async with asyncio.timeout(PATIENCE):
            return await asyncio.gather(*outcomes)
    finally:
        await webhooks.close()


async def test_what_a_receiver_gets() -> None:
    async with receiving(OK) as receiver:
        assert await delivered(receiver.url, attempt=3) == [None]
    (request,) = receiver.requests
    assert request.line == "POST /hall?key=1 HTTP/1.1"
    assert request.body == EVENT.body
    digest = hmac.new(SECRET.encode(), EVENT.body, hashlib.sha256).hexdigest()
    assert request.headers["X-Moothall-Signature"] == f"sha256={digest}"
    assert request.headers["X-Moothall-Event"] == "escrow:created"
    assert request.headers["X-Moothall-Event-Id"] == EVENT.id
    assert request.headers["X-Moothall-Attempt"] == "3"
    assert request.headers["Content-Type"] == "application/json"
    assert f"http://{request.headers['Host']}/hall?key=1" == receiver.url


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", None),
        (b"HTTP/1.0 202 Accepted\r\n\r\n", None),
        (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 201 Created\r\n\r\n", None),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n", "answered 302"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "answered 400"),
        (b"HTTP/1.1 500 Oops\r\n\r\n", "answered 500"),
        (b"220 mail.example.org ESMTP\r\n\r\n", "the answer is not HTTP"),
        (b"HTTP/1.1 200 OK\r\n", "the answer is not HTTP"),
        (b"", "the answer is not HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"X-Long: 1234567890\r\n" * MAX_HEAD, "the answer is not HTTP"),
    ],
)
async def test_only_2xx_is_delivered(answer: bytes, outcome: str | None) -> None:
    async with receiving(answer) as receiver:
        assert await delivered(receiver.url) == [outcome]
    assert len(receiver.requests) == 1


async def test_a_huge_answer_is_not_read() -> None:
    stopped = asyncio.Event()

    async def pour(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        try:
            while True:
                writer.write(bytes(1 << 16))
                await writer.drain()
        finally:
            stopped.set()

    async with receiving(pour) as receiver:
        assert await delivered(receiver.url) == [None]
        async with asyncio.timeout(PATIENCE):
            await stopped.wait()


async def test_a_receiver_that_says_nothing_or_too_little_runs_out_of_time() -> None:
    finished = asyncio.Event()

    async def wait(writer: asyncio.StreamWriter) -> None:
        await finished.wait()

    async def drip(writer: asyncio.StreamWriter) -> None:
        """One header after the other: each is in time, all together are not."""
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while not finished.is_set():
            writer.write(b"X: 1\r\n")
            await writer.drain()
            with suppress(TimeoutError):
                await asyncio.wait_for(finished.wait(), 0.01)

    for answer in (wait, drip):
        async with receiving(answer) as receiver:
            assert await delivered(receiver.url, timeout=0.2) == ["no answer within 0.2 s"]
            finished.set()
        finished.clear()


async def test_a_slow_receiver_delays_no_other() -> None:
    finished = asyncio.Event()

    async def wait_for_the_other(writer: asyncio.StreamWriter) -> None:
        await finished.wait()
        writer.write(OK)
        await writer.drain()

    async def finish(writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        await writer.drain()
        finished.set()

    async with receiving(wait_for_the_other) as slow, receiving(finish) as quick:
        assert await delivered(slow.url, quick.url) == [None, None]


async def test_nobody_there() -> None:
    async with receiving(OK) as receiver:
        url = receiver.url
    (outcome,) = await delivered(url)
    assert outcome is not None
    assert "refused" in outcome.lower() or "connect" in outcome.lower()


async def test_a_name_that_does_not_exist() -> None:
    (outcome,) = await delivered("http://nowhere.invalid/")
    assert outcome is not None


async def test_certificates_are_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    write_certificate(cert, write_key(key))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    async with receiving(OK, context) as receiver:
        (outcome,) = await delivered(receiver.url)
        assert outcome is not None
        assert "CERTIFICATE_VERIFY_FAILED" in outcome
        assert receiver.requests == []
        monkeypatch.setenv("SSL_CERT_FILE", str(cert))
        assert await delivered(receiver.url) == [None]


async def test_what_is_on_its_way_when_the_hall_closes_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moothall.gateways.webhooks.CLOSING_SECONDS", 0.05)
    asked, finished = asyncio.Event(), asyncio.Event()

    async def wait(writer: asyncio.StreamWriter) -> None:
        asked.set()
        await finished.wait()

    told: list[str | None] = []
    async with receiving(wait) as receiver:
        webhooks = Webhooks([receiver.url], SECRET, PATIENCE)
        webhooks.start()
        webhooks.listeners[0].deliver(EVENT, 1, told.append)
        await asked.wait()
        await webhooks.close()
        assert told == ["the hall was closed"]
        finished.set()


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("ftp://example.org/", "http"),
        ("example.org/hall", "http"),
        ("https:///hall", "http"),
        ("http://example.org:port/", "port"),
        ("http://me:secret@example.org/", "password"),
        ("http://example.org/a b", "percent-encode"),
        ("http://example.org/\r\nX: 1", "percent-encode"),
        ("http://exämple.org/", "percent-encode"),
    ],
)
def test_what_is_no_address_is_refused(url: str, complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint) as raised:
        parse_target(url)
    assert "secret" not in str(raised.value)


def test_where_an_address_leads() -> None:
    assert parse_target("https://example.org") == ("example.org", 443, True, "example.org", "/")
    there = parse_target("http://[::1]:8080/a?b=c#d")
    assert there == ("::1", 8080, False, "[::1]:8080", "/a?b=c")
    assert there.origin == "http://[::1]:8080"
