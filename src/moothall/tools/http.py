"""The MCP server over streamable HTTP at /mcp, for hosts that do not start it themselves.

All clients of the process are one agent in the hall: its identity is that of the process, and what one client has
listened to counts as heard for the others. Sessions of MCP are bounded, and so is everything that a client sends.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import uvicorn
from starlette.responses import PlainTextResponse
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from moothall.errors import UsageError
from moothall.tools.admission import Admission, Denial
from moothall.tools.leaving import LEFT
from moothall.tools.options import Options
from moothall.tools.server import build
from moothall.tools.session import Session
from moothall.wire.authority import Authority

PATH: Final = "/mcp"
MAX_BODY: Final = 1024 * 1024
MAX_SESSIONS: Final = 64
MAX_CONNECTIONS: Final = 128
SESSION_IDLE: Final = 30 * 60.0  # seconds without a request or an open stream
REQUEST_TIME: Final = 10.0  # seconds for the head of a request, and again for its body
CLOSE_TIME: Final = 3  # seconds that answers may take after the order to stop

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


async def serve(
    options: Options, place: Authority, admission: Admission, ready: Callable[[str], None]
) -> None:
    """Serve until a signal ends the process. `ready` is told the address. Raises UsageError if it is taken."""
    listening = bound(place)
    session = Session(options)
    server = build(session)
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=MAX_BODY,
        max_sessions=MAX_SESSIONS,
        session_idle_timeout=SESSION_IDLE,
        host=place.host,
    )
    config = uvicorn.Config(
        guarded(app, admission),
        http=ImpatientProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=CLOSE_TIME,
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    address = Authority(place.host, listening.getsockname()[1])
    ready(f"MCP at http://{address}{PATH}")
    try:
        await uvicorn.Server(config).serve(sockets=[listening])
    finally:
        await session.close()


def bound(place: Authority) -> socket.socket:
    """A socket that listens there. Raises UsageError."""
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    try:
        return socket.create_server((place.host, place.port), family=family)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {place}: {error.strerror}. Choose another port with --http"
        ) from None


def guarded(app: App, admission: Admission) -> App:
    """The app behind the checks of a request, with a bound on how long its body takes to come."""

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        denial = admission.denial(scope["headers"], scope["server"][0])
        if denial is not None:
            await _refuse(denial, scope, receive, send)
            return
        try:
            body = await asyncio.wait_for(_body(receive), REQUEST_TIME)
        except TimeoutError:
            await _refuse(Denial(408, "The body of the request took too long."), scope, receive, send)
            return
        if body is None:
            await _refuse(Denial(413, f"A request has at most {MAX_BODY} bytes."), scope, receive, send)
            return
        scope[LEFT] = left = asyncio.Event()
        await app(scope, _replayed(body, receive, left), send)

    return handle


async def _body(receive: Receive) -> bytes | None:
    """The body of a request; None if it is too long. One that breaks off is handed on as far as it came."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b"".join(parts)
        part = message.get("body", b"")
        size += len(part)
        if size > MAX_BODY:
            return None
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def _replayed(body: bytes, receive: Receive, left: asyncio.Event) -> Receive:
    """The body once more. `left` is set when the client is gone."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        if waiting:
            return waiting.pop()
        message = await receive()
        if message["type"] == "http.disconnect":
            left.set()
        return message

    return next_message


async def _refuse(denial: Denial, scope: Scope, receive: Receive, send: Send) -> None:
    headers = {"connection": "close"}
    if denial.status == 401:
        headers["www-authenticate"] = "Bearer"
    await PlainTextResponse(f"{denial.text}\n", denial.status, headers)(scope, receive, send)


class ImpatientProtocol(H11Protocol):
    """Closes a connection that takes longer than REQUEST_TIME to say what it wants."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._set_deadline()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_served():
            self._clear_deadline()
        elif self._deadline is None:  # the head of another request has begun; more pieces of it gain no time
            self._set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._clear_deadline()
        super().connection_lost(exc)

    def _is_served(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _set_deadline(self) -> None:
        self._deadline = self.loop.call_later(REQUEST_TIME, self._give_up)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        if not self._is_served():
            self.transport.close()
