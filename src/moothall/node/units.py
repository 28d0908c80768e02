"""Units of work of the store, as something to wait for."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from moothall.errors import NodeRefused
from moothall.hall.outside import Store
from moothall.node.desk import Books
from moothall.store.units import StoreFailed

Result = TypeVar("Result")
Done = Callable[[Result], None]
Failed = Callable[[BaseException], None]


async def done(store: Store[Books], work: Callable[[Books], Result]) -> Result:
    """What the unit returns, after its commit. Raises what it raises; NodeRefused (503) if the store failed."""
    return await awaited(lambda finished, failed: store.submit(work, finished, failed))


async def awaited(start: Callable[[Done[Result], Failed], None]) -> Result:
    """Start something that ends with one of two callbacks, and wait for it. It goes on if the caller is cancelled.

    Raises what `start` raises or fails with; NodeRefused (503) if the store failed.
    """
    future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

    def finished(result: Result) -> None:
        if not future.done():
            future.set_result(result)

    def failed(error: BaseException) -> None:
        if not future.done():
            future.set_exception(error)

    try:
        start(finished, failed)
        return await future
    except StoreFailed as error:
        raise NodeRefused(503, f"The node could not save this: {error}. Try again later.") from None
