"""What our HTTP servers on uvicorn share: the listening socket, time limits, and bounds on what a client sends."""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from moothall.errors import UsageError
from moothall.wire.authority import Authority

REQUEST_TIME: Final = 10.0  # seconds for the head of a request, and again for its body
CLOSE_TIME: Final = 3  # seconds that answers may take after the order to stop
ABORT_TIME: Final = 15.0  # seconds from our close frame to the end of the connection, read or not

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def bound(place: Authority, flag: str) -> socket.socket:
    """A socket that listens there. Raises UsageError, which names the flag that chose the place."""
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    try:
        return socket.create_server((place.host, place.port), family=family)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {place}: {error.strerror}. Choose another port with {flag}"
        ) from None


def configured(app: App, most_connections: int, **others: Any) -> uvicorn.Config:
    """How uvicorn serves an app of ours. It logs warnings only: URLs may have tokens in them."""
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    return uvicorn.Config(
        app,
        http=ImpatientProtocol,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=most_connections,
        timeout_graceful_shutdown=CLOSE_TIME,
        **others,
    )


async def whole_body(receive: Receive, most: int) -> bytes | None:
    """The body of a request; None if it is longer than `most` bytes. One that breaks off is handed on as far as
    it came. Raises TimeoutError after REQUEST_TIME."""
    parts: list[bytes] = []
    size = 0
    async with asyncio.timeout(REQUEST_TIME):
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return b"".join(parts)
            part = message.get("body", b"")
            size += len(part)
            if size > most:
                return None
            parts.append(part)
            if not message.get("more_body", False):
                return b"".join(parts)


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
        if self.transport.get_protocol() is not self:  # it has become a WebSocket
            return True
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


class ClosableWebSocket(WebSocketsSansIOProtocol):
    """Closes also when the client does not read: the close frame does not wait until the client catches up.

    An answer in place of a handshake ends it: uvicorn would log an error for each client that has no key.
    """

    async def send(self, message: Any) -> None:
        if message["type"] == "websocket.close":
            self.writable.set()
            self.loop.call_later(ABORT_TIME, self.transport.abort)
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True
