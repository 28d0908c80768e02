"""Webhooks: events go out as HTTP POSTs with a signed body (see `moothall.market.courier` for when and how often).

They leave from a thread with a loop of its own, so that neither names to look up nor TLS keep the hall waiting. A
delivery is one connection, one request and the head of one answer: 2xx is delivered, and anything else is not.
Redirects are not followed, because a signed body is only for the address that the operator named. The body
of the answer is never read.

The addresses are the operator's own: that they may lead anywhere, also into the operator's network, is the point.
"""

import asyncio
import re
import ssl
import threading
from collections.abc import Iterable
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from moothall import __version__
from moothall.errors import SettingsError
from moothall.market.courier import Told
from moothall.market.hooks import SIGNATURE_HEADER, Subscription, body_signature
from moothall.market.records import HookEvent

EVENT_HEADER: Final = "X-Moothall-Event"
ID_HEADER: Final = "X-Moothall-Event-Id"
ATTEMPT_HEADER: Final = "X-Moothall-Attempt"

HANDS: Final = 4  # requests to one receiver at a time
MAX_HEAD: Final = 16 * 1024  # bytes of an answer's head; as much again is all that is kept of its body
CLOSING_SECONDS: Final = 2.0  # for what is on its way when the hall closes
PORTS: Final = {"http": 80, "https": 443}

_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([1-5]\d\d)[ \r]")


class Target(NamedTuple):
    """Where a URL leads."""

    host: str
    port: int
    is_tls: bool
    authority: str  # what Host says
    path: str

    @property
    def origin(self) -> str:
        return f"{'https' if self.is_tls else 'http'}://{self.authority}"


def parse_target(url: str) -> Target:
    """Raises SettingsError. The parts of a URL go into a request as they are, so they must be fit for one."""
    if not url.isascii() or not url.isprintable() or " " in url:
        raise SettingsError(f"webhook {url!r}: only printable ASCII; percent-encode the rest")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise SettingsError(f"webhook {url!r}: {error}") from None
    if parts.scheme not in PORTS or not parts.hostname:
        raise SettingsError(f"webhook {url!r}: must be http://… or https://…")
    if "@" in parts.netloc:
        raise SettingsError("webhook with a password in its URL: receivers trust the signature instead")
    return Target(
        host=parts.hostname,
        port=port or PORTS[parts.scheme],
        is_tls=parts.scheme == "https",
        authority=parts.netloc,
        path=(parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
    )


class Webhook:
    """One address, as a listener of the courier's."""

    hands = HANDS

    def __init__(self, url: str, sender: "Webhooks") -> None:
        self._target = parse_target(url)
        self._sender = sender
        self.subscription = Subscription(url)
        self.shown_as = self._target.origin  # paths and queries of webhooks are often secrets
        self.patience = sender.timeout

    def deliver(self, event: HookEvent, attempt: int, told: Told) -> None:
        self._sender.send(self._target, event, attempt, told)


class Webhooks:
    """The thread that all webhooks share; it begins with `start`, if there are any."""

    def __init__(self, urls: Iterable[str], secret: str, timeout: float) -> None:
        self.timeout = timeout
        self.listeners = [Webhook(url, self) for url in urls]
        self._secret = secret.encode()
        self._tasks: set[asyncio.Task[str | None]] = set()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self.listeners:
            self._tls = ssl.create_default_context()
            self._hall_loop = asyncio.get_running_loop()
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._serve, name="webhooks", daemon=True)
            self._thread.start()

    def send(self, target: Target, event: HookEvent, attempt: int, told: Told) -> None:
        self._loop.call_soon_threadsafe(self._start, target, event, attempt, told)

    async def close(self) -> None:
        """What is on its way gets a moment more; all that was sent has been told when this returns."""
        if self._thread is not None:
            finishing = asyncio.run_coroutine_threadsafe(self._finish(), self._loop)
            await asyncio.wrap_future(finishing)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    # -- on the thread -------------------------------------------------------------------------------

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_default_executor())  # which looked names up
        finally:
            self._loop.close()

    def _start(self, target: Target, event: HookEvent, attempt: int, told: Told) -> None:
        request = _request(target, event, attempt, self._secret)
        task = self._loop.create_task(post(target, request, self._tls, self.timeout))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._hall_loop.call_soon_threadsafe(told, _outcome(done)))
        task.add_done_callback(self._tasks.discard)

    async def _finish(self) -> None:
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=CLOSING_SECONDS)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)


def _request(target: Target, event: HookEvent, attempt: int, secret: bytes) -> bytes:
    head = (
        f"POST {target.path} HTTP/1.1\r\n"
        f"Host: {target.authority}\r\n"
        f"User-Agent: moothall/{__version__}\r\n"
        "Content-Type: application/json\r\n"
        f"Content-Length: {len(event.body)}\r\n"
        f"{SIGNATURE_HEADER}: {body_signature(secret, event.body)}\r\n"
        f"{EVENT_HEADER}: {event.name}\r\n"
        f"{ID_HEADER}: {event.id}\r\n"
        f"{ATTEMPT_HEADER}: {attempt}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + event.body


async def post(target: Target, request: bytes, tls: ssl.SSLContext, patience: float) -> str | None:
    """None if it was delivered, else why not. From the name's lookup to the answer's head, all in `patience`."""
    try:
        async with asyncio.timeout(patience):
            status = await _exchange(target, request, tls)
    except TimeoutError:
        return f"no answer within {patience:g} s"
    except OSError as error:
        return str(error) or type(error).__name__
    except (EOFError, asyncio.LimitOverrunError, ValueError):
        return "the answer is not HTTP"
    return None if 200 <= status < 300 else f"answered {status}"


async def _exchange(target: Target, request: bytes, tls: ssl.SSLContext) -> int:
    reader, writer = await asyncio.open_connection(
        target.host, target.port, ssl=tls if target.is_tls else None, limit=MAX_HEAD
    )
    try:
        writer.write(request)
        await writer.drain()
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            status = _STATUS.match(head)
            if status is None:
                raise ValueError(head)
            if status[1][0:1] != b"1":  # an interim answer: the final one follows
                return int(status[1])
    finally:
        writer.transport.abort()


def _outcome(task: "asyncio.Task[str | None]") -> str | None:
    if task.cancelled():
        return "the hall was closed"
    error = task.exception()
    return task.result() if error is None else repr(error)
