"""How a request is answered: who may ask, how often, how large, how long, and errors as JSON."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from moothall.asgi import whole_body
from moothall.errors import NodeRefused
from moothall.node_api import bodies
from moothall.node_api.auth import Keys, Level, bearer
from moothall.settings.limits import Rate, Window

MAX_BODY: Final = 1024 * 1024  # bytes
HANDLING_TIME: Final = 30.0  # seconds

SEND_RATE: Final = Rate(120, 60)  # of all routes that send, together (mesh wire 13)
SIGN_RATE: Final = Rate(60, 60)

T = TypeVar("T")
Handler = Callable[[Request], Awaitable[Response]]


class Limits:
    """How often the routes can be used. `clock` is in seconds. The node itself counts what hosted agents do."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._send = Window(SEND_RATE)
        self._sign = Window(SIGN_RATE)

    def send(self) -> None:
        """Raises NodeRefused (429)."""
        self._count(self._send, SEND_RATE)

    def sign(self) -> None:
        """Raises NodeRefused (429)."""
        self._count(self._sign, SIGN_RATE)

    def _count(self, window: Window, rate: Rate) -> None:
        if not window.admit(self._clock()):
            allowed = f"{rate.limit} requests in {rate.seconds:g} s"
            raise NodeRefused(429, f"rate limit exceeded: this takes {allowed}; try again later")


def guard(handler: Handler, keys: Keys, level: Level, admit: Callable[[], None] | None = None) -> Handler:
    """The handler, for those who may use it. `admit` counts, and raises NodeRefused."""

    async def handle(request: Request) -> Response:
        keys.require(bearer(request.headers), level)
        if admit is not None:
            admit()
        try:
            async with asyncio.timeout(HANDLING_TIME):
                return await handler(request)
        except TimeoutError:
            raise NodeRefused(
                503, f"the node did not finish this within {HANDLING_TIME:g} s; look whether it was done"
            ) from None

    return handle


async def body_of(request: Request, kind: type[T]) -> T:
    """Raises NodeRefused: 408, 413, 415, 400 or 422."""
    try:
        text = await whole_body(request.receive, MAX_BODY)
    except TimeoutError:
        raise NodeRefused(408, "the body of the request took too long") from None
    if text is None:
        raise NodeRefused(413, f"a request has at most {MAX_BODY} bytes")
    return bodies.read_body(text, request.headers.get("content-type", ""), kind)


def answer(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type=bodies.JSON)


def refusal(status: int, text: str) -> Response:
    headers: dict[str, Any] = {"www-authenticate": "Bearer"} if status == 401 else {}
    return Response(msgspec.json.encode({"error": text}), status, headers, bodies.JSON)
