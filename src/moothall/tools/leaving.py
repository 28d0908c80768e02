"""A client over HTTP may leave before it has its answer: a laptop goes to sleep, a network changes.

On standard input a host that dies ends this process, and what it has not confirmed is told again. Over HTTP the
process goes on. So a call that only reads ends with its client, and what it was told counts as unread.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from mcp.server.context import ServerRequestContext

LEFT: Final = "moothall.left"  # in the scope of a request: an event that is set when its client has left

T = TypeVar("T")


class ClientLeft(Exception):  # it is no fault
    """The answer has no reader."""


def departure(context: ServerRequestContext[Any, Any]) -> asyncio.Event | None:
    """What is set when the client of this request leaves; None on standard input."""
    request = context.request
    return None if request is None else request.scope.get(LEFT)


async def while_there(left: asyncio.Event | None, work: Coroutine[Any, Any, T]) -> T:
    """Do the work while the client is there. Raises ClientLeft, after the work was cancelled."""
    if left is None:
        return await work
    doing = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(left.wait())
    try:
        await asyncio.wait((doing, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise ClientLeft
        return doing.result()
    finally:
        leaving.cancel()
        doing.cancel()
        await asyncio.gather(doing, leaving, return_exceptions=True)
