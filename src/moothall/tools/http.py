"""The MCP server over streamable HTTP at /mcp, for hosts that do not start it themselves.

All clients of the process are one agent in the hall: its identity is that of the process, and what one client has
listened to counts as heard for the others. Sessions of MCP are bounded, and so is everything that a client sends.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Final

import uvicorn
from starlette.responses import PlainTextResponse

from moothall.asgi import App, Message, Receive, Scope, Send, bound, configured, whole_body
from moothall.tools.admission import Admission, Denial
from moothall.tools.budget_reports import reporting
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


async def serve(
    options: Options,
    place: Authority,
    admission: Admission,
    ready: Callable[[str], None],
    *,
    listening: socket.socket | None = None,
    has_sessions: bool = True,
) -> None:
    """Serve until a signal ends the process. `ready` is told the address. Raises UsageError if it is taken.

    `listening` is a socket that is bound to the place already. Without sessions of MCP, each request stands for
    itself, and a client does not notice that another process has answered the one before.
    """
    listening = listening or bound(place, "--http")
    session = Session(options)
    server = build(session)
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=MAX_BODY,
        max_sessions=MAX_SESSIONS,
        session_idle_timeout=SESSION_IDLE if has_sessions else None,
        stateless_http=not has_sessions,
        host=place.host,
    )
    config = configured(guarded(app, admission), MAX_CONNECTIONS, ws="none", lifespan="on")
    address = Authority(place.host, listening.getsockname()[1])
    ready(f"MCP at http://{address}{PATH}")
    try:
        async with reporting(session):
            await uvicorn.Server(config).serve(sockets=[listening])
    finally:
        await session.close()


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
            body = await whole_body(receive, MAX_BODY)
        except TimeoutError:
            await _refuse(Denial(408, "The body of the request took too long."), scope, receive, send)
            return
        if body is None:
            await _refuse(Denial(413, f"A request has at most {MAX_BODY} bytes."), scope, receive, send)
            return
        scope[LEFT] = left = asyncio.Event()
        await app(scope, _replayed(body, receive, left), send)

    return handle


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
