"""Asking the hall something and waiting for the answer, but not for ever."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from moothall.client.connection import HallConnection
from moothall.client.replies import Request
from moothall.errors import (
    InvalidMessage,
    NotConnected,
    NotOffered,
    RateLimited,
    Unanswered,
    UnexpectedReply,
)
from moothall.wire.agentchat.client import ClientMessage
from moothall.wire.agentchat.server import ServerMessage

RETRIES: Final = 20
RETRY_AFTER: Final = 1.0  # seconds

_UNKNOWN_TYPE: Final = re.compile(
    r"\b(?:unknown|unsupported|invalid|unrecogni[sz]ed) (?:message )?type\b", re.IGNORECASE
)

Reply = TypeVar("Reply", bound=ServerMessage)
Result = TypeVar("Result")


class Exchange:
    """`connection` gives the connection in use, when there is one."""

    def __init__(self, connection: Callable[[], Awaitable[HallConnection]], patience: float) -> None:
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

    async def request(self, request: Request, patience: float | None = None) -> ServerMessage:
        limit = self.patience if patience is None else patience
        connection: HallConnection | None = None
        try:
            async with asyncio.timeout(limit):
                connection = await self._connection()
                return await connection.ask(request)
        except InvalidMessage as refused:
            if not _is_unknown_type(refused):
                raise
            raise NotOffered(f"this server does not offer it: {request.kind}") from None
        except TimeoutError:
            if connection is None:
                raise NotConnected(f"no connection came up within {limit:.3g} s") from None
            raise Unanswered(f"the hall did not answer {request.kind} within {limit:.3g} s") from None


def _is_unknown_type(refused: InvalidMessage) -> bool:
    """The code says only that a message was invalid, and each server has its own words for the rest."""
    return _UNKNOWN_TYPE.search(refused.message) is not None


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
