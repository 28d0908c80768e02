"""Asking the hall something, waiting for the answer, but not for ever; and which reply belongs to which request.

A server that echoes `ref` makes it easy: `ByRef` has any number of requests under way. A server that does not
(agentchat wire 1.1) gets them one at a time from `OneAtATime`, which tells a reply by its type and content. Where
success is silent, a PING follows the request: whatever the server had to say about it comes before the PONG.
Either way no call can take the answer of another.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import msgspec

from moothall.client.incoming import Incoming
from moothall.errors import (
    InvalidMessage,
    NotConnected,
    NotOffered,
    RateLimited,
    Refusal,
    Unanswered,
    UnexpectedReply,
    UnknownRefusal,
)
from moothall.wire.agentchat.client import ClientMessage, Ping
from moothall.wire.agentchat.server import Error, Pong, ServerMessage

if TYPE_CHECKING:
    from moothall.client.connection import HallConnection

RETRIES: Final = 20
RETRY_AFTER: Final = 1.0  # seconds


Reply = TypeVar("Reply", bound=ServerMessage)
Result = TypeVar("Result")
Transmit = Callable[[ClientMessage], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Request:
    message: ClientMessage
    is_reply: Callable[[ServerMessage], bool]  # for servers that do not echo `ref`
    may_be_silent: bool = False  # success may bring no reply at all

    @property
    def kind(self) -> str:
        return str(self.message.__struct_config__.tag)


class Replies(Protocol):
    async def ask(self, request: Request) -> ServerMessage:
        """The reply, or Refusal. After a silent success it is some message without content."""

    def offer(self, incoming: Incoming) -> None:
        """Something arrived; perhaps it is a reply."""

    def fail(self, error: Callable[[], Exception]) -> None:
        """The connection is gone: every waiting caller gets an error of its own."""


def refusal(error: Error) -> Refusal:
    known = Refusal.by_code.get(error.code)
    if known is None or known is UnknownRefusal:
        return UnknownRefusal(error.message, error.code)
    return known(error.message)


class ByRef:
    def __init__(self, transmit: Transmit) -> None:
        self._transmit = transmit
        self._waiting: dict[str, asyncio.Future[ServerMessage]] = {}
        self._last = 0

    async def ask(self, request: Request) -> ServerMessage:
        self._last += 1
        ref = str(self._last)
        reply: asyncio.Future[ServerMessage] = asyncio.get_running_loop().create_future()
        self._waiting[ref] = reply
        try:
            await self._transmit(msgspec.structs.replace(request.message, ref=ref))
            return await reply
        finally:
            self._waiting.pop(ref, None)

    def offer(self, incoming: Incoming) -> None:
        if incoming.ref is None:
            return
        reply = self._waiting.pop(incoming.ref, None)
        if reply is None or reply.done():
            return
        body = incoming.body
        if body is None:
            _reject(reply, UnexpectedReply(f"the hall's {incoming.type} is not as it should be"))
        elif isinstance(body, Error):
            _reject(reply, refusal(body))
        else:
            reply.set_result(body)

    def fail(self, error: Callable[[], Exception]) -> None:
        for reply in self._waiting.values():
            if not reply.done():
                _reject(reply, error())
        self._waiting.clear()


class OneAtATime:
    def __init__(self, transmit: Transmit) -> None:
        self._transmit = transmit
        self._turn = asyncio.Lock()
        self._asked: Request | None = None
        self._reply: asyncio.Future[ServerMessage] | None = None
        self._found: ServerMessage | None = None
        self._pongs_due = 0
        self._abandoned = False  # a caller gave up; replies to its request may still come

    async def ask(self, request: Request) -> ServerMessage:
        async with self._turn:
            if self._abandoned:
                await self._catch_up()
            return await self._exchange(request)

    async def _exchange(self, request: Request) -> ServerMessage:
        reply: asyncio.Future[ServerMessage] = asyncio.get_running_loop().create_future()
        self._asked, self._reply, self._found = request, reply, None
        self._abandoned = True
        try:
            if isinstance(request.message, Ping):
                await self._ping()
            else:
                await self._transmit(request.message)
            if request.may_be_silent:
                await self._ping()
            answer = await reply
        finally:
            self._asked = self._reply = None
        self._abandoned = False
        if isinstance(answer, Error):
            raise refusal(answer)
        return answer

    async def _catch_up(self) -> None:
        """Skip the replies to abandoned requests."""
        reply: asyncio.Future[ServerMessage] = asyncio.get_running_loop().create_future()
        self._reply = reply
        try:
            await self._ping()
            await reply
        finally:
            self._reply = None
        self._abandoned = False

    async def _ping(self) -> None:
        self._pongs_due += 1
        await self._transmit(Ping())

    def offer(self, incoming: Incoming) -> None:
        body = incoming.body
        if isinstance(body, Pong):
            self._pongs_due = max(0, self._pongs_due - 1)
        if self._reply is None or self._reply.done() or body is None:
            return
        if self._asked is None or self._asked.may_be_silent:
            self._wait_for_pong(body, self._reply)
        elif isinstance(body, Error) or self._asked.is_reply(body):
            self._reply.set_result(body)

    def _wait_for_pong(self, body: ServerMessage, reply: "asyncio.Future[ServerMessage]") -> None:
        if isinstance(body, Pong) and self._pongs_due == 0:
            reply.set_result(self._found or body)
        elif self._asked is None or self._found is not None:
            return
        elif isinstance(body, Error) or self._asked.is_reply(body):
            self._found = body

    def fail(self, error: Callable[[], Exception]) -> None:
        if self._reply is not None and not self._reply.done():
            _reject(self._reply, error())


def _reject(reply: "asyncio.Future[ServerMessage]", error: Exception) -> None:
    reply.set_exception(error)
    reply.exception()  # seen: a caller that was cancelled in this very moment is no reason to complain


class Exchange:
    """`connection` gives the connection in use, when there is one."""

    def __init__(self, connection: "Callable[[], Awaitable[HallConnection]]", patience: float) -> None:
        self._connection = connection
        self.patience = patience  # seconds, where a caller names none

    async def ask(
        self,
        message: ClientMessage,
        reply: type[Reply],
        matches: Callable[[Reply], bool] | None = None,
        *,
        patience: float | None = None,
    ) -> Reply:
        """The reply of this type; `matches` tells it from others of the type."""
        answer = await self.request(Request(message, _recogniser(reply, matches)), patience)
        if not isinstance(answer, reply):
            raise UnexpectedReply(f"the hall answered {type(answer).__name__} instead of {reply.__name__}")
        return answer

    async def tell(
        self,
        message: ClientMessage,
        reply: type[Reply],
        matches: Callable[[Reply], bool] | None = None,
        *,
        patience: float | None = None,
    ) -> Reply | None:
        """The same for messages whose success may be silent: then None."""
        answer = await self.request(
            Request(message, _recogniser(reply, matches), may_be_silent=True), patience
        )
        return answer if isinstance(answer, reply) else None

    async def request(
        self, request: Request, patience: float | None = None, ready: Callable[[], None] | None = None
    ) -> ServerMessage:
        """`ready` is called when there is a connection, before anything is sent."""
        limit = self.patience if patience is None else patience
        connection: HallConnection | None = None
        try:
            async with asyncio.timeout(limit):
                connection = await self._connection()
                if ready is not None:
                    ready()
                return await connection.ask(request)
        except InvalidMessage:
            feature = request.message.feature
            if feature is None or connection is None or not connection.lacks(feature):
                raise
            raise NotOffered(f"this server does not offer it: {request.kind}") from None
        except TimeoutError:
            if connection is None:
                raise NotConnected(f"no connection came up within {limit:.3g} s") from None
            raise Unanswered(f"the hall did not answer {request.kind} within {limit:.3g} s") from None


async def patiently(action: Callable[[], Awaitable[Result]]) -> Result:
    """Run an action that exceeds the hall's rate, and repeat it after RATE_LIMITED."""
    for _ in range(RETRIES):
        try:
            return await action()
        except RateLimited:
            await asyncio.sleep(RETRY_AFTER)
    return await action()


def _recogniser(
    reply: type[Reply], matches: Callable[[Reply], bool] | None
) -> Callable[[ServerMessage], bool]:
    def is_reply(body: ServerMessage) -> bool:
        return isinstance(body, reply) and (matches is None or matches(body))

    return is_reply
